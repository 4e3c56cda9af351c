#!/bin/sh
# The packaged service under systemd, with its own user and without CAP_DAC_OVERRIDE. Runs in the lab's guest as a service of
# systemd; tests/lab/service/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

cpufreq=/sys/devices/system/cpu/cpufreq
policy=$cpufreq/policy0
rate=$cpufreq/ondemand/sampling_rate
minimum=$policy/scaling_min_freq
watermarks=/proc/sys/vm/watermark_scale_factor

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/launch.sh
. /launch_steps.sh

in_vain() {
	systemctl status brisk.service brisk-grant.path brisk-grant.service >&2 || true
	brisk status >&2 || true
	ls -l "$cpufreq/ondemand" /run/brisk >&2 || true
}

owner() {
	stat -c %U "$1"
}

is_granted() {
	[ "$(owner "$1")" = brisk ]
}

configure() {
	mkdir -p /etc/brisk
	lasting_launches "$1" 60000 >/etc/brisk/brisk.toml
}

main_pid() {
	systemctl show --property=MainPID --value brisk.service
}

has_restarted() {
	systemctl --quiet is-active brisk.service && [ "$(main_pid)" != "$killed" ]
}

# A kick, another governor in between, and a kick again.
kick() {
	echo ondemand >"$policy/scaling_governor"
	echo 100000 >"$rate"
	configure kick
	systemctl start brisk.service
	say kick.rights "$(sed -n 's/^CapPrm:[[:space:]]*//p' "/proc/$(main_pid)/status")"
	say kick.owner "$(owner "$rate") $(owner "$cpufreq/ondemand/up_threshold") $(owner "$minimum")"
	begin_launch
	status kick.first
	end_launch
	echo performance >"$policy/scaling_governor"
	echo ondemand >"$policy/scaling_governor"
	say kick.created_again "$(owner "$rate")"
	wait_for 20 is_granted "$rate"
	begin_launch
	status kick.second
	end_launch
}

no_request_runs() {
	[ -z "$(systemctl --no-legend list-units 'brisk-metrics@*')" ]
}

# What Prometheus reads from the socket.
metrics() {
	systemctl start brisk-metrics.socket
	for _ in 1 2 3; do
		printf 'GET /metrics HTTP/1.0\r\n\r\n' | nc 127.0.0.1 9753 | tr -d '\r' >/tmp/metrics
		say metrics.status "$(head -n 1 /tmp/metrics)"
	done
	say metrics.kicks "$(sed -n 's/^brisk_launches_total //p' /tmp/metrics)"
	wait_for 20 no_request_runs
	say metrics.left "$(systemctl --no-legend --failed list-units 'brisk-metrics*' | wc -l)"
	systemctl stop brisk-metrics.socket
}

# A lease whose daemon and guardian are killed together.
lease() {
	echo 100000 >"$rate"
	configure sampling-rate
	systemctl restart brisk.service
	begin_launch
	wait_for 20 holds "$rate" 10000
	killed=$(main_pid)
	systemctl kill --signal=KILL brisk.service
	wait_for 20 holds "$rate" 100000
	say lease.restored "$(cat "$rate")"
	# systemd starts it again, and it has the same grants.
	wait_for 20 has_restarted
	wait_for 20 is_granted "$rate"
	end_launch
}

# When nothing is granted to the service any more, root restores what it has left with the service's rights.
left() {
	begin_launch
	wait_for 20 holds "$rate" 10000
	cp /run/brisk/journal /run/left
	systemctl stop brisk.service
	wait "$launch" || true
	say left.stopped "$(cat "$rate") $(owner "$rate")"
	# As if daemon, guardian and systemd had been killed.
	echo 10000 >"$rate"
	cat /run/left >/run/brisk/journal
	say left.said "$(brisk restore)"
	say left.restored "$(cat "$rate") $(owner "$rate") $(owner /run/brisk/journal)"
}

# Settings that root has applied are restored after the service has run, and while it runs.
memory() {
	before=$(cat "$watermarks")
	brisk memory apply --keep >/dev/null
	say memory.applied "$before $(cat "$watermarks")"
	code=0
	brisk restore >/run/said 2>&1 || code=$?
	say memory.said "$code $(tr '\n' ' ' </run/said)"
	say memory.restored "$before $(cat "$watermarks")"
}

# A compromised service: root does not apply what its user forges.
forged() {
	umask 077
	echo kept >/run/victim
	for target in /proc/self/root/run/victim /sys/kernel/uevent_helper /proc/sys/kernel/core_pattern; do
		[ -e "$target" ] || continue
		cat >/run/brisk/journal <<-END
			{"record":"open","format":1,"boot_id":null,"pid":1}
			{"record":"intent","lease":{"target":{"tunable":"$target"},"original":"|/run/forged","value":"","since":1,"until":2,"reason":""}}
		END
		code=0
		brisk restore >/run/said 2>&1 || code=$?
		say forged.code "$code"
		say forged.held "$(cat "$target")"
	done
	: >/run/brisk/journal
}

for step in "$@"; do
	"$step"
done
