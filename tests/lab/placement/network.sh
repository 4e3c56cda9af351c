#!/bin/sh
# The packets of a group that fills the queue of a slow link get a priority, and lose it however the daemon ends: the kernel lists
# the program in /proc/kallsyms for as long as it is attached. Runs in the lab's guest as `placement_network.sh`;
# tests/lab/placement/mod.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

in_vain() {
	brisk status --json >&2
	tail -n 20 "$log" >&2
}

programs() {
	grep -c 'brisk_egress' /proc/kallsyms || :
}

is_attached() {
	[ "$(programs)" = 1 ]
}

is_detached() {
	[ "$(programs)" = 0 ]
}

# It neither computes nor sends.
begin_foreground() {
	rm -f /run/front
	brisk launch -- sh -c 'echo $$ >/sys/fs/cgroup/front/cgroup.procs; echo $$ >/run/front; exec sleep 9999' >/dev/null 2>&1 &
	launch=$!
	wait_for 60 test -s /run/front
}

mkdir -p /sys/fs/cgroup/front /sys/fs/cgroup/backup
echo 1 >/proc/sys/net/core/bpf_jit_enable
echo 1 >/proc/sys/net/core/bpf_jit_kallsyms
configure 'network = true'
brisk lab slow-link
say queues.bands "$(brisk doctor --json | grep -o 'get the lowest band on lo (pfifo_fast)')"

# Its standard input, which ends it, stays open.
mkfifo /run/commands
exec 3<>/run/commands
sh -c 'echo $$ >/sys/fs/cgroup/backup/cgroup.procs; exec brisk task --beside upload --turns-per-ms 1000' <&3 >/dev/null &
backup=$!

start_daemon
begin_foreground
wait_for 60 is_attached
say applied yes
say leased "$(brisk status --json | grep -c '/sys/fs/cgroup/backup')"
say why "$(brisk status --json | grep -o 'a packet waits [0-9]* ms in the queue of lo' | head -n 1)"
end_front
wait_for 60 is_detached
say freed yes

begin_foreground
wait_for 60 is_attached
kill -9 "$daemon"
wait_for 60 is_detached
say killed.daemon yes
end_front
wait "$daemon" || true

start_daemon
begin_foreground
wait_for 60 is_attached
guardian=$(guardian)
kill -9 "$guardian" "$daemon"
wait_for 60 is_gone "$guardian"
wait_for 60 is_detached
say killed.both yes
end_front
wait "$daemon" || true
say restored "$(brisk restore | grep -c 'backup' || :)"

# A group that ends while it is deprioritised.
start_daemon
begin_foreground
wait_for 60 is_attached
kill "$backup"
wait "$backup" || true
wait_for 60 rmdir /sys/fs/cgroup/backup
wait_for 60 is_detached
end_front
kill "$daemon"
code=0
wait "$daemon" || code=$?
say gone.exit "$code"
say gone.left "$(grep -c backup /run/brisk/journal || :)"

brisk lab slow-link --queue fq_codel
say queues.fair "$(brisk doctor --json | grep -o 'no network queue has bands[^;"]*')"
say_complaints "$log"
