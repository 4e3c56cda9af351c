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

# wait_for SECONDS COMMAND...
wait_for() {
	rounds=$(($1 * 20))
	shift
	while ! "$@" 2>/dev/null; do
		rounds=$((rounds - 1))
		if [ "$rounds" -eq 0 ]; then
			echo "waited in vain for: $*" >&2
			in_vain
			return 1
		fi
		sleep 0.05
	done
}
