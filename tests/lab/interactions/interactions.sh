#!/bin/sh
# Mechanisms that act at the same time, on the same processes and CPUs: each takes effect, and the system is restored. Runs
# in the lab's guest as `interactions.sh STEP ACTUATOR`; tests/lab/interactions/mod.rs reads the lines "NAME: TEXT".
# shellcheck disable=SC2086 # lists of processes
set -eu

cpus=/sys/devices/system/cpu
cpufreq=$cpus/cpufreq
rate=$cpufreq/ondemand/sampling_rate
cache=/sys/kernel/binder_cache/binder
work=/run/check
log=$work/log
# Where CPUs follow the host's clock, a busy host slows everything.
patience=300

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/state.sh
. /state_steps.sh

in_vain() {
	diff "$work/before" "$work/now" >&2 || :
	for pid in $hogs ${victim-}; do cat "/proc/$pid/cgroup" "/proc/$pid/stat" >&2 || :; done
	brisk memory status >&2 || :
	brisk status >&2 || :
	brisk placement explain >&2 || :
	tail -n 30 "$log" >&2 || :
}

# configure ACTUATOR: the actuator of launches.
configure() {
	mkdir -p /etc/brisk
	lasting_launches "$1" 600000 >/etc/brisk/brisk.toml
	cat >>/etc/brisk/brisk.toml <<-END
		[placement]
		enabled = true
		rule = "weight"
		sampling_ms = 50
		idle_sampling_ms = 100
		[memory.zram]
		enabled = true
		[memory.killer]
		enabled = true
		reserve_kib = 65536
		[lookup]
		enabled = true
		mode = "transparent"
		entries = 64
	END
}

holds() {
	[ "$(cat "$1")" = "$2" ]
}

# By a group or by its nice value.
is_deprioritised() {
	grep -q brisk-threads "/proc/$1/cgroup" || has_nice "$1" 10
}

are_deprioritised() {
	for pid in "$@"; do is_deprioritised "$pid" || return 1; done
}

are_free() {
	for pid in "$@"; do ! is_deprioritised "$pid" || return 1; done
}

is_free() {
	are_free "$1"
}

has_gone() {
	! grep -qa . "/proc/$1/cmdline"
}

# This busybox's renice adds to the current value: CPU-bound processes have nice 0.
compute() {
	sh -c 'renice -n 15 -p $$ >/dev/null; while :; do :; done' &
	wait_for $patience has_nice $! 0
}

# A CPU-bound process is in the foreground, and its launch lasts.
begin_foreground() {
	rm -f $work/foreground
	brisk launch -- sh -c "renice -n 15 -p \$\$; echo \$\$ >$work/foreground; while :; do :; done" >/dev/null 2>&1 &
	launch=$!
	wait_for $patience test -s $work/foreground
}

end_foreground() {
	kill -KILL "$(cat $work/foreground)"
	wait "$launch" || :
}

served() {
	exec sh -c 'renice -n 15 -p $$ >/dev/null; exec brisk lab "$@" --format android-16 --device /dev/binder' sh "$@"
}

# Services. Binder gives the serving thread the caller's nice value during a call: both have the same.
serve() {
	mkfifo $work/never
	served context-manager <>$work/never >$work/manager &
	wait_for $patience grep -q ready $work/manager
	served services --count 40 <>$work/never >$work/services &
	wait_for $patience grep -q ready $work/services
}

# Looks services up continuously.
lookup() {
	while [ ! -e $work/over ]; do
		brisk lookup bench --format android-16 --lookups 100 --json >$work/looked_up.new 2>>$work/failed || echo failed >>$work/failed
		mv $work/looked_up.new $work/looked_up
		echo one >>$work/rounds
		sleep 0.5
	done
}

hits() {
	sed -n 's/^hits //p' $cache/stats
}

are_more_hits() {
	[ "$(hits)" -gt "$hits_before" ]
}

