#!/system/bin/sh
# Started by Magisk and KernelSU late in the boot, as root. Keeps the daemon running, and restores what a killed
# daemon has left before it starts the next one. Gives up after five failures in a row within 60 s of a start.
module=${0%/*}
brisk=$module/system/bin/brisk

until [ "$(getprop sys.boot_completed)" = 1 ]; do
	sleep 1
done

failures=0
while [ ! -e "$module/disable" ] && [ ! -e "$module/remove" ] && [ "$failures" -lt 5 ]; do
	started=$(date +%s)
	"$brisk" daemon && break
	"$brisk" restore
	if [ $(($(date +%s) - started)) -lt 60 ]; then
		failures=$((failures + 1))
	else
		failures=0
	fi
	sleep 1
done
