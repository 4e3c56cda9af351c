#!/bin/sh
# A launch's utilisation floor and placement's ceiling on one thread, on a kernel that clamps utilisation: while the floor holds there
# is no ceiling below it, which comes once the floor has ended, and after SIGKILL neither is left. That kernel has equal CPUs: here brisk
# is told of unequal ones. Runs in the lab's guest; tests/lab/interactions.rs reads the lines "NAME: TEXT".
set -eu

cpus=/sys/devices/system/cpu
launched=/run/launched

# shellcheck source=tests/lab/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement_steps.sh
. /placement_steps.sh

in_vain() {
	clamps_of "$hog" >&2
	brisk status >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# tell_capacity CPU CAPACITY
tell_capacity() {
	mount -t tmpfs none "$cpus/cpu$1"
	echo "$2" >"$cpus/cpu$1/cpu_capacity"
}

# clamp_launches BOOL
clamp_launches() {
	mkdir -p /etc/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		enabled = $1
		triggers = ["announced"]
		actuators = ["uclamp"]
		force = true
		[launch.uclamp]
		minimum = 600
		[launch.end]
		load_below_cpu_percent = 0
		deadline_ms = 600000
		[placement]
		enabled = true
		rule = "weight"
		groups = "off"
		look_ms = 50
		idle_look_ms = 200
	END
}

# Nice value, lower and upper clamp.
clamps_of() {
	nice=$(sed 's/.*) //' "/proc/$1/stat" | awk '{ print $17 }')
	echo "$nice $(sed -n 's/^uclamp.min *: *//p' "/proc/$1/sched") $(sed -n 's/^uclamp.max *: *//p' "/proc/$1/sched")"
}

has() {
	[ "$(clamps_of "$hog")" = "$1" ]
}

# Each, when it has come: a launch clamps its process, which goes to the background and computes.
# both NAME
both() {
	rm -f $launched
	brisk launch -- sh -c "renice -n 15 -p \$\$; echo \$\$ >$launched; while :; do :; done" >/dev/null 2>&1 &
	launch=$!
	wait_for 60 test -s $launched
	hog=$(cat $launched)
	wait_for 60 has "0 600 1024"
	say "$1.launched" "$(clamps_of "$hog")"
	brisk foreground "$front"
	# A ceiling of 356 would be below the floor: the kernel would refuse it.
	wait_for 60 has "10 600 1024"
	say "$1.both" "$(clamps_of "$hog")"
	say "$1.status" "$(brisk status --json | tr -d '\n')"
}

end() {
	kill -KILL "$hog"
	wait "$launch" || :
}

renice -n -15 -p $$ >/dev/null
for policy in "$cpus"/cpufreq/policy*; do echo schedutil >"$policy/scaling_governor"; done
# Linux 6.1: what is below four fifths of 446.
tell_capacity 0 1024
tell_capacity 1 446
clamp_launches true
sh -c 'renice -n 15 -p $$ >/dev/null; while :; do :; done' &
front=$!
hog=$front
start_daemon
both end
clamp_launches false
kill -HUP "$daemon"
wait_for 60 has "10 0 356"
say end.ceiling "$(clamps_of "$hog")"
brisk foreground --none
wait_for 60 has "0 0 1024"
say end.free "$(clamps_of "$hog")"
clamp_launches true
kill -HUP "$daemon"
end

both killed
kill -KILL "$daemon"
wait "$daemon" || :
wait_for 60 has "0 0 1024"
say killed.free "$(clamps_of "$hog")"
say left "$(brisk restore)"
say_complaints "$log"
end
kill -KILL "$front"
