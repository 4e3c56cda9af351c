#!/bin/sh
# Programs whose time goes into known causes, recorded and explained. Runs in the lab's guest as `causes.sh CAUSE,CAUSE...`;
# tests/lab/trace/causes.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

policy=/sys/devices/system/cpu/cpufreq/policy0

cat >/hog <<'END'
#!/bin/sh
while :; do :; done
END
chmod +x /hog
# The kernel names a program by its file.
ln -s "$(command -v brisk)" /causes
ln -s "$(command -v brisk)" /servicemanager

echo userspace >"$policy/scaling_governor"
cat "$policy/cpuinfo_max_freq" >"$policy/scaling_setspeed"
echo lz4 >/sys/block/zram0/comp_algorithm
echo 512M >/sys/block/zram0/disksize
mkswap /dev/zram0 >/dev/null
swapon /dev/zram0

/servicemanager lab context-manager --turns 1250000 >/manager.out &
manager=$!
is_ready() {
	grep -q ready /manager.out
}
wait_for 20 is_ready

free_kib() {
	awk '$1 == "MemFree:" { print $2 }' /proc/meminfo
}

# fill_memory: leaves some 40 MiB free; files in memory, which can only be swapped out, have the rest.
mkdir /fill
mount -t tmpfs -o size=100% none /fill
fill_memory() {
	while [ "$(free_kib)" -gt 40960 ]; do
		head -c 8388608 /causes >>/fill/file
	done
}

for causes in "$@"; do
	hog=
	case $causes in
	*runnable*)
		/hog &
		hog=$!
		;;
	esac
	case $causes in *reclaim*) fill_memory ;; esac
	# shellcheck disable=SC2046
	brisk trace record --json --event syscalls/sys_enter_futex --event syscalls/sys_exit_futex --buffer-kib 2048 \
		--output "/$causes.dat" -- /causes lab causes --manager "$manager" $(echo "$causes" | tr , ' ') >/record.out
	[ -z "$hog" ] || kill "$hog"
	say truth "$(head -n 1 /record.out)"
done

# An explanation takes memory, too.
rm -f /fill/file
for causes in "$@"; do
	say explained "$(brisk trace explain "/$causes.dat" --launch causes --json | tr -d '\n' | sed 's/  */ /g')"
done
