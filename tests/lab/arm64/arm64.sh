#!/bin/sh
# The device's program on arm64: what doctor reports, a launch that process events report, its lease, a SIGKILL, and lookups.
# Runs in the lab's guest; tests/lab/arm64/mod.rs reads the lines "NAME: TEXT".
set -eu

cpufreq=/sys/devices/system/cpu/cpufreq
rate=$cpufreq/ondemand/sampling_rate
log=/run/log

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/launch.sh
. /launch_steps.sh

in_vain() {
	cat "$log" >&2
	brisk status >&2
}

say machine "$(uname -m)"
say describe "$(brisk lab describe | tr -d '\n')"
echo ondemand >"$cpufreq/policy0/scaling_governor"
echo 100000 >"$rate"
say doctor "$(brisk doctor --json | tr -d '\n')"

# An application that the filter knows by its name; its launch lasts until the daemon ends.
printf '#!/bin/sh\nsleep 1000\n' >/bin/browser
chmod +x /bin/browser
mkdir -p /etc/brisk
lasting_launches sampling-rate 600000 >/etc/brisk/brisk.toml
sed -i 's/"announced"/"exec"/' /etc/brisk/brisk.toml
printf '[launch.filter]\ncommands = ["browser"]\n' >>/etc/brisk/brisk.toml

brisk daemon 2>"$log" &
daemon=$!
wait_for 20 grep -q 'brisk: ready' "$log"
sleep 0.1
say launch.before "$(cat "$rate")"
/bin/browser &
browser=$!
wait_for 20 holds "$rate" 10000
status launch.status
kill -KILL "$daemon"
wait_for 20 holds "$rate" 100000
say launch.restored "$(cat "$rate")"
say launch.left "$(brisk restore)"
kill "$browser"

# A lower frequency slows lookups, too.
echo performance >"$cpufreq/policy0/scaling_governor"
say lookup "$(brisk lookup bench --manager own --services 100 --lookups 400 --format android-16 --json | tr -d '\n')"
