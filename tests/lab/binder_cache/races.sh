#!/bin/sh
# The binder cache's race while KCSAN watches the binder driver: races.sh LOOKUPS. Runs in the lab's guest;
# tests/lab/binder_cache/mod.rs reads the lines "report: ..." and the counters, and checks them.
set -eu

kcsan=/sys/kernel/debug/kcsan
[ -e "$kcsan" ] || mount -t debugfs none /sys/kernel/debug

# KCSAN reports nothing about the rest of the kernel. The driver's functions are contiguous.
awk '$2 ~ /[tT]/ && $3 !~ /^__(pfx|cfi)_/ { names[++count] = $3 }
	$2 ~ /[tT]/ && $3 ~ /^binder_/ { first = first ? first : count; last = count }
	END { for (i = first; i <= last; i++) print names[i] }' /proc/kallsyms >/functions
while read -r function; do
	echo "!$function" >"$kcsan"
done </functions
echo whitelist >"$kcsan"
echo "functions: $(wc -l </functions)"

# Read during the race, because the log would overflow.
cat /dev/kmsg >/messages &
reader=$!
echo on >"$kcsan"
/bin/hazards race "$1"
echo off >"$kcsan"
sleep 1
kill "$reader"
sed -n 's/.*BUG: KCSAN: data-race in //p' /messages | sort | uniq -c |
	while read -r times pair; do echo "report: $pair ($times times)"; done
# The first report of each pair, with its stacks.
awk -F';' '/BUG: KCSAN: data-race in / { shows = !seen[$2]++ }
	shows && $2 !~ /^=*$/ { print "detail: " $2 }
	/Reported by Kernel Concurrency Sanitizer/ { shows = 0 }' /messages
grep -E '^(setup_watchpoints|data_races):' "$kcsan"
