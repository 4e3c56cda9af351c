#!/bin/sh
# What is set about memory, and who is killed, on a real kernel. Runs in the lab's guest, as `memory.sh NAME...`;
# tests/lab/memory.rs reads the lines "NAME: TEXT" and judges.
set -eu

vm=/proc/sys/vm

# shellcheck source=tests/lab/steps.sh
. /steps.sh

state() {
	printf 'swaps %s size %s algorithm %s' "$(tail -n +2 /proc/swaps | wc -l)" "$(cat /sys/block/zram0/disksize)" \
		"$(sed 's/.*\[\(.*\)\].*/\1/' /sys/block/zram0/comp_algorithm)"
	printf ' vm %s %s %s' "$(cat $vm/swappiness)" "$(cat $vm/page-cluster)" "$(cat $vm/watermark_scale_factor)"
	printf ' lru %s' "$(cat /sys/kernel/mm/lru_gen/enabled)"
}

is_state() {
	[ "$(state)" = "$1" ]
}

# Starts carrying the plan out; each change is a line on descriptor 3.
start() {
	rm -f /tmp/lines
	mkfifo /tmp/lines
	brisk memory apply >/tmp/lines 2>>/tmp/errors &
	applier=$!
	exec 3</tmp/lines
}

# hear COUNT: until so many changes were made.
hear() {
	heard=0
	while [ "$heard" -lt "$1" ] && read -r _ <&3; do
		heard=$((heard + 1))
	done
}

guardian() {
	grep -la '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null | sed 's|/proc/\(.*\)/cmdline|\1|'
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
	# Both at once, at moments all over the way: stopped first, so that nothing moves while the guardian is looked for.
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

# launch NUMBER ADJ: starts an application of the workload; its process is $launched.
launch() {
	rm -f /tmp/screen /tmp/tap
	mkfifo /tmp/tap
	# Somebody holds the other end for as long as the guest lives.
	sleep 100000 >/tmp/tap &
	brisk application --number "$1" --seed 1 --turns-per-ms 1000 --storage /dev/flash0 </tmp/tap >/tmp/screen &
	launched=$!
	echo "$2" >"/proc/$launched/oom_score_adj"
	wait_for 60 grep -q screen /tmp/screen
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
	kill -TERM "$applier"
	status=0
	wait "$applier" || status=$?
	exec 3<&-
	say fit.exit "$status"
	say fit.error "$(grep 'stays in use' /tmp/errors | tail -n 1)"
	say fit.swaps "$(tail -n +2 /proc/swaps | wc -l)"
	# shellcheck disable=SC2086 # numbers of processes
	kill -KILL $applications
	sleep 1
	brisk restore >/dev/null
	if is_state "$before"; then say fit.restored yes; else say fit.restored "$(state)"; fi
}

killer() {
	for file in /proc/[0-9]*/cmdline; do
		if tr '\0' '\n' <"$file" 2>/dev/null | grep -qx killer; then
			file=${file#/proc/}
			echo "${file%/cmdline}"
		fi
	done
}

is_another_killer() {
	now=$(killer)
	[ -n "$now" ] && [ "$now" != "$1" ]
}

configure() {
	mkdir -p /etc/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		enabled = false
		[memory.killer]
		enabled = true
		protected = ["social"]
		$1
	END
}

# start_daemon COMMAND...: COMMAND runs it, as whom it likes.
start_daemon() {
	"$@" brisk run 2>/tmp/log &
	daemon=$!
	wait_for 60 is_another_killer none
	wait_for 60 brisk status >/dev/null
}

# alive PROCESS...: those that live. One that is dead and not yet waited for has no command line.
alive() {
	living=
	for pid in "$@"; do
		if grep -qa . "/proc/$pid/cmdline"; then living="$living $pid"; fi
	done
	echo "$living"
}

oom_kills() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}

pressure() {
	configure ''
	start_daemon env
	first=$(killer)
	kill -KILL "$first"
	wait_for 60 is_another_killer "$first"
	launch 3 950
	protected=$launched
	launch 1 900
	kept=$launched
	launch 1 910
	victim=$launched
	front=
	for number in 1 1 1 1 2 14; do
		launch $number 0
		front="$front $launched"
	done
	sleep 2
	# shellcheck disable=SC2086 # numbers of processes
	say pressure.alive "$(alive $protected $kept $front)"
	say pressure.expected " $protected $kept$front"
	say pressure.victim "$victim"
	say pressure.oom "$(oom_kills)"
	say pressure.explain "$(brisk memory explain --json | tr -d '\n')"
	say pressure.status "$(brisk status --json | tr -d '\n')"
	say pressure.doctor "$(brisk doctor --json | tr -d '\n')"
	kill -TERM "$daemon"
	wait "$daemon"
	say pressure.killers "$(killer | wc -l)"
}

has_gone() {
	[ -z "$(alive "$1")" ]
}

# Something takes memory faster than it can be reclaimed: twice as much with every step.
outrun() {
	configure ''
	start_daemon env
	launch 3 0
	front=$launched
	for round in 1 2 3; do
		sh -c 'echo 950 >/proc/self/oom_score_adj; exec awk "BEGIN { text = \"0123456789abcdef\"; while (1) text = text text }"' &
		allocator=$!
		wait_for 60 has_gone "$allocator"
		wait "$allocator" || true
	done
	say outrun.rounds "$round"
	say outrun.alive "$(alive "$front" "$daemon")"
	say outrun.expected " $front $daemon"
	say outrun.oom "$(oom_kills)"
	say outrun.explain "$(brisk memory explain --json | tr -d '\n')"
}

for name in "$@"; do
	"$name"
done
