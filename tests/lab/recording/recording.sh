#!/bin/sh
# The boot recorder as systemd and Android's init start it. Runs in the lab's guest as `recording.sh NAME...`;
# tests/lab/recording/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

governor=/sys/devices/system/cpu/cpufreq/policy0/scaling_governor

# since_boot_ms: by the recorder's clock.
since_boot_ms() {
	read -r seconds _ </proc/uptime
	echo "${seconds%.*}${seconds#*.}0"
}

holds() {
	[ "$(cat $governor)" = performance ]
}

# send NAME FILE
send() {
	base64 -w 100 "$2" | while read -r line; do say "$1" "$line"; done
}

# A service that systemd's boot waits for.
slow() {
	wait_for 60 holds
	say slow.began_ms "$(since_boot_ms)" >/run/slow
	sleep 3
	say slow.governor "$(cat $governor)" >>/run/slow
	say slow.ended_ms "$(since_boot_ms)" >>/run/slow
}

let_go() {
	! holds
}

# The recording exists when systemd has finished the boot.
unit() {
	wait_for 60 test -e /var/log/brisk-boot.tgz
	wait_for 60 let_go
	cat /run/slow
	say unit.governor "$(cat $governor)"
	send unit.archive /var/log/brisk-boot.tgz
}

# samples PID: true when the recorder has taken a sample.
samples() {
	for descriptor in "/proc/$1/fd"/*; do
		if [ "$(readlink "$descriptor")" = /proc/stat ]; then return 0; fi
	done
	return 1
}

# Starts what Android's init would start, with its properties: a file for each SELinux label, and one that is no area.
property() {
	mkdir -p /system_ext/bin /data/misc/brisk /dev/__properties__
	ln -s /init /system_ext/bin/brisk
	label='/dev/__properties__/u:object_r:boot_status_prop:s0'
	cat /before >"$label"
	echo contexts >/dev/__properties__/property_info
	/record >/dev/null &
	recorder=$!
	/hold >/dev/null &
	holder=$!
	wait_for 60 samples $recorder
	wait_for 60 holds
	sleep 3
	say property.during "$(cat $governor) $(kill -0 $recorder && kill -0 $holder && echo running)"
	say property.set_ms "$(since_boot_ms)"
	# In place, as through init's mapping of the file.
	dd if=/after of="$label" bs=128k conv=notrunc 2>/dev/null
	recorded=0
	wait $recorder || recorded=$?
	held=0
	wait $holder || held=$?
	say property.exit "$recorded $held"
	say property.governor "$(cat $governor)"
	send property.archive /data/misc/brisk/boot.tgz
}

for step in "$@"; do
	"$step"
done
