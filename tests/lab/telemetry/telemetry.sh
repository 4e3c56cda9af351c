#!/bin/sh
# A daemon with telemetry that sees applications open and is killed, again and again, and its exports. Runs in the lab's guest as
# `telemetry.sh KILLS`; tests/lab/telemetry/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

kills=$1
store=/var/lib/brisk/telemetry
log=/run/log

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

in_vain() {
	cat $log >&2
	brisk status >&2 || :
}

configure() {
	mkdir -p /etc/brisk /var/lib/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		enabled = true
		force = true
		triggers = ["exec"]
		actuators = ["sampling-rate"]
		[launch.filter]
		commands = ["private-*"]
		[telemetry]
		enabled = true
		size_kib = 32
	END
}

# make_application NAME: it computes while it opens, and then waits for its user.
make_application() {
	cat >"/bin/$1" <<-END
		#!/bin/sh
		count=0
		while [ \$count -lt 4000 ]; do count=\$((count + 1)); done
		read -r line </run/never
	END
	chmod +x "/bin/$1"
}

start_daemon() {
	: >$log
	brisk daemon 2>>$log &
	daemon=$!
	wait_for 30 grep -q 'brisk: ready' $log
}

# The number of the newest row of a launch, or nothing.
newest_launch() {
	cat $store/rows.old $store/rows 2>/dev/null | awk '/"kind":"launch"/ { sub(/.*"row":/, ""); row = $0 + 0 } END { print row }'
}

has_new_launch() {
	[ "$(newest_launch)" != "$before" ]
}

# open NAME: starts an application, and waits until its launch is stored.
open() {
	before=$(newest_launch)
	"/bin/$1" &
	opened="$opened $!"
	wait_for 30 has_new_launch
}

no_guardian_is_left() {
	! grep -qa '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null
}

# A daemon that sees two applications open and is killed; its guardian restores and exits.
live() {
	start_daemon
	opened=
	open private-notes
	open private-clock
	kill -KILL "$daemon"
	wait "$daemon" || :
	wait_for 30 no_guardian_is_left
	# shellcheck disable=SC2086 # a list of processes
	kill -KILL $opened
	for process in $opened; do wait "$process" || :; done
	size=$(cat $store/rows $store/rows.old 2>/dev/null | wc -c)
	[ "$size" -le "$largest" ] || largest=$size
}

# export_as NAME: says each line of an export.
export_as() {
	brisk telemetry export | sed "s/^/$1: /"
}

echo ondemand >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
mkfifo /run/never
configure
make_application private-notes
make_application private-clock
largest=0
lived=0
while [ $lived -lt "$kills" ]; do
	live
	lived=$((lived + 1))
	# The first export is of rows that later ones replace; the next one overlaps with the last.
	[ $lived -ne 1 ] || export_as first
	[ $lived -ne $((kills - 1)) ] || export_as later
done
start_daemon
export_as last
say largest "$largest"
say named "$(cat $store/* | grep -c private || :)"
say_complaints $log
kill -TERM "$daemon"
wait "$daemon"
