#!/system/bin/sh
# Run by Magisk and KernelSU at the boot after the removal: the reboot has reset the tunables, so only learned data and settings
# are left, and the files and the property of a `brisk prove boot --here` series.
record=/data/adb/brisk/reboots/preload.before
if [ -e "$record" ]; then
	# Persistent properties are not loaded yet: init would keep a new value in memory only.
	resetprop -p persist.brisk.preload "$(head -n 1 "$record")"
fi
rm -f /data/adb/service.d/brisk-reboots.sh /data/adb/post-fs-data.d/brisk-reboots-hold.sh
rm -rf /data/misc/brisk /data/misc/brisk-config /data/adb/brisk
