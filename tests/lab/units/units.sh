#!/bin/sh
# Systemd units on one CPU: a background hog no longer takes half of it from the foreground, and every unit's weight is
# restored, also in its manager, after the foreground's end, after any death, and after the unit's own end. Runs in the lab's
# guest as a service of systemd, as `units.sh system`, and for the units of a user's manager as `units.sh user`;
# tests/lab/units/mod.rs reads the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/placement/steps.sh
. /placement_steps.sh

top=/sys/fs/cgroup
case $1 in
system) slice=system.slice ;;
user) slice=user.slice/user-0.slice/user@0.service/app.slice ;;
esac
manager=--$1
export XDG_RUNTIME_DIR=/run/user/0

manage() {
	systemctl "$manager" "$@"
}

in_vain() {
	weights >&2
	brisk placement explain >&2 || true
	brisk status >&2 || true
	tail -n 20 "$log" >&2
}

# The units' weights in the kernel and in the manager.
weights() {
	for group in "$slice" "$slice/hog.service" "$slice/near.service"; do
		echo "${group##*/} $(cat "$top/$group/cpu.weight" 2>/dev/null || echo gone)"
		manage show --property=CPUWeight --value "${group##*/}"
	done
}

weighs() {
	[ "$(cat "$top/$1/cpu.weight")" = "$2" ]
}

# is_lowered GROUP
is_lowered() {
	[ "$(cat "$top/$1/cpu.weight")" -lt 50 ]
}

is_as_before() {
	[ "$(weights)" = "$before" ]
}

used_us() {
	sed -n 's/^usage_usec //p' "$top/$1/cpu.stat"
}

# share GROUP: its share, in percent, of the CPU time of itself and the hog in two seconds.
share() {
	own=$(used_us "$1")
	other=$(used_us "$slice/hog.service")
	sleep 2
	own=$(($(used_us "$1") - own))
	other=$(($(used_us "$slice/hog.service") - other))
	echo $((100 * own / (own + other)))
}

main_pid() {
	manage show --property=MainPID --value "$1"
}

foreground() {
	brisk foreground "$(main_pid "$1")" >/dev/null
}

# A foreground in another slice and one in the hog's own slice; a different group is deprioritised in each case.
part() {
	name=$1
	front=$2
	lowered=$3
	manage start "$name.service"
	before=$(weights)
	say "$name.stock" "$(share "$front")"
	start_daemon
	foreground "$name.service"
	wait_for 60 is_lowered "$lowered"
	say "$name.lowered" "$(weights | tr '\n' ' ')"
	say "$name.share" "$(share "$front")"
	say "$name.explain" "$(brisk placement explain | tr '\n' ' ')"
	brisk foreground --none >/dev/null
	wait_for 60 is_as_before
	say "$name.freed" yes

	foreground "$name.service"
	wait_for 60 is_lowered "$lowered"
	kill -9 "$daemon"
	wait "$daemon" || true
	wait_for 60 is_as_before
	say "$name.killed.daemon" yes

	start_daemon
	foreground "$name.service"
	wait_for 60 is_lowered "$lowered"
	guardian=$(guardian)
	kill -9 "$guardian" "$daemon"
	wait "$daemon" || true
	wait_for 60 is_gone "$guardian"
	is_lowered "$lowered" && say "$name.killed.both.left" yes
	brisk restore >/dev/null
	wait_for 60 is_as_before
	say "$name.killed.both" yes
	by_hand=${lowered##*/}
	manage set-property --runtime "$by_hand" CPUWeight=10
	say "$name.by_hand" "$(share "$front")"
	manage set-property --runtime "$by_hand" CPUWeight=
	wait_for 60 is_as_before
}

is_user_manager_there() {
	systemctl --user is-system-running 2>/dev/null | grep -q '^running$\|^degraded$'
}

# The trial is longer than the steps, because trials are not tested here.
configure 'rule = "weight"' 'sampling_ms = 50' 'idle_sampling_ms = 100'
if [ "$1" = user ]; then
	systemctl start user@0.service
	wait_for 60 is_user_manager_there
fi
manage start hog.service
say controllers "$(cat "$top/cgroup.subtree_control")"
if [ "$1" = system ]; then
	part far user.slice system.slice
	manage stop far.service
fi
part near "$slice/near.service" "$slice/hog.service"

# A unit that ends while it is deprioritised has its original weight when it starts again.
start_daemon
foreground near.service
wait_for 60 is_lowered "$slice/hog.service"
manage stop hog.service
brisk foreground --none >/dev/null
wait_for 60 sh -c 'brisk status --json | grep -q "\"leases\":\[\]"'
manage start hog.service
wait_for 60 weighs "$slice/hog.service" 100
say ended "$(manage show --property=CPUWeight --value hog.service)"

# The packaged service, with only the rights of its drop-in.
kill "$daemon"
wait "$daemon"
wait_for 60 is_as_before
systemctl start brisk.service
main=$(systemctl show --property=MainPID --value brisk.service)
foreground near.service
wait_for 60 is_lowered "$slice/hog.service"
say service "$(stat -c %U "/proc/$main") $(sed -n 's/^CapEff:[[:space:]]*//p' "/proc/$main/status")"
systemctl stop brisk.service
wait_for 60 is_as_before
say service.freed yes
start_daemon

# A value that another process sets meanwhile is kept.
foreground near.service
wait_for 60 is_lowered "$slice/hog.service"
manage set-property --runtime hog.service CPUWeight=33
kill "$daemon"
code=0
wait "$daemon" || code=$?
say exit "$code"
say chosen "$(cat "$top/$slice/hog.service/cpu.weight")"
manage stop hog.service near.service
