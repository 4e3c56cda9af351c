#!/bin/sh
# A little and a big CPU under schedutil: what the kernel and doctor know of them, a launch, its leases, and a SIGKILL.
# Runs in the lab's guest; tests/lab/arm64/mod.rs reads the lines "NAME: TEXT".
set -eu

cpu=/sys/devices/system/cpu
log=/run/log

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/launch.sh
. /launch_steps.sh

in_vain() {
	cat "$log" >&2
	brisk status >&2
}

# one_line FILE...
one_line() {
	cat "$@" | tr '\n' ' ' | sed 's/ $//'
}

floors() {
	one_line $cpu/cpufreq/policy0/scaling_min_freq $cpu/cpufreq/policy1/scaling_min_freq
}

has() {
	[ "$(floors)" = "$1" ]
}

say capacities "$(one_line $cpu/cpu0/cpu_capacity $cpu/cpu1/cpu_capacity)"
say governors "$(one_line $cpu/cpufreq/policy0/scaling_governor $cpu/cpufreq/policy1/scaling_governor)"
for state in cpu0/ps:800000 cpu1/ps:800000 cpu1/ps:1200000; do
	say power_uw "$(cat "/sys/kernel/debug/energy_model/$state/power")"
done
say doctor "$(brisk doctor --json | tr -d '\n')"

# An application that the filter knows by its name; its launch lasts until the daemon ends, and boosts every policy.
printf '#!/bin/sh\nsleep 1000\n' >/bin/browser
chmod +x /bin/browser
mkdir -p /etc/brisk
lasting_launches scaling-min-freq 600000 | sed 's/"announced"/"exec"/' >/etc/brisk/brisk.toml
printf '[launch.filter]\ncommands = ["browser"]\n' >>/etc/brisk/brisk.toml

brisk daemon 2>"$log" &
daemon=$!
wait_for 60 grep -q 'brisk: ready' "$log"
before=$(floors)
say launch.before "$before"
/bin/browser &
browser=$!
wait_for 60 has "800000 1200000"
status launch.status
kill -KILL "$daemon"
wait_for 60 has "$before"
say launch.restored "$(floors)"
say launch.left "$(brisk restore)"
kill "$browser"
