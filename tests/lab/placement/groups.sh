#!/bin/sh
# Bulk threads are deprioritised by control groups, or by masks alone where the kernel has none, while a CPU goes offline and
# online and daemon and guardian are killed; every mask and group is restored, every time. Runs in the lab's guest;
# tests/lab/placement/mod.rs reads the lines "NAME: TEXT".
set -eu

cycles=$1
# brisk: a CPU is reserved, unless a trial ends that. weight: a lower weight, always.
rule=$2
cpu=/sys/devices/system/cpu/cpu1/online
# Exists with cpu0_hotplug on the kernel's command line.
other_cpu=/sys/devices/system/cpu/cpu0/online

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	states >&2
	find /sys/fs/cgroup -name 'brisk-*' >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# The mask, priority, policy and groups of each bulk process, and the groups that brisk has made.
states() {
	for hog in $hogs; do
		mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$hog/status")
		# Without the name in brackets: nice is field 19, the policy field 41.
		priority=$(sed 's/.*) //' "/proc/$hog/stat" | awk '{ print $17, $39 }')
		echo "$mask | $priority | $(tr '\n' ' ' <"/proc/$hog/cgroup")"
	done
	find /sys/fs/cgroup -name 'brisk-*'
	cat /sys/fs/cgroup/cgroup.subtree_control 2>/dev/null || :
}

# Checked first, because it takes one process and the guest is busy.
masks() {
	# shellcheck disable=SC2086 # a list of files
	grep -h '^Cpus_allowed_list' $status_files
}

is_as_before() {
	[ "$(masks)" = "$masks_before" ] && [ "$(states)" = "$before" ]
}

has_groups() {
	[ -e /sys/fs/cgroup/cgroup.procs ] || [ -d /sys/fs/cgroup/cpuset ]
}

# Sets `found` to the groups of both.
are_grouped() {
	# shellcheck disable=SC2086 # a list of files
	found=$(cat $group_files)
	! has_groups || case $found in
	*brisk-threads*brisk-threads*) true ;;
	*) false ;;
	esac
}

# All bulk threads are kept off CPU 1, by a group where there are any.
is_isolated() {
	[ "$(masks)" = "$confined" ] && are_grouped
}

weighs_less() {
	if has_groups; then
		are_grouped &&
			cat /sys/fs/cgroup/brisk-threads/cpu.weight /sys/fs/cgroup/cpu/brisk-threads/cpu.shares | grep -q '^11'
	else
		found=$(states)
		[ "$(echo "$found" | grep -c '^0-1 | 10 0 |')" -eq 2 ]
	fi
}

is_applied() {
	if [ "$rule" = brisk ]; then is_isolated; else weighs_less; fi
}

# On a busy host a foreground seems to need more than a CPU, and light tasks miss their deadlines, which ends a step until a
# cool-down is over; a new foreground restarts everything.
wait_until_applied() {
	attempts=0
	until wait_for 10 is_applied; do
		attempts=$((attempts + 1))
		[ "$attempts" -lt 40 ] || return 1
		end_front
		begin_foreground
	done
}

# A lease is restored and requested again so quickly that its absence may not be visible; this state persists.
knows_one_cpu() {
	brisk placement explain | grep -q '^CPUs *1 ([0-9]*), with'
}

# follow RULE
follow() {
	# The trial outlasts the step, because its outcome depends on how busy the host is.
	configure "rule = \"$1\"" 'trial_ms = 10000' 'sampling_ms = 50' 'idle_sampling_ms = 100'
}

# The script needs no CPU time from the processes that it inspects.
renice -n -15 -p $$ >/dev/null
follow "$rule"
sh -c 'while :; do :; done' &
hogs=$!
sh -c 'while :; do :; done' &
hogs="$hogs $!"
status_files=
group_files=
for hog in $hogs; do
	renice -n 15 -p "$hog" >/dev/null
	status_files="$status_files /proc/$hog/status"
	group_files="$group_files /proc/$hog/cgroup"
done
before=$(states)
masks_before=$(masks)
confined=$(printf 'Cpus_allowed_list:\t0\nCpus_allowed_list:\t0')
say before "$(echo "$before" | tr '\n' ';')"

