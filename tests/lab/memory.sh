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

# A device without zram: what can be set is set, and the killer works without swap.
bare() {
	brisk memory apply --keep >/dev/null
	say bare.swaps "$(tail -n +2 /proc/swaps | wc -l)"
	say bare.watermarks "$(cat $vm/watermark_scale_factor)"
	brisk restore >/dev/null
	say bare.restored "$(cat $vm/watermark_scale_factor)"
	pressure
}

# Somebody holds the device open when it is to be given back, and then somebody else has it.
busy() {
	before=$(state)
	start
	hear 7
	exec 4</dev/zram0
	kill -TERM "$applier"
	status=0
	wait "$applier" || status=$?
	exec 3<&-
	say busy.exit "$status"
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

processes() {
	set -- /proc/[0-9]*
	echo $#
}

has_more_processes() {
	[ "$(processes)" -gt "$1" ]
}

has_less_processes() {
	[ "$(processes)" -lt "$1" ]
}

# A fork bomb of cached processes, until it is told to end.
bomb() {
	configure ''
	start_daemon env
	launch 3 0
	front=$launched
	cat >/tmp/bomb <<-'END'
		echo 950 >/proc/self/oom_score_adj
		bomb() {
			[ -e /tmp/stop ] || { bomb | bomb & }
		}
		bomb
	END
	sh /tmp/bomb 2>/dev/null &
	wait_for 60 has_more_processes 300
	sleep 5
	touch /tmp/stop
	wait_for 300 has_less_processes 100
	say bomb.alive "$(alive "$front" "$daemon")"
	say bomb.expected " $front $daemon"
	echo resume >/tmp/tap
	wait_for 60 grep -q 'screen 1 ' /tmp/screen
	say bomb.status "$(brisk status --json | tr -d '\n')"
}

# A daemon's configuration: what is cached is swapped out at once, and written back to DEVICE.
# configure_writeback DEVICE DAILY_KIB
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
look_s = 1"
}

# written NUMBER: the pages that were written to a device of the flash model.
written() {
	cut -d, -f$(($1 + 1)) /sys/module/flash_model/parameters/pages_written
}

has_written() {
	[ "$(written "$1")" -ge "$2" ]
}

is_swapped() {
	[ "$(sed -n 's/^VmSwap:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status")" -ge 50000 ]
}

today_kib() {
	brisk memory status --json | tr -d ' \n' | sed 's/.*"today_kib":\([0-9]*\).*/\1/'
}

is_spent() {
	[ "$(today_kib)" = "$1" ]
}

# use_between_periods PROCESS: it was cached and is swapped out; then it is in front and answers, then it is cached again.
# The looks are a second apart.
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
	# What is on record is written by then.
	wait_for 60 grep -qx 0 /sys/block/zram0/writeback_limit
	say writeback.spent "$(written 1)"
	say writeback.limit "$(cat /sys/block/zram0/writeback_limit_enable /sys/block/zram0/writeback_limit | tr '\n' ' ')"
	if echo huge 2>/dev/null >/sys/block/zram0/writeback; then say writeback.by_hand yes; else say writeback.by_hand no; fi
	kill -TERM "$daemon"
	wait "$daemon"
	# A wall clock that jumps makes no new day.
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

# The device behind is not there, and then it is too small.
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

# in_group NAME COMMAND...: runs it in a control group of its own from its first page on; its process is $member.
in_group() {
	mkdir -p "/sys/fs/cgroup/$1"
	# shellcheck disable=SC2016 # its own process, not this one
	sh -c 'echo $$ >"/sys/fs/cgroup/$0/cgroup.procs"; exec "$@"' "$@" &
	member=$!
}

swap_kib() {
	sed -n 's/^VmSwap:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

has_swapped() {
	[ "$(swap_kib "$1")" -ge "$2" ]
}

# use_pair: both are in front for a while, and then in the background.
use_pair() {
	for adj in 0 950; do
		for pid in $pair; do echo $adj >"/proc/$pid/oom_score_adj"; done
		sleep 4
	done
}

# What two processes of a group share is swapped out, and goes to flash once.
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
	# The looks are a second apart.
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

# locks NAME: what the killer has locked, what it says of that, and whether it ends somebody still.
locks() {
	# shellcheck disable=SC2016 # its own variable
	sh -c 'text=$(head -c 1048576 /dev/zero | tr "\0" a); echo 910 >/proc/self/oom_score_adj; [ "$text" ] && read -r _ <>/tmp/never' &
	victim=$!
	wait_for 60 has_gone "$victim"
	locked_kib=$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(killer)/status")
	say "lock.$1" "$locked_kib $(grep 'wait for its own pages' /tmp/log || true)"
	size_kib=$(sed -n 's/^VmSize:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(killer)/status")
	kill -TERM "$daemon"
	wait "$daemon"
}

# The killer may not lock all of its memory. It looks by the clock, and whoever may go goes at once, for less is left than is
# wanted.
lock() {
	configure 'reserve_kib = 67108864'
	mkfifo /tmp/never
	start_daemon env
	locks free
	# Whatever it is otherwise, it has no right to lock more than it may.
	cat >/tmp/may_lock <<-'END'
		ulimit -l "$1"
		shift
		exec unshare -U -r "$@"
	END
	start_daemon sh /tmp/may_lock $((size_kib + 4096))
	locks little
	start_daemon sh /tmp/may_lock 64
	locks nothing
}

# cpu_ms PROCESS...: what all threads of these have run so far.
cpu_ms() {
	for pid in "$@"; do cat /proc/"$pid"/task/*/schedstat; done | awk '{ sum += $1 / 1000000 } END { printf "%d", sum }'
}

# What brisk takes for itself while nothing happens, with everything on and three hundred processes. PAGEOUT_KIB is kept free.
# idle_with PAGEOUT_KIB
idle_with() {
	configure "
prefetch = true
[memory.zram]
enabled = true
backing_device = \"/dev/flash1\"
[memory.killer.pageout]
target_kib = $1
[memory.killer.writeback]
daily_kib = 8192"
	start_daemon env
	brisks="$daemon $(killer) $(guardian)"
	sleep 5
	# shellcheck disable=SC2086 # numbers of processes
	before_ms=$(cpu_ms $brisks)
	sleep 120
	# shellcheck disable=SC2086 # numbers of processes
	say idle "$(($(cpu_ms $brisks) - before_ms)) $(processes)"
	kill -TERM "$daemon"
	wait "$daemon"
}

idle() {
	started=0
	while [ "$started" -lt 300 ]; do
		sleep 100000 &
		started=$((started + 1))
	done
	idle_with 49152
	# There is never so much, whatever is swapped out.
	idle_with 4194304
}

for name in "$@"; do
	"$name"
done
