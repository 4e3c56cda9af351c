#!/bin/sh
# A phone's kernel and userspace: what doctor reports, and applications that an activity manager opens, which nothing but the
# top-app cpuset reports: one is boosted by a frequency floor, one by a clamp. Runs in the lab's guest; tests/lab/android/mod.rs
# reads the lines "NAME: TEXT".
set -eu

frequency=/sys/devices/system/cpu/cpufreq/policy0
floor=$frequency/scaling_min_freq
log=/data/local/tmp/log
requests=/data/local/tmp/requests
answers=/data/local/tmp/answers

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh
# shellcheck source=tests/lab/steps/launch.sh
. /launch_steps.sh

in_vain() {
	cat "$log" "$answers" >&2
	brisk status >&2
}

# What brisk.rc makes when the device boots.
prepare() {
	mkdir -m 0750 /dev/brisk /data/misc/brisk /data/misc/brisk-config
	mkdir /data/misc/brisk-config/brisk.toml.d
}

daemon() {
	: >"$log"
	brisk daemon 2>>"$log" &
	daemon=$!
	wait_for 20 grep -q 'brisk: ready' "$log"
}

answered() {
	grep -q "^$1 " "$answers"
}

# pid_of NAME: of an opened application.
pid_of() {
	sed -n "s/^opened $1 //p" "$answers"
}

# is_launched_as NAME: the zygote moves its fork to the foreground before it gives it this name.
is_launched_as() {
	brisk status | grep -q "launch of $1 (noticed by foreground)"
}

clamp_of() {
	sed -n 's/^uclamp.min *: *//p' "/proc/$1/sched"
}

# open UID NAME EFFECT...: waits until EFFECT, a command that gets the PID, is true; says what the application is then.
open() {
	uid=$1
	name=$2
	shift 2
	echo "open $uid $name 2000" >&3
	wait_for 20 answered "opened $name"
	pid=$(pid_of "$name")
	wait_for 20 "$@" "$pid"
	wait_for 20 is_launched_as "$name"
	say "$name.user" "$(sed -n 's/^Uid:[[:space:]]*//p' "/proc/$pid/status" | cut -f 1)"
	say "$name.adj" "$(cat "/proc/$pid/oom_score_adj")"
	say "$name.groups" "$(cut -d : -f 2- "/proc/$pid/cgroup" | sort | tr '\n' ' ')"
	say "$name.khz" "$(cat $frequency/scaling_cur_freq)"
	status "$name.status"
}

is_fast() {
	holds $floor 1200000
}

is_clamped() {
	[ "$(clamp_of "$1")" = 1024 ]
}

is_free() {
	[ "$(clamp_of "$1")" = 0 ] && holds $floor 200000
}

cpuset_of() {
	sed -n 's/.*:cpuset://p' "/proc/$1/cgroup"
}

# lasting_launches_by ACTUATOR: on one CPU of full capacity schedutil loses little; a launch lasts until the daemon ends.
lasting_launches_by() {
	cat >/data/misc/brisk-config/brisk.toml.d/lasting.toml <<-END
		[launch]
		force = true
		actuators = ["$1"]
		[launch.end]
		load_below_cpu_percent = 0
		deadline_ms = 600000
		learn = false
	END
}

say machine "$(uname -m)"
say properties "$(strings /dev/__properties__/u:object_r:boot_status_prop:s0 2>/dev/null | tr '\n' ' ')"
say sets "$(for group in /dev/cpuset/*/; do printf '%s ' "$(basename "$group")"; done)"
for device in binder hwbinder vndbinder; do
	say binder "$(readlink /dev/$device) $(stat -c %a /dev/binderfs/$device)"
done
say clamp "$(cat /dev/cpuctl/background/cpu.uclamp.max)"
say unified "$(cat /sys/fs/cgroup/cgroup.controllers): $(cat /sys/fs/cgroup/cgroup.subtree_control)"
say governors "$(cat $frequency/scaling_governor): $(cat $frequency/scaling_available_governors)"
prepare
say doctor "$(brisk doctor --json | tr -d '\n')"
say origin "$(brisk config show --origin | grep -c /system_ext/etc/brisk/brisk.toml)"

mkfifo "$requests"
brisk lab activity-manager --turns-per-ms 50000 <"$requests" >"$answers" &
exec 3>"$requests"

lasting_launches_by scaling-min-freq
daemon
open 10061 mail is_fast
mail=$pid
kill -TERM "$daemon"
wait "$daemon" || :
say term.floor "$(cat $floor)"
say term.left "$(brisk restore)"

lasting_launches_by uclamp
daemon
open 10062 maps is_clamped
maps=$pid
say mail.later "$(cat "/proc/$mail/oom_score_adj") $(cpuset_of "$mail") $(clamp_of "$mail")"
echo "resume $mail" >&3
wait_for 20 is_clamped "$mail"
say maps.later "$(cat "/proc/$maps/oom_score_adj") $(cpuset_of "$maps")"
kill -KILL "$daemon"
wait_for 20 is_free "$maps"
wait_for 20 is_free "$mail"
say killed.left "$(brisk restore)"
wait_for 60 answered "launched maps"
say_complaints "$log"
