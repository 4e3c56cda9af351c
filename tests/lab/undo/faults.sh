#!/bin/sh
# Faults of tunables under a lease, on a real kernel with two CPUs. Runs in the lab's guest, as `faults.sh NAME...`;
# tests/lab/undo/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

cpu=/sys/devices/system/cpu
cpufreq=$cpu/cpufreq
log=/run/log

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/launch.sh
. /launch_steps.sh

govern() {
	for policy in "$cpufreq"/policy*; do
		echo "$1" >"$policy/scaling_governor"
	done
}

# configure ACTUATOR: launch acts only on announced launches, which last until they are ended.
configure() {
	mkdir -p /etc/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		triggers = ["announced"]
		actuators = ["$1"]
		[launch.end]
		load_below_cpu_percent = 0
		deadline_ms = 60000
	END
}

start_daemon() {
	: >"$log"
	brisk daemon 2>>"$log" &
	daemon=$!
	wait_for 20 grep -q 'brisk: ready' "$log"
}

stop_daemon() {
	kill "$daemon"
	code=0
	wait "$daemon" || code=$?
	say "$1.exit" "$code"
	while read -r line; do
		say "$1.log" "$line"
	done <"$log"
}

# A CPU goes offline while its policy's limit is leased: the kernel answers EBUSY until it comes back.
hotplug() {
	govern ondemand
	echo 100000 >"$cpufreq/ondemand/sampling_rate"
	configure scaling-min-freq
	start_daemon
	begin_launch
	wait_for 20 holds "$cpufreq/policy1/scaling_min_freq" 1200000
	echo 0 >"$cpu/cpu1/online"
	wait_for 20 grep -q 'the device changed' "$log"
	say hotplug.read "$(cat "$cpufreq/policy1/scaling_min_freq" 2>&1 || true)"
	wait_for 20 holds "$cpufreq/policy0/scaling_min_freq" 1200000
	status hotplug.offline
	end_launch
	wait_for 20 holds "$cpufreq/policy0/scaling_min_freq" 200000
	echo 1 >"$cpu/cpu1/online"
	# The kernel has kept the limit; it is restored far sooner than at the launch's deadline.
	wait_for 20 holds "$cpufreq/policy1/scaling_min_freq" 200000
	wait_for 20 grep -q 'on policy0 and policy1' "$log"
	status hotplug.after
	stop_daemon hotplug
}

# The user sets another governor, and removes the module of the governor that a launch has a lease on.
governor() {
	govern ondemand
	rate=$cpufreq/ondemand/sampling_rate
	echo 100000 >"$rate"
	configure sampling-rate
	start_daemon
	begin_launch
	wait_for 20 holds "$rate" 10000
	govern performance
	rmmod cpufreq_ondemand
	wait_for 20 grep -q 'governor performance' "$log"
	status governor.gone
	end_launch
	say governor.kept "$(cat "$cpufreq/policy0/scaling_governor")"
	govern ondemand30
	rate=$cpufreq/ondemand30/sampling_rate
	echo 100000 >"$rate"
	# A governor's tunables are probed when it is set: have them probed again.
	kill -HUP "$daemon"
	wait_for 20 grep -q 'reloaded; launch: sampling-rate' "$log"

	# Even root cannot open a sysfs file without write permission.
	chmod 444 "$rate"
	begin_launch
	wait_for 20 grep -q 'Permission denied' "$log"
	say governor.refused "$(cat "$rate")"
	status governor.denied
	end_launch
	chmod 644 "$rate"

	# The driver is removed, and every policy with it.
	begin_launch
	wait_for 20 holds "$rate" 10000
	rmmod virtual_cpufreq
	end_launch
	begin_launch
	end_launch
	wait_for 20 grep -q 'has no policy' "$log"
	status governor.unsupported
	stop_daemon governor
}

# is_clamped PID MINIMUM: the utilisation that the scheduler assumes for it at least.
is_clamped() {
	grep -q "^uclamp.min *: *$2\$" "/proc/$1/sched"
}

# A launched process is clamped for as long as its launch lasts and the daemon runs.
clamp() {
	govern schedutil
	configure uclamp
	for end in TERM KILL; do
		start_daemon
		begin_launch
		application=$(pidof sleep)
		wait_for 60 is_clamped "$application" 1024
		status clamp.held
		kill -s "$end" "$daemon"
		wait_for 60 is_clamped "$application" 0
		say clamp.freed "$end"
		wait "$daemon" || true
		end_launch
	done
}

# Our modules are removed while they are in use.
unload() {
	govern ondemand30
	sleep 1
	rmmod virtual_cpufreq
	rmmod ondemand30
	say unload.done yes
}

# An experiment sets values that the kernel refuses: EINVAL and EACCES.
experiment() {
	govern ondemand
	rate=$cpufreq/ondemand/sampling_rate
	echo 100000 >"$rate"
	for arm in 'tunables = { sampling_rate = 20_000, up_threshold = 0 }' 'policy = { cpuinfo_max_freq = "1" }'; do
		cat >/run/refused.toml <<-END
			name = "refused"
			title = ""
			description = ""
			mechanism = "launch"
			mode = "native"
			workload = { program = "load", work_ms = [5], settle_ms = [20, 30], window_beyond_work_ms = 2000 }
			replicates = { quick = 2, full = 2 }
			[[arm]]
			name = "stock"
			title = ""
			baseline = true
			[[arm]]
			name = "refused"
			title = ""
			$arm
		END
		code=0
		brisk prove /run/refused.toml --here --output /run/results >/dev/null 2>"$log" || code=$?
		say experiment.exit "$code"
		say experiment.error "$(tr '\n' ' ' <"$log")"
		say experiment.left "$(cat "$cpufreq/policy0/scaling_governor" "$rate" "$cpufreq/policy0/scaling_min_freq" | tr '\n' ' ')"
		rm -rf /run/results
	done
}

for fault; do
	"$fault"
done
