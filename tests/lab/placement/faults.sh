#!/bin/sh
# Faults of control groups while bulk threads are deprioritised: tasks that exit or are moved by other programs at the same
# time, thousands of them at once, a delegated sub-tree with domain and threaded groups, no delegation, a missing controller,
# bound threads, a single CPU. Runs in the lab's guest, as `placement_faults.sh NAME...`; tests/lab/placement/mod.rs reads the
# lines "NAME: TEXT".
set -eu

cgroup=/sys/fs/cgroup

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	find $cgroup -name 'brisk-*' >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# take_groups GROUPS [RULE]: by weight by default, which no trial ends, however busy the host is.
take_groups() {
	configure "rule = \"${2:-weight}\"" 'trial_ms = 10000' "groups = \"$1\"" 'sampling_ms = 50' 'idle_sampling_ms = 100'
}

# stop_daemon NAME
stop_daemon() {
	kill "$daemon"
	code=0
	wait "$daemon" || code=$?
	say "$1.exit" "$code"
	say "$1.left" "$(find $cgroup -name 'brisk-*' | wc -l)"
}

# start_hog: its PID is in `hog`.
start_hog() {
	sh -c 'while :; do :; done' &
	hog=$!
	renice -n 15 -p $hog >/dev/null
}

group_of() {
	cat "/proc/$1/cgroup"
}

is_in() {
	[ "$(group_of "$1")" = "0::$2" ]
}

no_group_is_left() {
	[ -z "$(find $cgroup -name 'brisk-*')" ]
}

# Bulk threads exit or are moved by another process at any moment while brisk moves them into a group and out of it.
churn() {
	# Foreign groups do not prevent the use of groups where the controller is enabled for children anyway.
	echo +cpu >$cgroup/cgroup.subtree_control
	mkdir $cgroup/elsewhere
	take_groups auto
	start_daemon
	begin_foreground
	start_hog
	stays=$hog
	moved=
	for round in 1 2 3 4 5 6; do
		start_hog
		ends=$hog
		start_hog
		moved="$moved $hog"
		sleep "1.$round"
		kill "$ends"
		echo "$hog" >$cgroup/elsewhere/cgroup.procs
	done
	wait_for 60 is_in "$stays" /brisk-threads
	say churn.taken yes
	end_front
	wait_for 60 no_group_is_left
	for hog in $moved; do
		say churn.moved "$(group_of "$hog")"
	done
	say churn.stays "$(group_of "$stays")"
	stop_daemon churn
	# shellcheck disable=SC2086 # a list of processes
	kill $stays $moved
}

# More than a thousand tasks appear at once: brisk samples a few hundred at a time, and deprioritises bulk threads meanwhile.
crowd() {
	take_groups auto
	start_daemon
	begin_foreground
	crowd=
	number=0
	while [ "$number" -lt 1500 ]; do
		sleep 1000 &
		crowd="$crowd $!"
		number=$((number + 1))
	done
	start_hog
	wait_for 60 is_in "$hog" /brisk-threads
	say crowd.taken yes
	end_front
	wait_for 60 is_in "$hog" /
	say crowd.freed yes
	# shellcheck disable=SC2086 # a list of processes
	kill $crowd $hog
	stop_daemon crowd
}

# A sub-tree that the administrator has configured. In it a process's threads are moved into their own group; no thread
# outside of it is moved.
delegated() {
	echo +cpu >$cgroup/cgroup.subtree_control
	mkdir -p $cgroup/ours/domain $cgroup/ours/threaded/part $cgroup/theirs
	echo threaded >$cgroup/ours/threaded/part/cgroup.type
	echo +cpu >$cgroup/ours/cgroup.subtree_control
	echo +cpu >$cgroup/ours/threaded/cgroup.subtree_control
	take_groups $cgroup/ours
	start_daemon
	start_hog
	domain=$hog
	echo "$domain" >$cgroup/ours/domain/cgroup.procs
	start_hog
	threaded=$hog
	echo "$threaded" >$cgroup/ours/threaded/cgroup.procs
	echo "$threaded" >$cgroup/ours/threaded/part/cgroup.threads
	start_hog
	outside=$hog
	echo "$outside" >$cgroup/theirs/cgroup.procs
	begin_foreground
	wait_for 60 is_in "$domain" /ours/domain/brisk-threads
	wait_for 60 is_in "$threaded" /ours/threaded/part/brisk-threads
	wait_for 60 has_nice "$outside" 10
	say delegated.outside "$(group_of "$outside")"
	end_front
	wait_for 60 has_nice "$outside" 0
	wait_for 60 no_group_is_left
	say delegated.domain "$(group_of "$domain")"
	say delegated.threaded "$(group_of "$threaded")"
	say delegated.type "$(cat $cgroup/ours/domain/cgroup.type)"
	stop_daemon delegated
	kill "$domain" "$threaded" "$outside"
}

