#!/system/bin/sh
# Started by Magisk and KernelSU late in the boot, as root. Keeps the daemon running; what a killed one left is given
# back before the next one starts. It gives up when the daemon fails at once, time after time.
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
