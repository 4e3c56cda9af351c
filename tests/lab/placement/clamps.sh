#!/bin/sh
# Bulk work that weighs less claims no big core and has its clamp restored, even after SIGKILL, on a kernel that clamps utilisation.
# That kernel has equal CPUs and tells no capacities: here brisk is told of unequal ones. Runs in the lab's guest;
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

# Who makes room has a child when it is told to, and the child sleeps.
start_hog() {
	sh -c 'while :; do if [ -e /run/fork ]; then rm /run/fork; sleep 1000 & echo $! >/run/heir; fi; done' &
	hog=$!
}

# What has come to be while the hog was made to give up something is in `heir`.
make_heir() {
	rm -f /run/heir
	: >/run/fork
	wait_for 60 test -s /run/heir
	heir=$(cat /run/heir)
}

# take NAME: something comes to the front, and the hog gives up its claim.
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

# Linux 6.1: what is below four fifths of the smaller one's.
clamp=356
tell_unequal_cpus
start_daemon
take end
say end.explain "$(brisk placement explain | tr '\n' ';')"
say end.leases "$(brisk status --json)"
make_heir
# The daemon frees it while its parent still makes room.
wait_for 60 has "$heir" "0 1024"
say end.heir yes
end_front
free end

# SIGKILL of the daemon, which has not seen the child: the guardian restores.
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
