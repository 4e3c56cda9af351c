#!/bin/sh
# Two sessions on one CPU: a background hog no longer takes half of it from the foreground, and the nice value of every
# autogroup is restored after the foreground's end and after any death. Runs in the lab's guest; tests/lab/autogroup/mod.rs
# reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	autogroups >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# The autogroup of every process that outlives the steps.
autogroups() {
	for pid in $hog $front $idle; do
		cat "/proc/$pid/autogroup"
	done
}

is_lowered() {
	grep -q ' nice 1[0-9]$' "/proc/$hog/autogroup"
}

is_as_before() {
	[ "$(autogroups)" = "$before" ]
}

# session NAME COMMAND...: runs COMMAND in its own session; its PID is in the file /run/NAME.
session() {
	name=$1
	shift
	# shellcheck disable=SC2016 # the new shell expands it
	setsid sh -c 'echo $$ >"/run/$0"; exec "$@"' "$name" "$@" &
	wait_for 60 test -s "/run/$name"
}

ticks() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $12 + $13 }'
}

# The foreground's share in percent of the CPU time of both in two seconds.
share() {
	own=$(ticks "$front")
	other=$(ticks "$hog")
	sleep 2
	own=$(($(ticks "$front") - own))
	other=$(($(ticks "$hog") - other))
	echo $((100 * own / (own + other)))
}

foreground() {
	brisk foreground "$front" >/dev/null
}

# Debian's kernels have autogroups and disable them; other distributions enable them.
echo 1 >/proc/sys/kernel/sched_autogroup_enabled
say enabled "$(cat /proc/sys/kernel/sched_autogroup_enabled)"
# The trial is longer than the steps, because trials are not tested here.
configure 'rule = "weight"' 'groups = "off"' 'sampling_ms = 50' 'idle_sampling_ms = 100'
renice -n -15 -p $$ >/dev/null
session hog sh -c 'renice -n 15 -p $$; while :; do :; done'
session front sh -c 'renice -n 15 -p $$; while :; do :; done'
session idle sleep 100000
hog=$(cat /run/hog)
front=$(cat /run/front)
idle=$(cat /run/idle)
echo 3 >"/proc/$idle/autogroup"
before=$(autogroups)
say before "$(echo "$before" | tr '\n' ';')"
say stock "$(share)"

start_daemon
foreground
wait_for 60 is_lowered
say lowered "$(autogroups | tr '\n' ';')"
say share "$(share)"
say explain "$(brisk placement explain | tr '\n' ' ')"
say priority "$(nice_of "$hog")"

brisk foreground --none >/dev/null
wait_for 60 is_as_before
say freed yes

foreground
wait_for 60 is_lowered
kill -9 "$daemon"
wait "$daemon" || true
wait_for 60 is_as_before
say killed.daemon yes

start_daemon
foreground
wait_for 60 is_lowered
guardian=$(guardian)
kill -9 "$guardian" "$daemon"
wait "$daemon" || true
wait_for 60 is_gone "$guardian"
is_lowered && say killed.both.left yes
# Another process of the session lives on after its leader's exit.
brisk restore >/dev/null
wait_for 60 is_as_before
say killed.both yes

# A value that another process sets meanwhile is kept.
start_daemon
foreground
wait_for 60 is_lowered
echo 7 >"/proc/$hog/autogroup"
kill "$daemon"
code=0
wait "$daemon" || code=$?
say exit "$code"
say chosen "$(cat "/proc/$hog/autogroup")"
kill "$hog" "$front" "$idle"
