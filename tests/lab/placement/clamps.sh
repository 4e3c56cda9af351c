#!/bin/sh
# Deprioritised bulk threads claim no big core and their clamps are restored, even after SIGKILL, on a kernel with uclamp. That
# kernel has equal CPUs without capacities: brisk reads unequal ones here. Runs in the lab's guest;
# tests/lab/placement/mod.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	clamp_of "$hog" >&2
	brisk placement explain >&2
	tail -n 20 "$log" >&2
}

# Nice value and upper clamp.
clamp_of() {
	echo "$(nice_of "$1") $(uclamp_of "$1" max)"
}

has() {
	[ "$(clamp_of "$1")" = "$2" ]
}

# The hog forks a child on request, and the child sleeps.
start_hog() {
	sh -c 'while :; do if [ -e /run/fork ]; then rm /run/fork; sleep 1000 & echo $! >/run/heir; fi; done' &
	hog=$!
}

# The child that the hog forks while it is deprioritised is in `heir`.
make_heir() {
	rm -f /run/heir
	: >/run/fork
	wait_for 60 test -s /run/heir
	heir=$(cat /run/heir)
}

# take NAME: a program becomes foreground, and the hog is clamped.
take() {
	begin_foreground
	wait_for 60 has "$hog" "10 $clamp"
	say "$1.taken" yes
}

free() {
	for thread in "$hog" "$heir"; do
		wait_for 60 has "$thread" "0 1024"
	done
	say "$1.freed" yes
}

configure 'rule = "weight"' 'groups = "off"' 'sampling_ms = 50' 'idle_sampling_ms = 200'
start_hog

# Equal CPUs: no task is clamped.
clamp=1024
heir=$hog
start_daemon
take equal
say equal.support "$(brisk placement show --json)"
end_front
free equal
kill "$daemon"
wait "$daemon"

# Linux 6.1: less than four fifths of the smaller capacity.
clamp=356
tell_unequal_cpus
start_daemon
take end
say end.explain "$(brisk placement explain | tr '\n' ';')"
say end.leases "$(brisk status --json)"
make_heir
# The daemon restores the child's clamp while its parent is still deprioritised.
wait_for 60 has "$heir" "0 1024"
say end.heir yes
end_front
free end

# SIGKILL of the daemon, which has not sampled the child yet: the guardian restores.
take killed
kill -STOP "$daemon"
make_heir
say killed.heir "$(clamp_of "$heir")"
kill -9 "$daemon"
free killed
end_front
wait "$daemon" || true

# SIGKILL of both: `brisk restore` restores.
start_daemon
take both
guardian=$(guardian)
kill -STOP "$daemon"
make_heir
kill -9 "$guardian" "$daemon"
wait_for 60 is_gone "$guardian"
has "$hog" "10 $clamp" && say both.left yes
brisk restore | while read -r line; do say both.restored "$line"; done
free both
end_front
wait "$daemon" || true
kill "$hog"
