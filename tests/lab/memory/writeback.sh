#!/bin/sh
# Write-back to flash and its budget, on a real kernel. Runs in the lab's guest, as `writeback.sh NAME...`;
# tests/lab/memory/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/memory/device.sh
. /device.sh

# configure_writeback DEVICE DAILY_KIB: cached applications are swapped out at once, and written back to DEVICE.
configure_writeback() {
	configure "
[memory.zram]
enabled = true
size_kib = 409600
backing_device = \"$1\"
[memory.killer.pageout]
target_kib = 460800
[memory.killer.writeback]
daily_kib = $2
period_s = 1"
}

# written NUMBER: the pages that were written to a device of the flash model.
written() {
	cut -d, -f$(($1 + 1)) /sys/module/flash_model/parameters/pages_written
}

has_written() {
	[ "$(written "$1")" -ge "$2" ]
}

is_swapped() {
	has_swapped "$1" 50000
}

today_kib() {
	brisk memory status --json | tr -d ' \n' | sed 's/.*"today_kib":\([0-9]*\).*/\1/'
}

is_spent() {
	[ "$(today_kib)" = "$1" ]
}

# use_between_periods PROCESS: a cached and swapped-out process becomes foreground, answers, and is cached again. The sampling
# period is a second.
use_between_periods() {
	wait_for 60 is_swapped "$1"
	sleep 3
	echo 0 >"/proc/$1/oom_score_adj"
	sleep 3
	screens=$(grep -c screen /tmp/screen)
	echo resume >/tmp/tap
	wait_for 60 grep -q "screen $screens " /tmp/screen
	echo 950 >"/proc/$1/oom_score_adj"
}

writeback() {
	before=$(state)
	configure_writeback /dev/flash1 8192
	start_daemon env
	launch 1 950
	game=$launched
	use_between_periods "$game"
	wait_for 60 has_written 1 300
	# shellcheck disable=SC2046 # numbers of processes
	kill -KILL $(killer) "$daemon" $(guardian)
	say writeback.killed "$(written 1) $(today_kib)"
	start_daemon env
	use_between_periods "$game"
	wait_for 60 is_spent 8192
	# The record is complete by then.
	wait_for 60 grep -qx 0 /sys/block/zram0/writeback_limit
	say writeback.spent "$(written 1)"
	say writeback.limit "$(cat /sys/block/zram0/writeback_limit_enable /sys/block/zram0/writeback_limit | tr '\n' ' ')"
	if echo huge 2>/dev/null >/sys/block/zram0/writeback; then say writeback.by_hand yes; else say writeback.by_hand no; fi
	kill -TERM "$daemon"
	wait "$daemon"
	# A jump of the wall clock starts no new day.
	date -s '2037-01-01 00:00:00' >/dev/null
	say writeback.ended "$(cat /sys/block/zram0/writeback_limit_enable /sys/block/zram0/backing_dev | tr '\n' ' ')"
	start_daemon env
	use_between_periods "$game"
	wait_for 60 is_swapped "$game"
	sleep 3
	say writeback.restarted "$(written 1) $(today_kib)"
	say writeback.status "$(brisk memory status --json | tr -d '\n')"
	say writeback.alive "$(alive "$game" "$daemon")"
	say writeback.expected " $game $daemon"
	kill -TERM "$daemon"
	wait "$daemon"
	if is_state "$before"; then say writeback.given_back yes; else say writeback.given_back "$(state)"; fi
}

# The backing device is missing, and then it is too small.
writeback_faults() {
	before=$(state)
	configure_writeback /dev/none 8192
	start_daemon env
	if is_state "$before"; then say faults.missing nothing; else say faults.missing "$(state)"; fi
	say faults.why "$(grep -c 'cannot open /dev/none: it does not exist' /tmp/log)"
	kill -TERM "$daemon"
	wait "$daemon"
	configure_writeback /dev/flash2 8192
	start_daemon env
	launch 1 950
	use_between_periods "$launched"
	wait_for 60 grep -q 'No space left' /tmp/log
	sleep 3
	say faults.full "$(written 2) $(today_kib) $(grep -c 'nothing is written back' /tmp/log)"
	echo resume >/tmp/tap
	wait_for 60 grep -q 'screen 2 ' /tmp/screen
	say faults.alive "$(alive "$launched" "$daemon")"
	say faults.expected " $launched $daemon"
}

# in_group NAME COMMAND...: runs it in its own control group from its first page on; its process is $member.
in_group() {
	mkdir -p "/sys/fs/cgroup/$1"
	# shellcheck disable=SC2016 # its own process, not this one
	sh -c 'echo $$ >"/sys/fs/cgroup/$0/cgroup.procs"; exec "$@"' "$@" &
	member=$!
}

# use_pair: moves both to the foreground, and then to the background.
use_pair() {
	for adj in 0 950; do
		for pid in $pair; do echo $adj >"/proc/$pid/oom_score_adj"; done
		sleep 4
	done
}

# Memory that two processes of a group share is swapped out, and written to flash once.
shared() {
	configure_writeback /dev/flash1 65536
	start_daemon env
	mkfifo /tmp/never
	cat >/tmp/pair <<-'END'
		text=$(head -c 6291456 /dev/urandom | base64 | tr -d '\n')
		[ "${#text}" -eq 8388608 ]
		echo 950 >/proc/self/oom_score_adj
		exec 9<>/tmp/never
		(read -r _ <&9) &
		echo "$!" >/tmp/child
		read -r _ <&9
	END
	in_group pair sh -e /tmp/pair
	wait_for 60 test -s /tmp/child
	pair="$member $(cat /tmp/child)"
	for pid in $pair; do wait_for 60 has_swapped "$pid" 7168; done
	# The sampling period is a second.
	sleep 3
	use_pair
	wait_for 60 has_written 1 1500
	sleep 3
	say shared.once "$(written 1) $(today_kib)"
	use_pair
	use_pair
	say shared.twice "$(written 1) $(today_kib)"
	say shared.swap "$(for pid in $pair; do swap_kib "$pid"; done | tr '\n' ' ')"
	# shellcheck disable=SC2086 # numbers of processes
	say shared.alive "$(alive $pair)"
	say shared.expected " $pair"
}

for name in "$@"; do
	"$name"
done
