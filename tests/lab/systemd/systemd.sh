#!/bin/sh
# The processes that systemd-oomd kills on a real kernel, and when. Runs in the lab's guest as a service of systemd, as
# `systemd.sh NAME...`; tests/lab/systemd/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

# start PROPERTY... -- ARGUMENT...: an application of the workload, in its own scope; its process is $started.
start() {
	properties=
	while [ "$1" != -- ]; do
		properties="$properties --property=$1"
		shift
	done
	shift
	rm -f /tmp/screen /tmp/tap
	mkfifo /tmp/tap
	# A process keeps the other end open for the lifetime of the guest.
	sleep 100000 >/tmp/tap &
	# shellcheck disable=SC2086 # words
	systemd-run --scope --quiet --collect --slice=app.slice $properties -- \
		brisk application --seed 1 --turns-per-ms 1000 --storage /dev/flash0 "$@" </tmp/tap >/tmp/screen &
	started=$!
	wait_for 60 grep -q . /tmp/screen
}

# killed: those of $applications that have exited.
killed() {
	gone=
	for pid in $applications; do
		if ! grep -qa . "/proc/$pid/cmdline" 2>/dev/null; then gone="$gone $pid"; fi
	done
	echo "$gone"
}

has_killed() {
	[ -n "$(killed)" ]
}

oom_kills() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}

swap() {
	echo lzo-rle >/sys/block/zram0/comp_algorithm
	echo 256M >/sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null
	swapon /dev/zram0
}

first() {
	say first.name "$(cat /proc/1/comm)"
	say first.group "$(cat /proc/self/cgroup)"
	say first.services "$(find /sys/fs/cgroup/system.slice -name '*.service' | sed 's|.*/||' | sort | tr '\n' ' ')"
}

# A process with a low memory limit that allocates more and more.
pressure() {
	swap
	start MemoryHigh=24M -- --number 1 --grow
	applications=$started
	wait_for 120 has_killed
	say pressure.swap "$(sed -n 's/^SwapFree: *//p' /proc/meminfo)"
	say pressure.oom "$(oom_kills)"
}

# Small applications after large ones, until swap is almost full.
full() {
	applications=
	for number in 1 1 1 1 1 1; do
		start -- --number $number
		applications="$applications $started"
	done
	large=$applications
	while ! has_killed; do
		start -- --number 14
		applications="$applications $started"
		sleep 1
	done
	say full.swap "$(sed -n 's/^SwapFree: *//p' /proc/meminfo)"
	say full.killed "$(killed)"
	say full.large "$large"
	say full.oom "$(oom_kills)"
}

for step in "$@"; do
	"$step"
done
sed -n '/^Killed /s/^/killed: /p' /run/oomd.log