weighs() {
	[ "$(cat $cgroup/ours/back/cpu.weight)" = "$1" ]
}

begin_foreground_in_its_group() {
	begin_foreground
	cat /run/front >$cgroup/ours/front/cgroup.procs
}

# The foreground and bulk threads have their own groups in the sub-tree, and these groups compete with each other.
neighbours() {
	echo +cpu >$cgroup/cgroup.subtree_control
	mkdir -p $cgroup/ours/front $cgroup/ours/back
	echo +cpu >$cgroup/ours/cgroup.subtree_control
	echo 50 >$cgroup/ours/back/cpu.weight
	take_groups $cgroup/ours
	start_hog
	echo "$hog" >$cgroup/ours/back/cgroup.procs
	start_daemon
	begin_foreground_in_its_group
	wait_for 60 weighs 11
	wait_for 60 is_in "$hog" /ours/back
	say neighbours.weighs yes
	end_front
	wait_for 60 weighs 50
	say neighbours.freed yes

	begin_foreground_in_its_group
	wait_for 60 weighs 11
	kill -9 "$daemon"
	wait_for 60 weighs 50
	say neighbours.killed yes
	end_front
	wait "$daemon" || true

	# A value that another process sets meanwhile is kept, unless the write falls between the daemon's own read and write: the
	# kernel has no atomic way for both. That does not happen in every attempt.
	attempts=0
	until [ "$(cat $cgroup/ours/back/cpu.weight)" = 70 ] || [ "$attempts" -eq 3 ]; do
		attempts=$((attempts + 1))
		start_daemon
		begin_foreground_in_its_group
		wait_for 60 weighs 11
		echo 70 >$cgroup/ours/back/cpu.weight
		end_front
		wait_for 60 no_group_is_left
		stop_daemon neighbours
	done
	say neighbours.chosen "$(cat $cgroup/ours/back/cpu.weight)"
	kill "$hog"
}

# Where a manager has not delegated the sub-tree, and where a controller is missing, nice values are used instead.
alone() {
	if [ "$1" = undelegated ]; then
		mkdir -p /run/systemd/system $cgroup/ours
		take_groups $cgroup/ours
	else
		say "$1.controllers" "$(cat $cgroup/cgroup.controllers)"
		take_groups auto
	fi
	start_daemon
	say "$1.support" "$(brisk status --json | tr -d '\n')"
	start_hog
	begin_foreground
	wait_for 60 has_nice "$hog" 10
	say "$1.group" "$(group_of "$hog")"
	end_front
	wait_for 60 has_nice "$hog" 0
	stop_daemon "$1"
	kill "$hog"
	rmdir /run/systemd/system 2>/dev/null || :
}

mask_of() {
	sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$1/status"
}

has_mask() {
	[ "$(mask_of "$1")" = "$2" ]
}

# A thread that another process has bound to a CPU keeps its mask and its group, whose cpuset might reset the mask.
bound() {
	take_groups auto
	start_daemon
	start_hog
	taskset -p 2 "$hog" >/dev/null
	begin_foreground
	wait_for 60 has_nice "$hog" 10
	say bound.group "$(group_of "$hog")"
	say bound.mask "$(mask_of "$hog")"
	end_front
	wait_for 60 has_nice "$hog" 0
	say bound.mask "$(mask_of "$hog")"
	stop_daemon bound
	kill "$hog"
}

# With a single CPU none can be reserved, however long the foreground's run-queue delay is.
single() {
	echo 0 >/sys/devices/system/cpu/cpu1/online
	take_groups auto brisk
	start_daemon
	start_hog
	begin_foreground
	# A light task that misses its deadline on a busy host ends a step; a new foreground restarts everything.
	attempts=0
	until wait_for 10 is_in "$hog" /brisk-threads; do
		attempts=$((attempts + 1))
		[ "$attempts" -lt 40 ] || return 1
		end_front
		begin_foreground
	done
	say single.mask "$(mask_of "$hog")"
	say single.cpus "[$(cat $cgroup/brisk-threads/cpuset.cpus 2>/dev/null || :)]"
	end_front
	wait_for 60 is_in "$hog" /
	echo 1 >/sys/devices/system/cpu/cpu1/online
	wait_for 60 has_mask "$hog" 0-1
	stop_daemon single
	kill "$hog"
}

# The script needs no CPU time from the processes that it inspects.
renice -n -15 -p $$ >/dev/null
for step; do
	case $step in
	undelegated | missing) alone "$step" ;;
	*) "$step" ;;
	esac
done
