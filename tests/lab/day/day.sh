#!/bin/sh
# A device's day with everything on: applications are opened, memory is squeezed, CPUs are loaded, settings change, processes
# are killed. Runs in the lab's guest as `day.sh`; tests/lab/day/mod.rs writes the events ("MILLISECONDS EVENT ARGUMENT") into
# /events, reads the lines "NAME: TEXT" and checks them.
# shellcheck disable=SC2086 # lists of processes
set -eu

cpufreq=/sys/devices/system/cpu/cpufreq
second=/sys/devices/system/cpu/cpu1/online
work=/run/day
log=$work/log

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/state.sh
. /state_steps.sh

in_vain() {
	diff "$work/before" "$work/now" >&2 || :
	brisk status >&2 || :
	tail -n 20 "$log" >&2 || :
}

# configure EDITION: there are two, which differ in each mechanism.
configure() {
	case $1 in
	0) launch='actuators = ["sampling-rate"]' rule=weight free_kib=49152 entries=2048 ;;
	*) launch='actuators = ["scaling-min-freq"]' rule=brisk free_kib=32768 entries=1024 ;;
	esac
	cat >/etc/brisk/brisk.toml <<-TOML
		[launch]
		enabled = true
		force = true
		triggers = ["announced", "foreground"]
		$launch
		[placement]
		enabled = true
		rule = "$rule"
		[memory.zram]
		enabled = true
		size_kib = 264960
		[memory.killer]
		enabled = true
		prefetch = true
		[memory.killer.pageout]
		target_kib = $free_kib
		[lookup]
		enabled = true
		mode = "transparent"
		entries = $entries
	TOML
}

# Like an init system: whenever the daemon exits, this restores what it has left and starts it again.
supervise() {
	while :; do
		brisk run 2>>$log &
		echo $! >$work/daemon.new
		mv $work/daemon.new $work/daemon
		wait $! || :
		[ ! -e $work/over ] || return 0
		# While a launch that began without the daemon lasts, it holds the journal: continue, as init systems do.
		brisk restore >/dev/null 2>>$work/restored || :
		sleep 0.1
	done
}

daemon() {
	cat $work/daemon
}

# The daemon's guardian; another guardian watches what is held for the boot.
guardian() {
	grep -la '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null | while IFS=/ read -r _ _ pid _; do
		! grep -q "^PPid:[^0-9]*$(daemon)\$" "/proc/$pid/status" 2>/dev/null || echo "$pid"
	done
}

# True when each of the three processes exists once; the PIDs are in `guardian` and `killer`.
is_whole() {
	guardian=$(guardian) killer=$(killer)
	brisk status >/dev/null && [ "$(echo $guardian | wc -w)" = 1 ] && [ "$(echo $killer | wc -w)" = 1 ] && grep -q zram0 /proc/swaps
}

no_process_is_left() {
	! grep -qa '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null && [ -z "$(killer)" ]
}

is_alive() {
	grep -qa . "/proc/$1/cmdline" 2>/dev/null
}

# What a launch and a resume do on a device: this application becomes foreground, and the previous one ages.
come_to_foreground() {
	for other in "$work"/pid.*; do
		pid=$(cat "$other")
		is_alive "$pid" || continue
		adj=$(cat "/proc/$pid/oom_score_adj" 2>/dev/null) || continue
		[ "$adj" -ge 980 ] || echo $((adj < 900 ? 900 : adj + 10)) 2>/dev/null >"/proc/$pid/oom_score_adj" || :
	done
	echo 0 2>/dev/null >"/proc/$1/oom_score_adj" || :
	brisk foreground "$1" 2>/dev/null || :
}

# open_application NUMBER: launches it, or resumes it where it still runs, without waiting for it.
open_application() {
	if [ -e "$work/pid.$1" ] && is_alive "$(cat "$work/pid.$1")"; then
		come_to_foreground "$(cat "$work/pid.$1")"
		echo resume >"$work/tap.$1"
		return
	fi
	rm -f "$work/tap.$1" "$work/pid.$1"
	mkfifo "$work/tap.$1"
	# shellcheck disable=SC2016 # its own process
	brisk launch -- sh -c 'echo $$ >"$0/pid.$1"; exec brisk application --number "$1" --seed 1 --turns-per-ms 1000 \
		--storage /dev/flash0 --lookups 20 --services 100 --binder /dev/binder --format android-16 <>"$0/tap.$1"' \
		$work "$1" >/dev/null 2>&1 &
	wait_for 60 test -s "$work/pid.$1"
	come_to_foreground "$(cat "$work/pid.$1")"
}

# squeeze MIB: a process allocates so much as fast as it can, and exits, unless it is killed before.
squeeze() {
	sh -c 'echo 950 >/proc/self/oom_score_adj; exec brisk application --number 1 --seed 2 --turns-per-ms 1000 --storage /dev/flash0 \
		--grow' 2>/dev/null | head -n "$1" >/dev/null
}

# compute SECONDS: continues the device's background work, which is stopped at all other times, for so long.
compute() {
	kill -CONT $hogs
	sleep "$1"
	kill -STOP $hogs
}

# end_by_kill "PROCESS...": kills all of them at once.
end_by_kill() {
	victims=
	for what in $1; do victims="$victims $($what)"; done
	kill -KILL $victims 2>/dev/null || :
}

