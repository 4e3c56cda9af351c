# A board that others measure over ssh. It prints "ready"; when /run/stop exists, it prints what is not as it was before.
snapshot() {
	cd /sys/devices/system/cpu/cpufreq/policy0 && cat scaling_governor scaling_min_freq scaling_max_freq ../ondemand/*
}

before=$(snapshot)
echo ready
until [ -e /run/stop ]; do
	sleep 0.2
done
[ "$before" = "$(snapshot)" ] || echo "changed: $(snapshot)"
ls -A /tmp /var/tmp | grep '^brisk' | sed 's/^/file: /'
ls -l /proc/[0-9]*/exe 2>/dev/null | grep '/tmp/brisk' | sed 's/^/process: /'
exit 0
