#!/bin/sh
# Runs in a guest that was booted by `rdinit=/record -- boot record ...`, or without: tests the boot recorder and the restored
# governors. Prints `NAME: VALUE` lines for tests/lab/boot/mod.rs.
policy=/sys/devices/system/cpu/cpufreq/policy0
say() { echo "$1: $2"; }
# Waits for an event. Time is counted in instructions here, so the limit does not depend on the host's load.
until_true() {
	tries=0
	while ! "$@"; do
		sleep 0.02
		tries=$((tries + 1))
		[ $tries -lt 3000 ] || { say failed "$*"; exit 1; }
	done
}
# The last modification of a file, in milliseconds of wall-clock time.
changed_ms() {
	whole=$(stat -c %Z "$1")
	fraction=$(stat -c %z "$1")
	fraction=${fraction#*.}
	echo "$whole$(echo "$fraction" | cut -c 1-3)"
}
governor_is() { [ "$(cat $policy/scaling_governor)" = "$1" ]; }
has_ended() { [ ! -d "/proc/$1" ]; }
# Processes by the name that they were started under.
named() {
	for process in /proc/[0-9]*; do
		tr '\0' ' ' <"$process/cmdline" 2>/dev/null | grep -q "^$1 " && basename "$process"
	done
}
# True when the recorder $1 has taken a sample.
samples() {
	for descriptor in "/proc/$1/fd"/*; do
		[ "$(readlink "$descriptor")" = /proc/stat ] && return
	done
	false
}
# Runs a command as process 4000; tries again when another process takes that PID in between.
at_4000() {
	until echo 3999 >/proc/sys/kernel/ns_last_pid && { "$@" & } && [ $! -eq 4000 ]; do
		wait $!
	done
}
one_guardian() { [ "$(named @brisk-guardian | wc -l)" -eq 1 ]; }
journal=/run/brisk-boot/journal
no_guardian() { [ -z "$(named @brisk-guardian)" ]; }
rate=/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate
governed() { echo "$(cat $policy/scaling_governor) $(cat $rate 2>/dev/null)"; }
busy() { i=0; while [ $i -lt "$1" ]; do i=$((i + 1)); done; }
govern() { echo ondemand >$policy/scaling_governor; echo 30000 >$rate; }

for step in "$@"; do
	case $step in
	recorded)
		# The recorder runs since before this guest's init mounted anything.
		recorder=$(named @brisk-boot)
		say recorded.recorder "$(tr '\0' ' ' </proc/"$recorder"/cmdline)"
		say recorded.own "$([ "$(readlink /proc/"$recorder"/ns/mnt)" != "$(readlink /proc/1/ns/mnt)" ] && echo yes)"
		busy 60000
		touch /booted
		until_true has_ended "$recorder"
		base64 -w 100 /recording.tgz | while read -r line; do say recorded.archive "$line"; done
		;;
	killed)
		brisk boot record --until file:/never --output /killed.tgz &
		recorder=$!
		until_true samples $recorder
		kill -9 $recorder
		wait $recorder 2>/dev/null
		say killed.left "$(find / -maxdepth 1 -name 'killed*')"
		;;
	reused)
		brisk boot record --until file:/reused --output /reused.tgz >/dev/null &
		recorder=$!
		until_true samples $recorder
		for _ in 1 2; do
			at_4000 sleep 0.4
			wait $!
		done
		touch /reused
		wait $recorder
		say reused.exit "$?"
		base64 -w 100 /reused.tgz | while read -r line; do say reused.archive "$line"; done
		;;
	orphaned)
		# The recorder has its own /run: only files in this system's /run can name what it held.
		until_true governor_is performance
		until_true grep -q policy0 $journal
		original=$(sed -n 's/.*"original":"\([a-z]*\).*/\1/p' $journal | head -n 1)
		say orphaned.original "$original"
		until_true one_guardian
		say orphaned.alive "$(brisk restore >/dev/null 2>&1; echo $?) $(cat $policy/scaling_governor)"
		kill -9 "$(named @brisk-guardian)" "$(named @brisk-boot)"
		until_true no_guardian
		say orphaned.both "$(cat $policy/scaling_governor)"
		brisk restore >/dev/null
		say orphaned.restored "$? $(cat $policy/scaling_governor)"
		# The daemon's start restores too, without a request.
		brisk boot hold --until file:/never >/dev/null 2>&1 &
		holder=$!
		until_true governor_is performance
		kill -9 "$(named @brisk-guardian)" $holder
		wait $holder 2>/dev/null
		say orphaned.again "$(cat $policy/scaling_governor)"
		brisk daemon >/dev/null 2>&1 &
		daemon=$!
		until_true governor_is "$original"
		kill $daemon
		wait $daemon
		say orphaned.daemon "$? $(cat $policy/scaling_governor)"
		;;
	full)
		# A full tmpfs, a read-only one, and then one with space.
		mkdir -p /full /fixed /free
		mount -t tmpfs -o size=4k tmpfs /full && mount -t tmpfs -o ro tmpfs /fixed
		dd if=/dev/zero of=/full/taken bs=4096 count=1 2>/dev/null
		brisk boot record --json --timeout-s 1 --output /full/boot.tgz --output /fixed/boot.tgz --output /free/boot.tgz >/out
		say full.exit "$?"
		say full.report "$(tr -d '\n' </out)"
		say full.left "$(find /full /fixed /free -type f | sort | tr '\n' ' ')"
		brisk boot record --timeout-s 1 --patience-s 1 --output /full/boot.tgz --output /fixed/boot.tgz 2>/error
		say full.lost "$? $(cat /error)"
		;;
	bare)
		# Without /dev, and without the descriptors that a kernel without a console does not open.
		mkdir /bare && ln /init /bare/brisk
		status=0
		chroot /bare /brisk config check /none <&- >&- 2>&- || status=$?
		say bare.exit "$status"
		;;
	began)
		# The guest's init creates the links to BusyBox as its first step, and only later waits until the device is idle.
		touch /now
		read -r seconds _ </proc/uptime
		say began.ms "$((${seconds%.*}${seconds#*.}0 - $(changed_ms /now) + $(changed_ms /bin/sh)))"
		say began.recorder "$(named @brisk-boot | wc -l)"
		;;
	storm)
		brisk boot record --json --until file:/stormed --memory-kib 64 --output /storm.tgz >/out &
		recorder=$!
		i=0
		while [ $i -lt 1500 ]; do
			sleep 0.1 &
			i=$((i + 1))
		done
		touch /stormed
		wait $recorder
		say storm.exit "$?"
		say storm.report "$(tr -d '\n' </out)"
		;;
	hold)
		govern
		say hold.before "$(governed)"
		brisk boot hold --until file:/done >/out 2>&1 &
		holder=$!
		until_true governor_is performance
		say hold.during "$(governed)"
		touch /done
		wait $holder
		say hold.exit "$?"
		say hold.completed "$(governed)"
		rm /done
		brisk boot hold --timeout-s 1 >/dev/null 2>&1
		say hold.timeout "$(governed)"
		for round in 1 2 3 4 5; do
			brisk boot hold --until file:/done >/dev/null 2>&1 &
			holder=$!
			until_true governor_is performance
			busy $((round * 50))
			kill -9 $holder
			wait $holder 2>/dev/null
			until_true governor_is ondemand
			# The guardian exits when everything is restored.
			until_true no_guardian
			say hold.killed "$(governed)"
		done
		brisk boot hold --until file:/done >/dev/null 2>&1 &
		holder=$!
		until_true governor_is performance
		kill -9 "$(named @brisk-guardian)" $holder
		wait $holder 2>/dev/null
		say hold.both "$(governed)"
		brisk restore >/dev/null
		say hold.restored "$(governed)"
		;;
	chosen)
		govern
		brisk boot hold --until file:/done >/dev/null 2>&1 &
		holder=$!
		until_true governor_is performance
		echo userspace >$policy/scaling_governor
		touch /done
		wait $holder
		rm /done
		say chosen.kept "$(cat $policy/scaling_governor)"
		echo performance >$policy/scaling_governor
		brisk boot hold --then ondemand --timeout-s 1 >/dev/null 2>&1
		say chosen.then "$(cat $policy/scaling_governor)"
		;;
	cost)
		echo performance >$policy/scaling_governor
		i=0
		while [ $i -lt 300 ]; do
			sleep 1000 &
			i=$((i + 1))
		done
		# Start at different fractions of a clock tick (4 ms), so that work at ticks does not bias the result.
		i=0
		while [ $i -lt 8 ]; do
			brisk boot record --json --until file:/never --timeout-s 30 --output /cost.tgz >/out
			say cost.report "$(tr -d '\n' </out)"
			usleep $((i * 100 + 300))
			i=$((i + 1))
		done
		;;
	esac
done
