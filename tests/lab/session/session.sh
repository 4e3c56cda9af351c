#!/bin/sh
# The foreground where logind reports sessions. Runs in the lab's guest as a service of systemd; tests/lab/session/mod.rs reads
# the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

# session NUMBER: a session at terminal NUMBER: a shell, its child, and the process that ends it on systemd's request.
session() {
	systemd-run --quiet --unit="session$1" --property=PAMName=session --property=User=root \
		--property=TTYPath="/dev/tty$1" --property=StandardInput=tty sh -c 'sleep 100000000 & wait'
	wait_for 30 has_members "tty$1"
}

# members TTY: the processes of the session there, ascending.
members() {
	# Beside each file is a FIFO, which would block the reader.
	file=$(find /run/systemd/sessions -type f -exec grep -l "^TTY=$1\$" {} +)
	[ -n "$file" ] || return 1
	scope=$(sed -n 's/^SCOPE=//p' "$file")
	sort -n "/sys/fs/cgroup/user.slice/user-0.slice/$scope/cgroup.procs" | xargs
}

has_members() {
	[ "$(members "$1" | wc -w)" -eq 3 ]
}

# The processes that the daemon treats as foreground.
front() {
	brisk placement show --json | tr -d ' \n' | sed -n 's/.*"foreground":\[\([0-9,]*\)\].*/\1/p' | tr ',' ' '
}

is_foreground() {
	[ "$(front)" = "$1" ]
}

printf '[placement]\nenabled = true\n' >/tmp/brisk.toml
session 1
session 2
brisk daemon --config /tmp/brisk.toml &
wait_for 30 brisk status >/dev/null
wait_for 30 is_foreground "$(members tty1)"
say first "$(front)"
say first.members "$(members tty1)"
chvt 2
wait_for 30 is_foreground "$(members tty2)"
say second "$(front)"
say second.members "$(members tty2)"
systemctl stop session2
wait_for 30 is_foreground ""
say none "$(front)"
chvt 1
wait_for 30 is_foreground "$(members tty1)"
say again "$(front)"
