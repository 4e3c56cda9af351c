# shellcheck shell=sh
# What every script in a guest needs; tests/lab/steps/mod.rs puts it there and reads what is said.

# say NAME TEXT
say() {
	printf '%s: %s\n' "$1" "$2"
}

# Says what a person needs to know when something was waited for in vain; a script may have its own.
in_vain() {
	:
}

uptime_seconds() {
	read -r uptime _ </proc/uptime
	echo "${uptime%.*}"
}

# wait_for SECONDS COMMAND...: often at first; looking takes time from those who are looked at. A command that takes long itself is
# tried twenty times all the same.
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

# lasting_launches ACTUATOR DEADLINE_MS: a configuration by which launches are announced, and last until they are ended.
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

# The process of brisk's killer; nothing when there is none. A script may have the same word among its arguments.
killer() {
	grep -la '^/proc/self/exe' /proc/[0-9]*/cmdline 2>/dev/null | while read -r file; do
		if tr '\0' '\n' 2>/dev/null <"$file" | grep -qx killer; then
			file=${file#/proc/}
			echo "${file%/cmdline}"
		fi
	done
}

# complaints LOG...: what brisk warned of and what it called an error, a line each. A log that is not there says nothing.
complaints() {
	cat "$@" 2>/dev/null | grep -E '^brisk: (warning|error): ' || :
}

# say_complaints LOG...: how many there are, and each kind once with how often it was said; `Report::complaints` of tests/lab/steps/mod.rs reads them.
say_complaints() {
	say complaints "$(complaints "$@" | wc -l)"
	complaints "$@" | sed 's/[0-9]\{1,\}/N/g' | sort | uniq -c | sort -rn | while read -r line; do say complaint "$line"; done
}
