#!/bin/sh
# Victim selection under memory pressure, and the killer's own cost, on a real kernel. Runs in the lab's guest, as
# `killer.sh NAME...`; tests/lab/memory/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/memory/device.sh
. /device.sh

oom_kills() {
	sed -n 's/^oom_kill //p' /proc/vmstat
}

# The writable and the resident memory of process $1, in KiB.
memory_of() {
	sed -n 's/^\(VmData\|VmRSS\):[^0-9]*\([0-9]*\).*/\2/p' "/proc/$1/status" | sort -n | tr '\n' ' '
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
	say pressure.before "$(memory_of "$(killer)")"
	front=
	# No more than it takes: how many fit depends on the kernel's size.
	while ! has_gone "$victim"; do
		launch 1 0
		front="$front $launched"
		sleep 1
	done
	sleep 1
	say pressure.after "$(memory_of "$(killer)")"
	# shellcheck disable=SC2086 # numbers of processes
	say pressure.alive "$(alive $protected $kept $front)"
	say pressure.expected " $protected $kept$front"
	say pressure.victim "$victim"
	say pressure.oom "$(oom_kills)"
	say pressure.explain "$(brisk memory kills --json | tr -d '\n')"
	say pressure.status "$(brisk status --json | tr -d '\n')"
	say pressure.doctor "$(brisk doctor --json | tr -d '\n')"
	kill -TERM "$daemon"
	wait "$daemon"
	say pressure.killers "$(killer | wc -l)"
}

# A device without zram: the other settings are applied, and the killer works without swap.
bare() {
	brisk memory apply --keep >/dev/null
	say bare.swaps "$(tail -n +2 /proc/swaps | wc -l)"
	say bare.watermarks "$(cat $vm/watermark_scale_factor)"
	brisk restore >/dev/null
	say bare.restored "$(cat $vm/watermark_scale_factor)"
	pressure
}

# run_away CONFIGURATION: a process allocates memory faster than it can be reclaimed, twice as much with every step.
run_away() {
	configure "$1"
	start_daemon env
	launch 3 0
	front=$launched
	for _ in 1 2 3; do
		sh -c 'echo 950 >/proc/self/oom_score_adj; exec awk "BEGIN { text = \"0123456789abcdef\"; while (1) text = text text }"' &
		allocator=$!
		wait_for 60 has_gone "$allocator"
		wait "$allocator" || true
	done
	say outrun.alive "$(alive "$front" "$daemon")"
	say outrun.expected " $front $daemon"
	say outrun.oom "$(oom_kills)"
	say outrun.explain "$(brisk memory kills --json | tr -d '\n')"
}

outrun() {
	run_away ''
}