# say_cache NAME: waits for another answer of the cache.
say_cache() {
	hits_before=$(hits)
	wait_for $patience are_more_hits
	say "$1.cache" "$(cat $cache/mode) $(cat $cache/capacity)"
}

is_told() {
	brisk status --json | tr -d '\n' | grep -q "$1"
}

start_daemon() {
	brisk daemon 2>>$log &
	daemon=$!
	wait_for $patience grep -q 'brisk: ready' $log
}

status() {
	say "$1" "$(brisk status --json | tr -d '\n')"
}

# A daemon starts while a boot is held, boosts launches by the other actuators meanwhile, and leases the governor's tunable when
# the boot has completed.
handover() {
	brisk boot hold --until file:$work/done >/dev/null 2>&1 &
	holder=$!
	wait_for $patience holds $cpufreq/policy0/scaling_governor performance
	start_daemon
	wait_for $patience is_told 'brisk boot hold'
	status handover.held
	kill -CONT $hogs
	begin_foreground
	wait_for $patience are_deprioritised $hogs
	say_cache handover
	say handover.governor "$(cat $cpufreq/policy0/scaling_governor)"
	end_foreground
	touch $work/done
	wait "$holder"
	rm $work/done
	say handover.after "$(cat $cpufreq/policy0/scaling_governor) $(cat $rate)"
	wait_for $patience is_told 'sampling-rate'
	begin_foreground
	wait_for $patience holds $rate 10000
	say handover.launch helped
	end_foreground
	wait_for $patience holds $rate 100000
}

swapped_kib() {
	awk '/^SwapTotal/ { total = $2 } /^SwapFree/ { print total - $2 }' /proc/meminfo
}

# fill MIB: the writers of a pipe hold three times as much, of which a third is incompressible, until a process reads the pipe.
fill() {
	dd if=/dev/zero bs="$(($1 * 2))M" count=1 2>/dev/null >&5 &
	fillers="$fillers $!"
	dd if=/dev/urandom bs="$1M" count=1 2>/dev/null >&5 &
	filler=$!
	fillers="$fillers $filler"
	full_kib=$(($1 * 1024))
	wait_for $patience is_full
}

is_full() {
	[ "$(awk '/^VmRSS|^VmSwap/ { held += $2 } END { print held }' "/proc/$filler/status")" -ge "$full_kib" ]
}

leases_of() {
	brisk status | grep -c "of thread $1 holds" || :
}

# has_lease THREAD: the number is in `leases`, since placement may have released them before the next answer.
has_lease() {
	leases=$(leases_of "$1")
	[ "$leases" -gt 0 ]
}

has_no_lease() {
	! has_lease "$1"
}

has_text() {
	[ "$(awk '/^VmRSS|^VmSwap/ { held += $2 } END { print held }' /proc/$victim/status)" -ge 4096 ]
}

# A launch under memory pressure. The killer ends a bulk process that placement has leases on; both continue.
pressure() {
	hoard='BEGIN { text = "more"; while (length(text) < 4194304) text = text text; while (1) rounds++ }'
	sh -c "renice -n 15 -p \$\$ >/dev/null; exec awk '$hoard'" &
	victim=$!
	wait_for $patience has_text
	start_daemon
	# They become CPU-bound now: processes that slept for long would be classified as bulk only later.
	kill -CONT $hogs
	fillers=
	while [ "$(swapped_kib)" -lt 16384 ]; do fill 4; done
	begin_foreground
	wait_for $patience holds $rate 10000
	wait_for $patience are_deprioritised $hogs $victim
	say pressure.launch "helped with $(swapped_kib) KiB on swap"
	wait_for $patience has_lease $victim
	say pressure.leases "$leases"
	echo 950 >/proc/$victim/oom_score_adj
	while ! has_gone $victim && [ "$(echo "$fillers" | wc -w)" -lt 80 ]; do fill 4; done
	say pressure.victim "$victim"
	wait $victim || :
	say pressure.rate "$(cat $rate)"
	compute
	late=$!
	wait_for $patience are_deprioritised $late
	say pressure.killer "$(is_free "$(killer)" && echo free)"
	say_cache pressure
	wait_for $patience has_no_lease $victim
	say pressure.left "$leases"
	say pressure.kills "$(brisk memory kills --json | tr -d '\n')"
	say pressure.oom "$(sed -n 's/^oom_kill //p' /proc/vmstat)"
	kill -KILL $late $fillers || :
	end_foreground
	wait_for $patience holds $rate 100000
}