# kinds PROCESS: the number of its descriptors for kept files of live threads, and of exited threads.
kinds() {
	live=0 ended=0
	# shellcheck disable=SC2012 # the kernel's own names; find would start a process for each
	for kept in $(ls -l "/proc/$1/fd" 2>/dev/null | sed -n 's/.* -> \(.*schedstat\).*/\1/p'); do
		# Threads other than the first of a process exist in /proc, but are not listed.
		if [ -e "${kept%/schedstat}" ]; then live=$((live + 1)); else ended=$((ended + 1)); fi
	done
	echo "$live $ended"
}

# Processes of `brisk launch` that have announced their launch to the daemon and wait.
waiting_launches() {
	cat /proc/[0-9]*/cmdline 2>/dev/null | tr '\0' ' ' | grep -o 'brisk launch -- ' | wc -l
}

# figures PROCESS: resident and proportional memory in KiB, and descriptors.
figures() {
	awk '/^Rss:/ { rss = $2 } /^Pss:/ { pss = $2 } END { printf "%d %d", rss, pss }' "/proc/$1/smaps_rollup"
	set -- "/proc/$1/fd"/*
	printf ' %d' $#
}

# The kernel's own kills since the last call; its log would not keep those of a whole day.
note_kernel_kills() {
	dmesg -c | grep 'Out of memory: Killed process' >>$work/kernel_kills || :
}

sample() {
	note_kernel_kills
	is_whole || wait_for 60 is_whole || return 1
	pid=$(daemon)
	say sample "$(uptime_ms) daemon $pid $(figures "$pid") guardian $guardian $(figures "$guardian") killer $killer $(figures "$killer") kept $(kinds "$pid") launches $(waiting_launches) threads $(printf '%s\n' /proc/[0-9]*/task/* | wc -l) journal $(stat -c %s /run/brisk/journal)"
}

uptime_ms() {
	sed 's/^\([0-9]*\)\.\([0-9]*\) .*/\1\20/' /proc/uptime
}

sleep_until() {
	now=$(uptime_ms)
	[ "$1" -le "$now" ] || usleep $((($1 - now) * 1000))
}

play() {
	begun_ms=$(uptime_ms)
	while read -r at event argument; do
		sleep_until $((begun_ms + at))
		case $event in
		open) open_application "$argument" ;;
		squeeze) squeeze "$argument" & ;;
		compute) compute "$argument" & ;;
		reload)
			configure "$argument"
			kill -HUP "$(daemon)" 2>/dev/null || :
			;;
		off) echo 0 >$second ;;
		on) [ ! -e $second ] || echo 1 >$second ;;
		kill) end_by_kill "$argument" ;;
		sample) sample ;;
		esac
	done </events
}

end_applications() {
	for file in "$work"/pid.*; do kill -KILL "$(cat "$file")" 2>/dev/null || :; done
}

# Services for lookups and the CPU-bound processes: they run from before the first state until after the last.
surround() {
	mkfifo $work/never
	brisk lab context-manager --format android-16 --device /dev/binder <>$work/never >$work/manager &
	wait_for 60 grep -q ready $work/manager
	brisk lab services --format android-16 --device /dev/binder --count 100 <>$work/never >$work/services &
	wait_for 60 grep -q ready $work/services
	hogs=
	for _ in 1 2; do
		sh -c 'while :; do :; done' &
		hogs="$hogs $!"
	done
	build=$!
	kill -STOP $hogs
}

mkdir -p $work /etc/brisk /var/lib/brisk
: >$log
: >$work/kernel_kills
[ ! -e $second ] || echo 1 >$second
for policy in "$cpufreq"/policy*; do echo ondemand >"$policy/scaling_governor"; done
echo 100000 >$cpufreq/ondemand/sampling_rate
configure 0
surround
sleep 2
list_threads
state >$work/before 2>/dev/null
say lines "$(wc -l <$work/before)"

brisk boot hold --until file:$work/booted --timeout-s 600 2>>$work/hold &
hold=$!
is_held() { [ "$(cat $cpufreq/policy0/scaling_governor)" = performance ]; }
wait_for 60 is_held
supervise &
supervisor=$!
wait_for 60 is_whole
touch $work/booted
status=0
wait $hold || status=$?
rm $work/booted
say hold "$status $(cat $cpufreq/policy0/scaling_governor)"
play
wait_for 60 is_whole
say end "$(uptime_ms)"
say kills "$(brisk memory explain --json | tr -d '\n')"
note_kernel_kills
say oom "$(sed -n 's/^oom_kill //p' /proc/vmstat)"
while read -r kill; do say kernel_kill "$kill"; done <$work/kernel_kills
configure 0
end_applications
touch $work/over
kill -TERM "$(daemon)"
wait $supervisor || :
wait_for 60 no_process_is_left
sleep 10
if is_as_before; then say state same; else say state "$(diff $work/before $work/now | tr '\n' ';')"; fi
say left "$(brisk restore)"
# Check that a difference is detected: a changed tunable and a changed priority.
swappiness=$(cat /proc/sys/vm/swappiness)
echo $((swappiness + 1)) >/proc/sys/vm/swappiness
renice -n 1 -p $build >/dev/null
is_as_before || say planted "$(diff $work/before $work/now | tr '\n' ';')"
echo "$swappiness" >/proc/sys/vm/swappiness
say_complaints $log $work/hold $work/restored
say said "$(wc -l <$log)"
kill -KILL $hogs