outrun_with_swap() {
	run_away '[memory.zram]
		enabled = true'
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

# A fork bomb of cached processes, until it is stopped.
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

# start_victim: a small process that may be killed; its PID is $victim.
start_victim() {
	# shellcheck disable=SC2016 # its own variable
	sh -c 'text=$(head -c 1048576 /dev/zero | tr "\0" a); echo 910 >/proc/self/oom_score_adj; [ "$text" ] && read -r _ <>/tmp/never' &
	victim=$!
}

# locks NAME: how much the killer has locked, what it logs about that, and whether it still kills a process.
locks() {
	start_victim
	wait_for 60 has_gone "$victim"
	locked_kib=$(sed -n 's/^VmLck:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(killer)/status")
	say "lock.$1" "$locked_kib $(grep 'wait for its own pages' /tmp/log || true)"
	size_kib=$(sed -n 's/^VmSize:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$(killer)/status")
	kill -TERM "$daemon"
	wait "$daemon"
}

# locked_kib PROCESS [PROGRAM]: the resident part of its locked mappings; with PROGRAM three numbers: the size of all mappings
# of that file, the locked part of them, and the locked part of other mappings.
locked_kib() {
	awk -v program="${2-}" '
		/^[0-9a-f]*-/ { ours = program != "" && $NF == program }
		/^Size:/ && ours { size += $2 }
		/^Rss:/ { resident = $2 }
		/^VmFlags:.* lo( |$)/ { if (ours) locked += resident; else others += resident }
		END { print (program != "" ? size + 0 " " locked + 0 " " : "") others + 0 }' "/proc/$1/smaps"
}

# Its threads' scheduling: name, policy, real-time priority.
threads_of() {
	for task in /proc/"$1"/task/*; do
		sed 's/^[0-9]* (\(.*\)) /\1 /' "$task/stat" | awk '{ print $1, $40, $39 }'
	done | tr '\n' ','
}

fetched_pages() {
	sed -n 's/^pswpin //p' /proc/vmstat
}

has_fetched() {
	[ "$(fetched_pages)" -ge "$1" ]
}

# Everything is on and happens once: a process is swapped out, becomes foreground and is prefetched, and a process is
# killed.
everything() {
	top_app=/dev/cpuset/top-app
	mkdir /dev/cpuset
	mount -t cgroup -o cpuset none /dev/cpuset
	mkdir $top_app
	for file in cpuset.cpus cpuset.mems; do cat /dev/cpuset/$file >$top_app/$file; done
	configure "
reserve_kib = 67108864
prefetch = true
[memory.zram]
enabled = true
backing_device = \"/dev/flash1\"
[memory.killer.pageout]
target_kib = 460800
[memory.killer.writeback]
daily_kib = 8192
period_s = 1"
	mkfifo /tmp/never
	start_daemon env
	launch 3 950
	wait_for 60 has_swapped "$launched" 8192
	before_pages=$(fetched_pages)
	echo 0 >"/proc/$launched/oom_score_adj"
	echo "$launched" >$top_app/cgroup.procs
	wait_for 60 has_fetched $((before_pages + 1024))
	start_victim
	wait_for 60 has_gone "$victim"
	say everything.locked "$(locked_kib "$daemon") $(locked_kib "$(guardian)") $(locked_kib "$(killer)" "$(readlink "/proc/$(killer)/exe")")"
	say everything.threads "$(threads_of "$(killer)")"
	say everything.adj "$(cat "/proc/$(killer)/oom_score_adj")"
	kill -TERM "$daemon"
	wait "$daemon"
}

# A victim does not exit, because it is frozen. The next victim is killed when the first is given up, and not before.
stuck() {
	mkdir /tmp/freezer
	mount -t cgroup -o freezer none /tmp/freezer
	mkdir /tmp/freezer/ice
	configure 'reserve_kib = 67108864'
	mkfifo /tmp/never
	start_victim
	first=$victim
	start_victim
	for pid in $first $victim; do wait_for 60 grep -qx 910 "/proc/$pid/oom_score_adj"; done
	# In a separate class: within a class the size decides, which differs by some pages.
	echo 1000 >"/proc/$first/oom_score_adj"
	echo "$first" >/tmp/freezer/ice/cgroup.procs
	echo FROZEN >/tmp/freezer/ice/freezer.state
	start_daemon env
	wait_for 60 has_gone "$victim"
	say stuck.first "$(cut -d ' ' -f 1,3 "/proc/$first/stat")"
	say stuck.said "$(grep -c "($first) still exists 1000 ms after SIGKILL" /tmp/log)"
	say stuck.explain "$(brisk memory kills --json | tr -d '\n')"
	echo THAWED >/tmp/freezer/ice/freezer.state
}

# The killer may not lock all of its memory. It polls, and a killable process is killed at once, because the headroom is below
# the minimum.
lock() {
	configure 'reserve_kib = 67108864'
	mkfifo /tmp/never
	start_daemon env
	locks free
	# Removes the capability to exceed the limit of locked memory, whichever user runs this.
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

# cpu_use PROCESS...: the CPU time of all their threads in milliseconds, and how often they were scheduled.
cpu_use() {
	for pid in "$@"; do cat /proc/"$pid"/task/*/schedstat; done |
		awk '{ ms += $1 / 1000000; times += $3 } END { printf "%d %d", ms, times }'
}

# proportional_kib PROCESS...: their proportional set size.
proportional_kib() {
	for pid in "$@"; do cat /proc/"$pid"/smaps_rollup; done | awk '/^Pss:/ { sum += $2 } END { print sum }'
}

# idle_with PAGEOUT_KIB: brisk's own cost on an idle device, with everything on and three hundred processes; swap-out keeps
# PAGEOUT_KIB free.
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
	# In the first minute it is not yet known that the device is idle.
	sleep 90
	# shellcheck disable=SC2086 # numbers of processes
	before=$(cpu_use $brisks)
	sleep 120
	# shellcheck disable=SC2086 # numbers of processes
	after=$(cpu_use $brisks)
	# shellcheck disable=SC2086 # numbers of processes
	say idle "$((${after% *} - ${before% *})) $((${after#* } - ${before#* })) $(processes) $(proportional_kib $brisks)"
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
	# Memory is never that large, whatever is swapped out.
	idle_with 4194304
}

for name in "$@"; do
	"$name"
done
