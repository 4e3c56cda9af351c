#!/bin/sh
# Bulk threads are deprioritised for a foreground and fully restored, even after SIGKILL, on a real kernel with two CPUs. Runs
# in the lab's guest; tests/lab/placement/mod.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	states >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# The mask, priority, policy and groups of each bulk process.
states() {
	for hog in $hogs; do
		mask=$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$hog/status")
		# Without the name in brackets: nice is field 19, the policy field 41.
		priority=$(sed 's/.*) //' "/proc/$hog/stat" | awk '{ print $17, $39 }')
		echo "$mask | $priority | $(tr '\n' ' ' <"/proc/$hog/cgroup")"
	done
}

is_as_before() {
	[ "$(states)" = "$before" ]
}

is_isolated() {
	for hog in $hogs; do
		grep -q '^Cpus_allowed_list:[[:space:]]*0$' "/proc/$hog/status" || return 1
	done
}

# Half of the bulk threads are in another program's group.
join_group() {
	if [ -d /sys/fs/cgroup/cpuset ]; then
		group=/sys/fs/cgroup/cpuset/others
		mkdir "$group"
		echo 0-1 >"$group/cpuset.cpus"
		echo 0 >"$group/cpuset.mems"
	else
		group=/sys/fs/cgroup/others
		mkdir "$group"
	fi
	echo "$1" >"$group/cgroup.procs"
}

is_own_core() {
	brisk placement explain --json | grep -q '"is_foreground":true,"class":"[a-z]*","thesis_class":"own-core"'
}

# A program becomes foreground and has a CPU for itself. The thesis rule judges by the CPU time that a task once used, which is
# too little where it shares the CPU from the start: the bulk processes are stopped until the demand is known.
bring_to_front() {
	# shellcheck disable=SC2086 # a list of processes
	kill -STOP $hogs
	rm -f /run/front
	brisk launch -- sh -c 'echo $$ >/run/front; while :; do :; done' 2>/dev/null &
	launch=$!
	wait_for 60 is_own_core
	# shellcheck disable=SC2086
	kill -CONT $hogs
	wait_for 60 is_isolated
}

# follow RULE: rules without a trial, whose outcome would depend on how busy the host is.
follow() {
	configure "rule = \"$1\"" 'groups = "off"' 'idle_sampling_ms = 200'
}

follow thesis
hogs=
for number in 1 2 3; do
	sh -c 'while :; do :; done' &
	hogs="$hogs $!"
	[ "$number" -eq 1 ] && join_group $!
done
before=$(states)
say before "$(echo "$before" | tr '\n' ';')"

start_daemon
bring_to_front
say isolated "$(states | tr '\n' ';')"
end_front
wait_for 60 is_as_before
say freed yes

# SIGKILL of the daemon: the guardian restores.
bring_to_front
kill -9 "$daemon"
wait_for 60 is_as_before
say killed.daemon yes
end_front
wait "$daemon" || true

# SIGKILL of the guardian: the daemon starts another, which restores after the daemon.
start_daemon
bring_to_front
first=$(guardian)
kill -9 "$first"
has_another() {
	second=$(guardian)
	[ -n "$second" ] && [ "$second" != "$first" ]
}
wait_for 60 has_another
wait_for 60 is_isolated
kill -9 "$daemon"
wait_for 60 is_as_before
say killed.guardian yes
end_front
wait "$daemon" || true

# SIGKILL of both: `brisk restore` restores.
start_daemon
bring_to_front
guardian=$(guardian)
kill -9 "$guardian" "$daemon"
wait_for 60 is_gone "$guardian"
wait "$daemon" || true
is_isolated || say killed.both.left no
brisk restore >/dev/null
is_as_before && say killed.both yes
end_front

# A value that another process sets meanwhile is kept.
start_daemon
bring_to_front
chosen=${hogs##* }
taskset -p 2 "$chosen" >/dev/null
end_front
others_are_as_before() {
	[ "$(states | head -n 2)" = "$(echo "$before" | head -n 2)" ]
}
wait_for 60 others_are_as_before
say chosen "$(sed -n 's/^Cpus_allowed_list:[[:space:]]*//p' "/proc/$chosen/status")"

# Weight in place of a mask.
follow weight
kill -HUP "$daemon"
wait_for 60 grep -q 'configuration reloaded' "$log"
weighs_less() {
	states | grep -q '^0-1 | 10 0 |'
}
brisk launch -- sh -c 'echo $$ >/run/front; while :; do :; done' 2>/dev/null &
launch=$!
wait_for 60 weighs_less
end_front
wait_for 60 others_are_as_before
say weight yes

kill "$daemon"
code=0
wait "$daemon" || code=$?
say exit "$code"
# shellcheck disable=SC2086 # a list of processes
kill $hogs
