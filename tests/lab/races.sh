#!/bin/sh
# The binder cache's race while KCSAN watches the binder driver: races.sh LOOKUPS. Runs in the lab's guest;
# tests/lab/binder_cache.rs reads what it says and judges.
set -eu

mount -t debugfs none /sys/kernel/debug
kcsan=/sys/kernel/debug/kcsan

# Of the rest of the kernel, whose races are known, nothing is reported. The driver's functions lie together.
awk '$2 ~ /[tT]/ && $3 !~ /^__(pfx|cfi)_/ { names[++count] = $3 }
	$3 ~ /binder/ { first = first ? first : count; last = count }
	END { for (i = first; i <= last; i++) print names[i] }' /proc/kallsyms >/functions
while read -r function; do
	echo "!$function" >"$kcsan"
done </functions
echo whitelist >"$kcsan"
echo "functions: $(wc -l </functions)"

echo on >"$kcsan"
/bin/hazards race "$1"
echo off >"$kcsan"
grep -E '^(setup_watchpoints|data_races):' "$kcsan"
