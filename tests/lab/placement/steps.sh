# shellcheck shell=sh
# Functions for the scripts about placement, in addition to steps.sh; tests/lab/placement/mod.rs installs them.

log=/run/log

# configure LINE...: only placement is on, with these lines.
configure() {
	mkdir -p /etc/brisk
	printf '%s\n' '[launch]' 'enabled = false' '[placement]' 'enabled = true' "$@" >/etc/brisk/brisk.toml
}

start_daemon() {
	: >"$log"
	brisk daemon 2>>"$log" &
	# shellcheck disable=SC2034 # the script that starts it ends it
	daemon=$!
	wait_for 60 grep -q 'brisk: ready' "$log"
}

guardian() {
	brisk status --json | tr ',' '\n' | sed -n 's/.*"guardian_pid":\([0-9]*\).*/\1/p'
}

is_gone() {
	! kill -0 "$1"
}

# A competing program becomes foreground. This busybox's renice adds to the current value: competitors have nice 0.
begin_foreground() {
	rm -f /run/front
	brisk launch -- sh -c 'renice -n 15 -p $$; echo $$ >/run/front; while :; do :; done' >/dev/null 2>&1 &
	launch=$!
	wait_for 60 test -s /run/front
}

end_front() {
	kill "$(cat /run/front)"
	wait "$launch" || true
}
