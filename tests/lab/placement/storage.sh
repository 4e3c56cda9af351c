#!/bin/sh
# The process that delays the foreground's storage requests is deprioritised there and restored, even after SIGKILL, on an
# emulated disk (null_blk) that serves one request at a time, each in ten milliseconds. Runs in the lab's guest, as
# `placement_storage.sh NAME...`; tests/lab/placement/mod.rs reads the lines "NAME: TEXT".
set -eu

queue=/sys/block/nullb0/queue

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	rank_of "$bulk" >&2
	cat /sys/fs/cgroup/front/io.pressure "/proc/$bulk/io" /proc/diskstats >&2
	brisk status --json >&2
	tail -n 20 "$log" >&2
}

rank_of() {
	ionice -p "$1"
}

is_ranked() {
	[ "$(rank_of "$1")" = "$2" ]
}

ranks_as_before() {
	case $(rank_of "$bulk") in
	none*) true ;;
	*) false ;;
	esac
}

gives_way() {
	is_ranked "$bulk" "best-effort: prio 7"
}

# A program in its own group reads as fast as it can.
begin_foreground() {
	rm -f /run/front
	brisk launch -- sh -c 'echo $$ >/sys/fs/cgroup/front/cgroup.procs; echo $$ >/run/front
		exec dd if=/dev/nullb0 of=/dev/null bs=64k iflag=direct' >/dev/null 2>&1 &
	launch=$!
	wait_for 60 test -s /run/front
	front=$(cat /run/front)
}

read_by() {
	sed -n 's/^read_bytes: //p' "/proc/$1/io"
}

have_read() {
	[ $(($(read_by "$front") + $(read_by "$bulk"))) -ge "$1" ]
}

# The foreground's share of the next 16 MiB of reads, in percent, however long they take.
share_of_front() {
	front_before=$(read_by "$front")
	bulk_before=$(read_by "$bulk")
	wait_for 120 have_read $((front_before + bulk_before + 16777216))
	of_front=$(($(read_by "$front") - front_before))
	of_bulk=$(($(read_by "$bulk") - bulk_before))
	echo $((of_front * 100 / (of_front + of_bulk)))
}

begin() {
	mkdir -p /sys/fs/cgroup/front
	configure 'storage = true'
	# Where groups share the disk, an I/O priority is relative within a group.
	echo -io >/sys/fs/cgroup/cgroup.subtree_control
	echo bfq >$queue/scheduler
	# bfq favours a new process itself; only brisk's effect is to be measured.
	echo 0 >$queue/iosched/low_latency
	# The process in service keeps the disk, however long a busy host delays it between two requests.
	echo 500 >$queue/iosched/slice_idle
	dd if=/dev/nullb0 of=/dev/null bs=64k iflag=direct 2>/dev/null &
	bulk=$!
}

undo() {
	start_daemon
	begin_foreground
	wait_for 60 gives_way
	say undo.applied yes
	end_front
	wait_for 60 ranks_as_before
	say undo.freed yes

	begin_foreground
	wait_for 60 gives_way
	kill -9 "$daemon"
	wait_for 60 ranks_as_before
	say undo.killed yes
	end_front
	wait "$daemon" || true

	start_daemon
	begin_foreground
	wait_for 60 gives_way
	guardian=$(guardian)
	kill -9 "$guardian" "$daemon"
	wait_for 60 is_gone "$guardian"
	wait "$daemon" || true
	brisk restore >/dev/null
	ranks_as_before && say undo.restored yes
	end_front

	# A value that another process sets meanwhile is kept.
	start_daemon
	begin_foreground
	wait_for 60 gives_way
	ionice -c 2 -n 2 -p "$bulk"
	end_front
	kill "$daemon"
	code=0
	wait "$daemon" || code=$?
	say undo.exit "$code"
	say undo.chosen "$(rank_of "$bulk")"
}

# Without a scheduler that supports I/O priorities nothing is done; with one that supports only classes, the class is set.
schedulers() {
	echo none >$queue/scheduler
	start_daemon
	say schedulers.none "$(grep -c 'I/O priority is lowered: no disk' "$log" || :)"
	echo mq-deadline >$queue/scheduler
	kill -HUP "$daemon"
	wait_for 60 grep -q 'configuration reloaded' "$log"
	begin_foreground
	wait_for 60 is_ranked "$bulk" idle
	end_front
	wait_for 60 ranks_as_before
	say schedulers.deadline yes
	kill "$daemon"
	wait "$daemon"
}

# A trial lasts three samples of a second: a priority that stays lowered for three times as long was kept by the trial.
is_kept() {
	if ! gives_way; then
		gives_way_since=
		return 1
	fi
	now=$(cut -d. -f1 /proc/uptime)
	: "${gives_way_since:=$now}"
	[ $((now - gives_way_since)) -ge 10 ]
}

# The scheduler obeys, and a trial confirms it; a trial that the host disturbs is repeated.
obeyed() {
	begin_foreground
	say obeyed.before "$(share_of_front)"
	end_front
	start_daemon
	begin_foreground
	gives_way_since=
	wait_for 300 is_kept
	say obeyed.kept yes
	say obeyed.after "$(share_of_front)"
	end_front
	kill "$daemon"
	wait "$daemon"
}

begin
for step; do
	"$step"
done
kill "$bulk"
