# shellcheck shell=sh
# Functions for the scripts about announced launches, in addition to steps.sh; tests/lab/steps/mod.rs installs them.

holds() {
	[ "$(cat "$1")" = "$2" ]
}

begin_launch() {
	brisk launch -- sleep 1000 &
	launch=$!
	wait_for 20 pidof sleep >/dev/null
}

end_launch() {
	# shellcheck disable=SC2046 # one process
	kill $(pidof sleep)
	wait "$launch" || true
}

status() {
	say "$1" "$(brisk status --json | tr -d '\n')"
}
