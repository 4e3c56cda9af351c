# shellcheck shell=sh
# Functions for every script in a guest; tests/lab/steps/mod.rs installs them and reads the output.

# say NAME TEXT
say() {
	printf '%s: %s\n' "$1" "$2"
}

# Prints diagnostics when a wait has timed out; a script may define its own.
in_vain() {
	:
}

uptime_seconds() {
	read -r uptime _ </proc/uptime
	echo "${uptime%.*}"
}

# wait_for SECONDS COMMAND...: polls often at first, then less, because polling takes CPU time from the tested processes. A slow
# command is tried at least twenty times.
wait_for() {
	until=$(($(uptime_seconds) + $1))
	shift
	quick=20
	while ! "$@" 2>/dev/null; do
		if [ "$quick" -gt 0 ]; then
			quick=$((quick - 1))
			sleep 0.05
			continue
		fi
		if [ "$(uptime_seconds)" -ge "$until" ]; then
			echo "waited in vain for: $*" >&2
			in_vain
			return 1
		fi
		sleep 0.2
	done
}

# lasting_launches ACTUATOR DEADLINE_MS: a configuration in which launches are announced, and last until they are ended.
lasting_launches() {
	cat <<-END
		[launch]
		triggers = ["announced"]
		actuators = ["$1"]
		force = true
		[launch.end]
		load_below_cpu_percent = 0
		deadline_ms = $2
	END
}

nice_of() {
	sed 's/.*) //' "/proc/$1/stat" | awk '{ print $17 }'
}

has_nice() {
	[ "$(nice_of "$1")" = "$2" ]
}

# The PID of brisk's killer, or nothing. A script may have the same word among its arguments.
killer() {
	grep -la '^/proc/self/exe' /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
		if tr '\0' '\n' 2>/dev/null <"$file" | grep -qx killer; then
			file=${file#/proc/}
			echo "${file%/cmdline}"
		fi
	done
}

# complaints LOG...: brisk's warnings and errors, a line each. A missing log counts as empty.
complaints() {
	cat "$@" 2>/dev/null | grep -E '^brisk: (warning|error): ' || :
}

# say_complaints LOG...: their number, and each kind once with its count, for `Report::complaints` of tests/lab/steps/mod.rs.
say_complaints() {
	say complaints "$(complaints "$@" | wc -l)"
	complaints "$@" | sed 's/[0-9]\{1,\}/N/g' | sort | uniq -c | sort -rn | while read -r line; do say complaint "$line"; done
}
