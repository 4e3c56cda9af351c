# shellcheck shell=sh
# Shared by the scripts about memory: the device, applications, brisk's daemon and its processes.

# shellcheck disable=SC2034 # for those scripts
vm=/proc/sys/vm

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

state() {
	printf 'swaps %s size %s algorithm %s' "$(tail -n +2 /proc/swaps | wc -l)" "$(cat /sys/block/zram0/disksize)" \
		"$(sed 's/.*\[\(.*\)\].*/\1/' /sys/block/zram0/comp_algorithm)"
	printf ' vm %s %s %s' "$(cat $vm/swappiness)" "$(cat $vm/page-cluster)" "$(cat $vm/watermark_scale_factor)"
	printf ' lru %s' "$(cat /sys/kernel/mm/lru_gen/enabled)"
}

is_state() {
	[ "$(state)" = "$1" ]
}

guardian() {
	grep -la '^@brisk-guardian' /proc/[0-9]*/cmdline 2>/dev/null | sed 's|/proc/\(.*\)/cmdline|\1|'
}

# launch NUMBER ADJ: starts an application of the workload; its process is $launched.
launch() {
	rm -f /tmp/screen /tmp/tap
	mkfifo /tmp/tap
	# A process keeps the other end open for the lifetime of the guest.
	sleep 100000 >/tmp/tap &
	brisk application --number "$1" --seed 1 --turns-per-ms 1000 --storage /dev/flash0 </tmp/tap >/tmp/screen &
	launched=$!
	echo "$2" >"/proc/$launched/oom_score_adj"
	wait_for 60 grep -q screen /tmp/screen
}

is_another_killer() {
	now=$(killer)
	[ -n "$now" ] && [ "$now" != "$1" ]
}

configure() {
	mkdir -p /etc/brisk
	cat >/etc/brisk/brisk.toml <<-END
		[launch]
		enabled = false
		[memory.killer]
		enabled = true
		protected = ["social"]
		$1
	END
}

# start_daemon COMMAND...: COMMAND runs the daemon, as any user.
start_daemon() {
	"$@" brisk daemon 2>/tmp/log &
	daemon=$!
	wait_for 60 is_another_killer none
	wait_for 60 brisk status >/dev/null
}

# alive PROCESS...: those that live. A dead process that is not yet reaped has no command line.
alive() {
	living=
	for pid in "$@"; do
		if grep -qa . "/proc/$pid/cmdline"; then living="$living $pid"; fi
	done
	echo "$living"
}

has_gone() {
	[ -z "$(alive "$1")" ]
}

swap_kib() {
	sed -n 's/^VmSwap:[^0-9]*\([0-9]*\).*/\1/p' "/proc/$1/status"
}

has_swapped() {
	[ "$(swap_kib "$1")" -ge "$2" ]
}
