#!/bin/sh
# The services and actions of brisk.rc under an init that handles them as Android's does (system/core/init, service.cpp and
# libprocessgroup): a service is a control group, it gets its user, its groups and only the capabilities that it names, and
# `stop`, or the end of its first process, kills the whole group. Runs in the lab's guest as `init.sh STEP...`;
# tests/lab/init/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

rc=/brisk.rc
groups=/sys/fs/cgroup/init
properties=/tmp/properties
rate=/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate

id_of() {
	case $1 in
	root) echo 0 ;;
	system) echo 1000 ;;
	readproc) echo 3009 ;;
	*) return 1 ;;
	esac
}

# command_of SERVICE
command_of() {
	sed -n "s/^service $1 //p" $rc
}

# option SERVICE OPTION: its values; nothing when the service does not have it.
option() {
	awk -v service="$1" -v wanted="$2" '
		/^[a-z]/ { inside = $1 == "service" && $2 == service }
		inside && $1 == wanted { $1 = ""; print }
	' $rc
}

# has SERVICE FLAG
has() {
	awk -v service="$1" -v wanted="$2" '
		/^[a-z]/ { inside = $1 == "service" && $2 == service }
		inside && $1 == wanted { found = 1 }
		END { exit !found }
	' $rc
}

# commands_of TRIGGER: the commands of the actions that have this trigger and whose property conditions hold.
commands_of() {
	awk '/^on / { sub(/^on /, ""); trigger = $0; next } /^[a-z]/ { trigger = ""; next } trigger && $1 !~ /^#/ && NF { print trigger "|" $0 }' $rc |
		while IFS='|' read -r trigger command; do
			named=no
			holds=yes
			old_ifs=$IFS
			IFS='&'
			for part in $trigger; do
				IFS=$old_ifs
				part=$(echo "$part" | tr -d ' ')
				[ "$part" = "$1" ] && named=yes
				case $part in
				property:*) grep -qxF "${part#property:}" $properties || holds=no ;;
				?*) [ "$part" = "$1" ] || holds=no ;;
				esac
			done
			IFS=$old_ifs
			[ $named$holds = yesyes ] && echo "$command"
			:
		done
}

# happen TRIGGER: runs the commands of brisk.rc for TRIGGER.
happen() {
	commands_of "$1" >"/tmp/commands.$$"
	while read -r name first rest; do
		# shellcheck disable=SC2086 # the words of a command
		case $name in
		mkdir)
			mkdir -p "$first"
			set -- $rest
			chmod "$1" "$first"
			chown "$(id_of "$2"):$(id_of "$3")" "$first"
			;;
		chmod) chmod "$first" $rest 2>/dev/null || : ;; # init only logs a missing file
		"") ;; # no such command in brisk.rc
		setprop) set_property "$first" "$rest" ;;
		exec_background) exec_background "$first" $rest ;;
		*) "$name" "$first" ;;
		esac
	done <<-END
		$(cat "/tmp/commands.$$")
	END
}

set_property() {
	grep -v "^$1=" $properties >$properties.new || :
	echo "$1=$2" >>$properties.new
	mv $properties.new $properties
	happen "property:$1=$2"
}

# in_group NAME COMMAND...: starts a process in its own control group and session.
in_group() {
	group=$groups/$1
	shift
	mkdir -p "$group"
	# shellcheck disable=SC2016 # for that shell
	setsid sh -c 'echo $$ >"$0/cgroup.procs"; exec "$@"' "$group" "$@" >>/tmp/log 2>&1 &
}

