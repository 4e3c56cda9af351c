#!/bin/sh
# Lookups through the binder driver of a phone's kernel, whose cache is off and then on. Runs in the lab's guest;
# tests/lab/android/mod.rs reads the lines "NAME: TEXT".
set -eu

# A device in a binderfs has its minor number in the name of its cache.
cache=$(echo /sys/kernel/binder_cache/binder.*)

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

bench() {
	say "$1" "$(brisk lookup bench --manager own --services 100 --lookups 400 --format android-16 --json | tr -d '\n')"
}

# A lower frequency slows lookups, too.
echo performance >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
bench off
brisk lookup profile android-16 >"$cache"/profile
echo transparent >"$cache"/mode
bench on
say hits "$(sed -n 's/^hits //p' "$cache"/stats)"
