#!/bin/sh
# A launch's utilisation floor and placement's ceiling on one thread, on a kernel with uclamp: while the floor is set, no
# ceiling below it is set; the ceiling follows when the floor has ended, and SIGKILL leaves neither. That kernel has equal CPUs:
# brisk reads unequal capacities here. Runs in the lab's guest; tests/lab/interactions/mod.rs reads the lines "NAME: TEXT".
set -eu

launched=/run/launched

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	clamps_of "$hog" >&2
	brisk status >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

clamp_launches() {
	mkdir -p /etc/brisk
	lasting_launches uclamp 600000 >/etc/brisk/brisk.toml
	cat >>/etc/brisk/brisk.toml <<-END
		[launch.uclamp]
		minimum = 600
		[placement]
		enabled = true
		rule = "weight"
		groups = "off"
		sampling_ms = 50
		idle_sampling_ms = 200
	END
}

# Nice value, lower and upper clamp.
clamps_of() {
	echo "$(nice_of "$1") $(uclamp_of "$1" min) $(uclamp_of "$1" max)"
}

has() {
	[ "$(clamps_of "$hog")" = "$1" ]
}

# both NAME: a launch clamps its process, which then becomes a CPU-bound background process; waits for each clamp.
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
for policy in /sys/devices/system/cpu/cpufreq/policy*; do echo schedutil >"$policy/scaling_governor"; done
tell_unequal_cpus
clamp_launches
sh -c 'renice -n 15 -p $$ >/dev/null; while :; do :; done' &
front=$!
hog=$front
start_daemon
both end
brisk disable launch
# Linux 6.1: less than four fifths of 446.
wait_for 60 has "10 0 356"
say end.ceiling "$(clamps_of "$hog")"
brisk foreground --none
wait_for 60 has "0 0 1024"
say end.free "$(clamps_of "$hog")"
brisk enable launch
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