# run_as NAME USER GROUPS CAPABILITIES COMMAND...
run_as() {
	name=$1
	user=$(id_of "$2")
	ids=
	for member in $3; do ids=$ids,$(id_of "$member"); done
	ids=${ids#,}
	capabilities=-all
	for capability in $4; do capabilities=$capabilities,+$(echo "$capability" | tr '[:upper:]' '[:lower:]'); done
	shift 4
	in_group "$name" /bin/util-linux-setpriv --reuid "$user" --regid "${ids%%,*}" --groups "$ids" --inh-caps "$capabilities" \
		--ambient-caps "$capabilities" --bounding-set "$capabilities" "$@"
}

start() {
	# shellcheck disable=SC2046 # the words of its command
	run_as "$1" $(option "$1" user) "$(option "$1" group)" "$(option "$1" capabilities)" $(command_of "$1")
	echo $! >"/tmp/$1.pid"
	grep -v "^init.svc.$1=" $properties >$properties.new || :
	echo "init.svc.$1=running" >>$properties.new
	mv $properties.new $properties
	if has "$1" oneshot; then reap "$1" stopped; fi
}

# exec_background LABEL USER GROUP -- COMMAND...: without capabilities, unless it is root.
exec_background() {
	shift
	user=$1
	group=$2
	shift 3
	run_as exec "$user" "$group" "" "$@"
	wait $! || :
}

is_empty() {
	grep -q '^populated 0' "$groups/$1/cgroup.events"
}

# kill_group SIGNAL SERVICE
kill_group() {
	# shellcheck disable=SC2046 # several processes
	kill "-$1" $(cat "$groups/$2/cgroup.procs") 2>/dev/null || :
}

# reap SERVICE STATE: waits for its first process, and kills all others before its state is published.
reap() {
	code=0
	wait "$(cat "/tmp/$1.pid")" || code=$?
	until is_empty "$1"; do
		kill_group KILL "$1"
		sleep 0.02
	done
	say "$1.exit" $code
	set_property "init.svc.$1" "$2"
}

stop() {
	if [ "$gentle" = yes ] && has "$1" gentle_kill; then
		kill_group TERM "$1"
		sleep 0.2
	fi
	kill_group KILL "$1"
	reap "$1" stopped
}

prepare() {
	# Android has no /run, which is how brisk recognises it.
	umount -l /run
	rmdir /run
	mkdir -p /system /system_ext/bin /data/misc $groups
	: >/system/build.prop
	: >$properties
	ln -s /init /system_ext/bin/brisk
	echo ondemand >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
	echo 100000 >$rate
	gentle=no
	happen init
	happen post-fs-data
	cat >/data/misc/brisk-config/brisk.toml <<-END
		[launch]
		force = true
		actuators = ["sampling-rate"]
		[launch.sampling_rate]
		sampling_rate_us = 20000
		[launch.end]
		load_below_cpu_percent = 0
		deadline_ms = 60000
	END
	set_property sys.boot_completed 1
}

is_leased() {
	[ "$(cat $rate)" = 20000 ]
}

# lease: starts a daemon that holds a lease.
lease() {
	set_property persist.brisk.enabled 1
	wait_for 60 brisk status >/dev/null
	brisk launch -- sleep 100000 &
	launch=$!
	wait_for 60 is_leased
	say "$1.members" "$(wc -l <$groups/brisk/cgroup.procs)"
	say "$1.during" "$(cat $rate)"
}

end_launch() {
	kill "$launch" 2>/dev/null || :
	wait "$launch" 2>/dev/null || :
}

rights() {
	lease rights
	say rights.user "$(awk '/^(Uid|CapEff):/ { print $2 }' "/proc/$(cat /tmp/brisk.pid)/status" | xargs)"
	set_property persist.brisk.enabled 0
	end_launch
}

# `stop` kills the daemon and its guardian.
stopped() {
	lease stopped
	set_property persist.brisk.enabled 0
	say stopped.after "$(cat $rate)"
	end_launch
}

# The daemon exits, and its guardian follows.
died() {
	lease died
	kill -KILL "$(cat /tmp/brisk.pid)"
	reap brisk restarting
	say died.after "$(cat $rate)"
	end_launch
}

# Android 14: SIGTERM, and 200 ms later SIGKILL.
gently() {
	gentle=yes
	lease gently
	end_launch
	sleep 1
	set_property persist.brisk.enabled 0
	say gently.after "$(cat $rate)"
	say gently.learned "$(grep -c sleep /data/misc/brisk/launch-durations.json || :)"
	gentle=no
}

# The earlier brisk.rc: a user without rights cannot restore.
without_rights() {
	lease without_rights
	stop_only brisk
	exec_background u:r:brisk:s0 system system -- /system_ext/bin/brisk restore
	say without_rights.after "$(cat $rate)"
	end_launch
}

# stop_only SERVICE: without the actions for its state.
stop_only() {
	kill_group KILL "$1"
	wait "$(cat "/tmp/$1.pid")" || :
}

in_vain() {
	cat /tmp/log >&2
}

prepare
for step in "$@"; do
	"$step"
done
