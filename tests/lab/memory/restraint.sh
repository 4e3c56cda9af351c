#!/bin/sh
# Groups that cause memory stalls of others, on a real kernel. Runs in the lab's guest, as `restraint.sh NAME...`;
# tests/lab/memory/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/memory/device.sh
. /device.sh

high() {
	cat /sys/fs/cgroup/batch/memory.high
}

is_held() {
	[ -e /sys/fs/cgroup/batch ] && [ "$(high)" != max ]
}

is_free() {
	[ "$(high)" = max ]
}

# The memory and swap that it uses.
taken_kib() {
	echo $((($(cat /sys/fs/cgroup/batch/memory.current) + $(cat /sys/fs/cgroup/batch/memory.swap.current)) / 1024))
}

# application GROUP ADJ ARGUMENT...: starts an application of the workload in its own group; its input is /tmp/tap.
application() {
	mkdir -p "/sys/fs/cgroup/$1"
	# shellcheck disable=SC2016 # its own process, not this one
	sh -c 'echo $$ >"/sys/fs/cgroup/$0/cgroup.procs"; echo "$1" >/proc/self/oom_score_adj; shift
		exec brisk application --number 1 --seed 1 --turns-per-ms 1000 --storage /dev/flash0 "$@" </tmp/tap >"/tmp/$0"' "$@" &
}

restraint() {
	mkdir -p /etc/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		enabled = false
		[memory]
		restraint_s = 60
		[memory.zram]
		enabled = true
	END
	mkfifo /tmp/tap
	exec 5<>/tmp/tap
	application front 0
	wait_for 60 grep -q screen /tmp/front
	# The user keeps interacting with it.
	while echo resume >&5; do sleep 0.1; done &
	brisk daemon 2>/tmp/log &
	daemon=$!
	wait_for 60 brisk status >/dev/null
	# It takes more and more memory in the background.
	application batch 900 --grow
	wait_for 120 is_held
	say restraint.status "$(brisk status --json | tr -d '\n')"
	before_kib=$(taken_kib)
	sleep 2
	say restraint.taken "$(($(taken_kib) - before_kib))"
	kill -KILL "$daemon"
	wait_for 60 is_free
	say restraint.killed "$(high)"
}

for name in "$@"; do
	"$name"
done