start_daemon
begin_foreground
wait_until_applied
say applied "$(echo "$found" | tr '\n' ';')"
# Another process in a group of brisk's is moved out when brisk removes the group.
sleep 1000 &
stranger=$!
home=$(cat "/proc/$stranger/cgroup")
place_stranger() {
	group=$(find /sys/fs/cgroup -name brisk-threads | head -n 1)
	[ -n "$group" ] || return 1
	for file in cgroup.threads tasks; do
		[ ! -e "$group/$file" ] || echo "$stranger" >"$group/$file"
	done
	grep -q brisk-threads "/proc/$stranger/cgroup"
}
if has_groups; then
	wait_for 60 place_stranger
fi
end_front
wait_for 60 is_as_before
[ "$(cat "/proc/$stranger/cgroup")" = "$home" ] && say freed yes
kill "$stranger"

# A CPU goes offline and online, and a process is killed, at a different moment each time.
cycle=0
while [ "$cycle" -lt "$cycles" ]; do
	case $((cycle % 6)) in
	0) # It goes offline and online while it is reserved.
		begin_foreground
		wait_until_applied
		echo 0 >"$cpu"
		echo 1 >"$cpu"
		wait_until_applied
		end_front
		;;
	1) # Everything is restored while it is offline.
		begin_foreground
		wait_until_applied
		echo 0 >"$cpu"
		end_front
		echo 1 >"$cpu"
		;;
	2) # The daemon is killed while it is offline.
		begin_foreground
		wait_until_applied
		echo 0 >"$cpu"
		kill -9 "$daemon"
		echo 1 >"$cpu"
		wait "$daemon" || true
		wait_for 60 is_as_before
		end_front
		start_daemon
		;;
	3) # It comes back after the foreground has started.
		echo 0 >"$cpu"
		begin_foreground
		echo 1 >"$cpu"
		wait_until_applied
		end_front
		;;
	4) # Daemon and guardian are killed, and it goes offline before any process restores.
		begin_foreground
		wait_until_applied
		guardian=$(guardian)
		kill -9 "$guardian" "$daemon"
		wait_for 60 is_gone "$guardian"
		wait "$daemon" || true
		echo 0 >"$cpu"
		echo 1 >"$cpu"
		brisk restore >/dev/null
		end_front
		start_daemon
		;;
	5) # The last CPU of the bulk threads goes offline; when it is back, they are isolated again.
		begin_foreground
		wait_until_applied
		echo 0 >"$other_cpu"
		wait_for 60 knows_one_cpu
		echo 1 >"$other_cpu"
		wait_until_applied
		end_front
		;;
	esac
	if ! wait_for 60 is_as_before; then
		say left "cycle $cycle: $(states | tr '\n' ';')"
		exit 1
	fi
	cycle=$((cycle + 1))
done
say cycles "$cycle"

# Weight: of all together, by a group; of each, by a nice value.
follow weight
kill -HUP "$daemon"
wait_for 60 grep -q 'configuration reloaded' "$log"
begin_foreground
wait_for 60 weighs_less
say weighed "$(echo "$found" | tr '\n' ';')"

# A thread that another process moves meanwhile stays where it is.
if has_groups; then
	for folder in /sys/fs/cgroup/cpu /sys/fs/cgroup; do
		if [ -e "$folder/cgroup.procs" ]; then
			mkdir "$folder/chosen"
			echo "${hogs##* }" >"$folder/chosen/cgroup.procs"
			break
		fi
	done
fi
end_front
is_first_as_before() {
	[ "$(states | head -n 1)" = "$(echo "$before" | head -n 1)" ] && [ -z "$(find /sys/fs/cgroup -name 'brisk-*')" ]
}
wait_for 60 is_first_as_before
say chosen "$(tr '\n' ' ' <"/proc/${hogs##* }/cgroup")"

kill "$daemon"
code=0
wait "$daemon" || code=$?
say exit "$code"
# shellcheck disable=SC2086 # a list of processes
kill $hogs
