# shellcheck shell=sh
# What every script in a guest needs; tests/lab/steps.rs puts it there and reads what is said.

# say NAME TEXT
say() {
	printf '%s: %s\n' "$1" "$2"
}

# Says what a person needs to know when something was waited for in vain; a script may have its own.
in_vain() {
	:
}

# wait_for SECONDS COMMAND...: often at first; looking takes time from those who are looked at.
wait_for() {
	rounds=$(($1 * 5))
	shift
	quick=20
	while ! "$@" 2>/dev/null; do
		if [ "$quick" -gt 0 ]; then
			quick=$((quick - 1))
			sleep 0.05
			continue
		fi
		rounds=$((rounds - 1))
		if [ "$rounds" -eq 0 ]; then
			echo "waited in vain for: $*" >&2
			in_vain
			return 1
		fi
		sleep 0.2
	done
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

# say_complaints LOG...: how many there are, and each kind once with how often it was said; `Report::complaints` of tests/lab/steps.rs reads them.
say_complaints() {
	say complaints "$(complaints "$@" | wc -l)"
	complaints "$@" | sed 's/[0-9]\{1,\}/N/g' | sort | uniq -c | sort -rn | while read -r line; do say complaint "$line"; done
}
