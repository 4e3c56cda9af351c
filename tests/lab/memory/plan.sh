#!/bin/sh
# Memory settings, applied and restored on a real kernel. Runs in the lab's guest, as `plan.sh NAME...`;
# tests/lab/memory/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/memory/device.sh
. /device.sh

# Starts `brisk memory apply`; each change is a line on descriptor 3.
start() {
	rm -f /tmp/lines
	mkfifo /tmp/lines
	brisk memory apply >/tmp/lines 2>>/tmp/errors &
	applier=$!
	exec 3</tmp/lines
}

# hear COUNT: waits until so many changes were made.
hear() {
	heard=0
	while [ "$heard" -lt "$1" ] && read -r _ <&3; do
		heard=$((heard + 1))
	done
}

# end_plan NAME: requests that everything is restored, and prints the exit code.
end_plan() {
	kill -TERM "$applier"
	status=0
	wait "$applier" || status=$?
	exec 3<&-
	say "$1.exit" "$status"
}

undo() {
	before=$(state)
	say undo.before "$before"
	start
	hear 7
	say undo.applied "$(state)"
	say undo.doctor "$(brisk doctor --json | tr -d '\n')"
	kill -TERM "$applier"
	wait "$applier"
	exec 3<&-
	say undo.stopped "$(state)"
	for step in 0 1 2 3 4 5 6 7; do
		start
		hear "$step"
		kill -KILL "$applier"
		wait_for 60 is_state "$before"
		exec 3<&-
		say undo.killed "$(state)"
	done
	# Both at once, at different steps: stopped first, so that nothing changes while the guardian is searched for.
	for moment in 1 6 8 9 10 11 12 13 14 15 16 18 20 30 80; do
		brisk memory apply >/dev/null 2>>/tmp/errors &
		applier=$!
		usleep ${moment}000
		kill -STOP "$applier"
		# shellcheck disable=SC2046 # numbers of processes
		kill -KILL $(guardian) "$applier"
		say undo.left "$(state)"
		brisk restore >/dev/null
		say undo.restored "$(state)"
	done
	brisk memory apply --keep >/dev/null
	say undo.kept "$(state)"
	brisk restore >/dev/null
	say undo.restored "$(state)"
}

fit() {
	before=$(state)
	start
	hear 7
	applications=
	for number in 1 1 1 1 1 1 1; do
		launch $number 0
		applications="$applications $launched"
	done
	sleep 1
	end_plan fit
	say fit.error "$(grep 'stays in use' /tmp/errors | tail -n 1)"
	say fit.swaps "$(tail -n +2 /proc/swaps | wc -l)"
	# shellcheck disable=SC2086 # numbers of processes
	kill -KILL $applications
	sleep 1
	brisk restore >/dev/null
	if is_state "$before"; then say fit.restored yes; else say fit.restored "$(state)"; fi
}

# While the content of swap is fetched, another process takes the memory that it needs.
scarce() {
	before=$(state)
	start
	hear 7
	set --
	for number in 1 1 1 1 1 1 1 1; do
		launch $number 0
		set -- "$launched" "$@"
	done
	kill -KILL "$1" "$2"
	shift 2
	sleep 1
	# Of an area that is being switched off, the kernel counts only the used part.
	total=$(grep SwapTotal /proc/meminfo)
	kill -TERM "$applier"
	while grep -q "$total" /proc/meminfo; do :; done
	dd if=/dev/zero of=/tmp/grown bs=1M count=100 2>/dev/null
	status=0
	wait "$applier" || status=$?
	exec 3<&-
	say scarce.exit "$status"
	say scarce.error "$(grep 'stays in use' /tmp/errors | tail -n 1)"
	say scarce.swaps "$(tail -n +2 /proc/swaps | wc -l)"
	say scarce.oom "$(sed -n 's/^oom_kill //p' /proc/vmstat)"
	rm /tmp/grown
	kill -KILL "$@"
	sleep 1
	brisk restore >/dev/null
	if is_state "$before"; then say scarce.restored yes; else say scarce.restored "$(state)"; fi
}

has_zram_again() {
	grep -q 'swap on zram0: restored after an earlier failure' /tmp/log && grep -q zram0 /proc/swaps &&
		brisk status | grep -q 'swap on zram0 is on'
}

# Daemon and guardian are killed while the swap does not fit into memory. The next daemon cannot restore it and goes on without
# zram, until it fits.
leftover() {
	before=$(state)
	mkdir -p /etc/brisk
	printf '[launch]\nenabled = false\n[memory.zram]\nenabled = true\n' >/etc/brisk/brisk.toml
	brisk daemon 2>/tmp/log &
	daemon=$!
	wait_for 60 grep -q zram0 /proc/swaps
	set --
	for number in 1 1 1 1 1 1 1 1; do
		launch $number 0
		set -- "$launched" "$@"
	done
	# shellcheck disable=SC2046 # a list of processes
	kill -KILL "$daemon" $(guardian)
	wait "$daemon" || :
	brisk daemon 2>/tmp/log &
	daemon=$!
	wait_for 60 brisk status >/dev/null
	say leftover.refused "$(grep -c 'warning: swap on zram0: .*stays in use' /tmp/log)"
	say leftover.errors "$(grep -c 'error:' /tmp/log)"
	kill -KILL "$@"
	wait_for 120 has_zram_again
	kill -TERM "$daemon"
	wait "$daemon"
	if is_state "$before"; then say leftover.restored yes; else say leftover.restored "$(state)"; fi
}

# A process keeps the device open during the restoration, and then another process owns the device.
busy() {
	before=$(state)
	start
	hear 7
	exec 4</dev/zram0
	end_plan busy
	say busy.error "$(grep -c 'zram0/reset: Device or resource busy' /tmp/errors)"
	exec 4<&-
	brisk restore >/dev/null
	if is_state "$before"; then say busy.restored yes; else say busy.restored "$(state)"; fi
	echo 8M >/sys/block/zram0/disksize
	mkswap /dev/zram0 >/dev/null
	swapon /dev/zram0
	size=$(cat /sys/block/zram0/disksize)
	brisk memory apply --keep >/dev/null
	say busy.owned "$(cat /sys/block/zram0/disksize) $(tail -n +2 /proc/swaps | wc -l)"
	say busy.owner "$size 1"
	brisk restore >/dev/null
	say busy.left "$(cat /sys/block/zram0/disksize) $(tail -n +2 /proc/swaps | wc -l)"
}

for name in "$@"; do
	"$name"
done