# knows_cpus COUNT
knows_cpus() {
	brisk placement explain | grep -q "^CPUs *$1 "
}

has_floor() {
	holds "$cpufreq/policy$1/scaling_min_freq" "$2"
}

# hold_all NAME: waits until each mechanism holds a lease, and prints the daemon's status. Placement may release its own leases
# for half a second, to measure without them.
hold_all() {
	wait_for $patience do_all_hold
	say "$1" "$(cat $work/status)"
}

do_all_hold() {
	brisk status --json | tr -d '\n' >$work/status
	sed 's/.*"leases":\[//; s/"mechanisms":.*//' $work/status >$work/leases
	for lease in policy0/scaling_min_freq policy1/scaling_min_freq swappiness binder_cache; do
		grep -q "$lease" $work/leases || return 1
	done
	for pid in $hogs; do grep -q "\"tid\":$pid}" $work/leases || return 1; done
}

# A CPU goes offline while launch, placement, memory and lookup hold leases, and online when the launch has ended: its leases
# are restored then, because the kernel refuses that before.
unplug() {
	start_daemon
	kill -CONT $hogs
	begin_foreground
	wait_for $patience has_floor 0 1200000
	wait_for $patience has_floor 1 1200000
	hold_all unplug.online
	echo 0 >$cpus/cpu1/online
	wait_for $patience grep -q 'the device changed' $log
	hold_all unplug.offline
	say_cache unplug
	say unplug.floor "$(cat $cpufreq/policy0/scaling_min_freq)"
	say unplug.swap "$(grep -c zram0 /proc/swaps)"
	end_foreground
	wait_for $patience are_free $hogs
	wait_for $patience has_floor 0 200000
	echo 1 >$cpus/cpu1/online
	wait_for $patience has_floor 1 200000
}

have_lookups_gone_on() {
	# The first round ended before a mechanism acted.
	[ "$(wc -l <$work/rounds)" -gt 1 ]
}

# The daemon ends while everything is active again.
end() {
	wait_for $patience have_lookups_gone_on
	begin_foreground
	wait_for $patience are_deprioritised $hogs
	status in_force
	kill -TERM "$daemon"
	code=0
	wait "$daemon" || code=$?
	say exit "$code"
	kill -STOP $hogs
	end_foreground
	if wait_for 5 is_as_before; then say same yes; else say same "$(diff $work/before $work/now | tr '\n' ';')"; fi
	say left "$(brisk restore)"
	say rounds "$(wc -l <$work/rounds)"
	say failed "$(tr '\n' ';' <$work/failed)"
	say_complaints $log
	touch $work/over
	kill -KILL $hogs
	wait "$build" || :
}

renice -n -15 -p $$ >/dev/null
mkdir -p $work /etc/brisk /var/lib/brisk
: >$log
: >$work/failed
mkfifo $work/full
exec 5<>$work/full
for policy in "$cpufreq"/policy*; do echo ondemand >"$policy/scaling_governor"; done
echo 100000 >$rate
configure "$2"
serve
hogs=
for _ in 1 2; do
	compute
	hogs="$hogs $!"
done
kill -STOP $hogs
lookup &
build=$!
renice -n 15 -p $build >/dev/null
wait_for $patience test -e $work/rounds
list_threads
state >$work/before 2>/dev/null
say lines "$(wc -l <$work/before)"
"$1"
end
