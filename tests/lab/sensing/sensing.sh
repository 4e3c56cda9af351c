#!/bin/sh
# Both sensors of threads on a real kernel: what they report about the same processes, and where the kernel hides its type
# information. Runs in the lab's guest; tests/lab/sensing/mod.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

# sample_by SENSOR [COMMAND...]: COMMAND starts brisk.
sample_by() {
	mkdir -p /etc/brisk
	printf '[placement]\nenabled = true\nsensing = "%s"\n' "$1" >/etc/brisk/brisk.toml
	shift
	"$@" brisk placement show --json --seconds 4
}

# One that never sleeps, one that sleeps mostly, and two that only sleep.
sh -c 'while :; do :; done' &
hog=$!
sh -c 'while :; do sleep 0.02; done' &
napper=$!
sleep 1000 &
sleep 1000 &
say hog "$hog"

say schedstat "$(sample_by schedstat)"
say bpf "$(sample_by bpf)"
say auto "$(sample_by auto)"

# The type information is hidden, as on a kernel that was built without it.
mount -t tmpfs none /sys/kernel/btf
say hidden.bpf "$(sample_by bpf)"
say hidden.auto "$(sample_by auto)"
umount /sys/kernel/btf
say container "$(sample_by bpf unshare -p -f)"

kill "$hog" "$napper"
