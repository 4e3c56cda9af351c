#!/bin/sh
# One daemon with everything on, under load, and each way to end it: every way restores the system. Runs in the lab's guest
# as `combined.sh MANAGER SLEEPERS RULE WAY...`; tests/lab/combined/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# none: the daemon is a child of this script. systemd: it is the packaged service.
manager=$1
sleepers=$2
rule=$3
shift 3
cpufreq=/sys/devices/system/cpu/cpufreq
rate=$cpufreq/ondemand/sampling_rate
work=/run/check
log=$work/log
recording=$work/recording.jsonl

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/state.sh
. /state_steps.sh

in_vain() {
	diff "$work/before" "$work/now" >&2 || :
	hog_states >&2
	brisk status >&2 || :
	tail -n 20 "$log" >&2 || :
}

configure() {
	mkdir -p /etc/brisk
	lasting_launches sampling-rate 60000 >/etc/brisk/brisk.toml
	cat >>/etc/brisk/brisk.toml <<-END
		[placement]
		enabled = true
		rule = "$rule"
		idle_sampling_ms = 200
		[memory]
		restraint_s = 60
		[memory.zram]
		enabled = true
		[memory.killer]
		enabled = true
		prefetch = true
		[memory.killer.pageout]
		target_kib = 460800
		[memory.killer.writeback]
		daily_kib = 8192
		period_s = 1
	END
}

# Two CPU-bound processes, a build, a cached application and many sleeping processes.
load() {
	for _ in 1 2; do
		sh -c 'while :; do :; done' &
		hogs="${hogs-} $!"
	done
	sh -c 'while :; do ls -lR /etc; done' >/dev/null 2>&1 &
	build=$!
	# shellcheck disable=SC2016 # its own text
	sh -c 'text=$(head -c 8388608 /dev/urandom | base64 | tr -d "\n"); read -r line <'"$work/never" &
	cached=$!
	count=0
	while [ "$count" -lt "$sleepers" ]; do
		sleep 100000 &
		count=$((count + 1))
	done
}

hog_states() {
	for hog in $hogs; do
		grep '^Cpus_allowed_list' "/proc/$hog/status"
		sed 's/^\([0-9]*\) (.*) /\1 /' "/proc/$hog/stat" | awk '{ print $18, $39, $40 }'
		cat "/proc/$hog/cgroup"
	done
}

guardian() {
	brisk status --json | tr ',' '\n' | sed -n 's/.*"guardian_pid":\([0-9]*\).*/\1/p'
}

has_swapped() {
	[ "$(sed -n 's/^VmSwap:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$cached/status")" -ge 4096 ]
}

is_on() {
	grep -q zram0 /proc/swaps && [ -n "$(killer)" ] && [ "$(cat $rate)" -ne 100000 ] && [ "$(hog_states)" != "$hogs_before" ]
}

# A dead process that is not yet reaped has no command line.
no_process_is_left() {
	! grep -qa '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null && [ -z "$(killer)" ] &&
		! grep -qa . "/proc/$daemon/cmdline" 2>/dev/null
}

start() {
	if [ "$manager" = systemd ]; then
		systemctl start brisk.service
		daemon=$(systemctl show --property=MainPID --value brisk.service)
	else
		# shellcheck disable=SC2086 # an option and its argument, or nothing
		brisk daemon $record 2>>$log &
		daemon=$!
	fi
	wait_for 60 brisk status
}

# Everything is active: the CPU-bound processes stay stopped until something was swapped out, which happens on an idle CPU.
start_all() {
	# shellcheck disable=SC2086 # a list of processes
	kill -STOP $hogs $build
	start >/dev/null
	wait_for 120 has_swapped
	# shellcheck disable=SC2086
	kill -CONT $hogs $build
	rm -f $work/front
	brisk launch -- sh -c "renice -n 15 -p \$\$; echo \$\$ >$work/front; while :; do :; done" >/dev/null 2>&1 &
	launch=$!
	wait_for 60 test -s $work/front
	wait_for 60 is_on
}

# The number of warnings about missing write-back, which is not configured here.
warnings() {
	complaints $log | grep -c 'nothing is written back' || :
}

is_warned() {
	[ "$(warnings)" -gt 0 ]
}

is_another_killer() {
	[ -n "$(killer)" ] && [ "$(killer)" != "$first" ]
}

end_by() {
	guardian=$(guardian)
	case $1 in
	term) kill -TERM "$daemon" ;;
	int) kill -INT "$daemon" ;;
	stop) systemctl stop brisk.service ;;
	daemon) kill -KILL "$daemon" ;;
	killer)
		first=$(killer)
		kill -KILL "$first"
		wait_for 60 is_another_killer
		kill -TERM "$daemon"
		;;
	apart*)
		kill -KILL "$guardian"
		sleep "${1#apart}"
		kill -KILL "$daemon"
		;;
	both)
		kill -KILL "$guardian" "$daemon"
		wait_for 60 no_process_is_left
		# Under systemd the service's ExecStopPost does it.
		[ "$manager" = systemd ] || brisk restore >/dev/null
		;;
	all)
		# shellcheck disable=SC2046 # a list of processes
		kill -KILL "$guardian" "$daemon" $(killer)
		wait "$daemon" 2>/dev/null || :
		start >/dev/null
		if [ "$manager" = systemd ]; then systemctl stop brisk.service; else kill -TERM "$daemon"; fi
		;;
	esac
	[ "$manager" = systemd ] || wait "$daemon" 2>/dev/null || :
	wait_for 60 no_process_is_left
}

renice -n -15 -p $$ >/dev/null
mkdir -p $work /var/lib/brisk
mkfifo $work/never
: >$log
for policy in "$cpufreq"/policy*; do echo ondemand >"$policy/scaling_governor"; done
echo 100000 >$rate
configure
load
echo 950 >"/proc/$cached/oom_score_adj"
has_text() {
	[ "$(sed -n 's/^VmRSS:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$cached/status")" -ge 8192 ]
}
wait_for 120 has_text
sleep 2
list_threads
hogs_before=$(hog_states)
state >$work/before 2>/dev/null
say lines "$(wc -l <$work/before)"
for way in "$@"; do
	record=
	if [ "$way" = term ] && [ "$manager" = none ]; then record="--record $recording"; fi
	start_all
	end_by "$way"
	kill -KILL "$(cat $work/front)" 2>/dev/null || :
	wait "$launch" 2>/dev/null || :
	# A failed service keeps its controllers until systemd is told to reset it.
	[ "$manager" = none ] || systemctl reset-failed brisk.service 2>/dev/null || :
	if wait_for 30 is_as_before; then say "$way" same; else say "$way" "$(diff $work/before $work/now | tr '\n' ';')"; fi
	say "$way.left" "$(brisk restore)"
	rm -f $work/front
done
if [ -e $recording ]; then
	status=0
	brisk replay $recording >$work/replayed || status=$?
	say replayed "$status"
	while read -r line; do say replay "$line"; done <$work/replayed
fi
say warned "$(warnings)"
# Check that a warning is counted: this record cannot be read.
echo damaged >/var/lib/brisk/memory-wear.json
record=
start >/dev/null
wait_for 60 is_warned
end_by term
say planted "$(warnings)"
# shellcheck disable=SC2086 # a list of processes
kill -KILL $hogs $build $cached
