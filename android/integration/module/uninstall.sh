#!/system/bin/sh
# Run by Magisk and KernelSU at the boot after the removal: tunables are new by then, only what was learned and set is left, and what
# goes on with `brisk prove boot --here`, or is an arm's of it.
record=/data/adb/brisk/reboots/preload.before
if [ -e "$record" ]; then
	# What is persistent is not loaded yet: init would keep what it is told now in memory alone.
	resetprop -p persist.brisk.preload "$(head -n 1 "$record")"
fi
rm -f /data/adb/service.d/brisk-reboots.sh /data/adb/post-fs-data.d/brisk-reboots-hold.sh
rm -rf /data/misc/brisk /data/misc/brisk-config /data/adb/brisk
