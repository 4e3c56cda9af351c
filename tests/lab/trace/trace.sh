#!/bin/sh
# Recordings of a real kernel, and what is left of them. Runs in the lab's guest as `trace.sh STEP...`; tests/lab/trace/mod.rs reads
# the lines "NAME: TEXT".
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

tracing=/sys/kernel/tracing

cat >/hog <<'END'
#!/bin/sh
while :; do :; done
END
# It tells at its end how long the scheduler let it run, and wait.
cat >/victim <<'END'
#!/bin/sh
i=0
while [ "$i" -lt 60000 ]; do i=$((i + 1)); done
read -r ran waited _ </proc/self/schedstat
echo "$ran $waited"
END
# Long enough to be no helper.
cat >/long <<'END'
#!/bin/sh
i=0
while [ "$i" -lt 240000 ]; do i=$((i + 1)); done
END
# More events than a small disk holds.
cat >/forks <<'END'
#!/bin/sh
i=0
while [ "$i" -lt 2000 ]; do
	(:)
	i=$((i + 1))
done
END
chmod +x /hog /victim /long /forks
# The kernel names a program by its file.
ln -s "$(command -v brisk)" /locked

# one_line: text as one line.
one_line() {
	tr '\n' ' ' | sed 's/  */ /g'
}

instances() {
	for instance in "$tracing"/instances/*; do
		[ ! -d "$instance" ] || printf '%s ' "${instance##*/}"
	done
}

# What other users of tracing have set. Linux 6.1 says of buffer_size_kb until the first instance that it would grow.
settings() {
	(cd "$tracing" && cat tracing_on current_tracer trace_clock set_event kprobe_events) | one_line
}

is_recording() {
	[ -n "$(instances)" ] && [ -s "$1" ]
}

# A program beside a hog of the same weight.
cause() {
	/hog &
	hog=$!
	brisk trace record --json --output /cause.dat -- /victim >/cause.out
	brisk diagnose --json --output /diagnosed.dat -- /victim >/diagnosed.out
	say diagnosed "$(tail -n +2 /diagnosed.out | one_line)"
	# What placement does to it.
	renice -n 10 -p "$hog" >/dev/null
	say deprioritised "$(/victim)"
	kill "$hog"
	say victim "$(head -n 1 /cause.out)"
	say record "$(tail -n +2 /cause.out | one_line)"
	say cause.left "$(instances)"
	say explained "$(brisk trace explain /cause.dat --launch victim --json | one_line)"
}

# await NAME COMMAND...: the launch of NAME, which COMMAND makes, is awaited.
await() {
	brisk diagnose "--launches=$1" --json --output "/$1.dat" >/launch.out &
	recorder=$!
	wait_for 20 is_recording "/$1.dat"
	shift
	/victim >/dev/null
	"$@" >/dev/null
	wait "$recorder"
	say launches.explained "$(one_line </launch.out)"
	say launches.left "$(instances)"
}

# Beside hogs, the thread that holds the lock needs some 400 ms for its work.
launches() {
	await long /long
	hogs=
	for _ in 1 2 3 4; do
		/hog &
		hogs="$hogs $!"
	done
	await locked /locked lab causes lock
	# shellcheck disable=SC2086
	kill $hogs
}

# begin FILE: a recorder that has recorded for a second.
begin() {
	brisk trace record --time 60s --output "$1" >/record.out 2>&1 &
	recorder=$!
	wait_for 20 is_recording "$1"
	sleep 1
}

killed() {
	/hog &
	hog=$!
	say settings "$(settings)"
	begin /killed.dat
	say settings "$(settings)"
	kill -KILL "$recorder"
	wait "$recorder" || :
	say killed.instances "$(instances | wc -w)"
	say killed.explained "$(brisk trace explain /killed.dat --process "$hog" --json | one_line)"
	say killed.restore "$(brisk restore | head -n 1)"
	say killed.left "$(instances)"
	begin /again.dat
	kill -KILL "$recorder"
	wait "$recorder" || :
	brisk trace record --time 100ms --output /next.dat >/dev/null
	say next.left "$(instances)"
	begin /ended.dat
	code=0
	kill -TERM "$recorder"
	wait "$recorder" || code=$?
	say ended.exit "$code"
	say ended.left "$(instances)"
	say settings "$(settings)"
	kill "$hog"
}

refused() {
	code=0
	said=$(brisk trace record --time 1s --output /none/trace.dat 2>&1) || code=$?
	say refused.folder "$code $said"
	mkdir /small
	mount -t tmpfs -o size=128k none /small
	code=0
	said=$(brisk trace record --output /small/trace.dat -- /forks 2>&1) || code=$?
	say refused.space "$code $said"
	say refused.explained "$(brisk trace explain /small/trace.dat | grep 'did not end')"
	code=0
	said=$(brisk trace record -- /none 2>&1) || code=$?
	say refused.command "$code $said"
	say refused.left "$(instances)"
	umount "$tracing"
	umount /sys/kernel/debug
	code=0
	said=$(brisk trace record 2>&1) || code=$?
	say refused.tracefs "$code $said"
}

available_kib() {
	awk '/^MemAvailable:/ { print $2 }' /proc/meminfo
}

# A recording that wants more memory than there is.
scarce() {
	mkdir /fill
	mount -t tmpfs -o size=100% none /fill
	while [ "$(available_kib)" -gt 50000 ]; do
		dd if=/dev/zero bs=1M count=4 >>/fill/all 2>/dev/null
	done
	code=0
	brisk trace record --json --time 200ms --buffer-kib 65536 --output /scarce.dat >/scarce.out || code=$?
	say scarce.exit "$code"
	say scarce.record "$(one_line </scarce.out)"
	say scarce.left "$(instances)"
}

# What recording adds to a launch of bursts on several threads.
cost() {
	for _ in 1 2 3; do
		set -- brisk load --work-ms 200 --threads 4 --burst-ms 2 --wait-ms 1 --turns-per-ms 100000
		say cost.plain "$("$@")"
		say cost.recorded "$(brisk trace record --output /cost.dat -- "$@" | head -n 1)"
	done
	say cost.record "$(brisk trace record --json --time 2s --output /cost.dat | one_line)"
}

for step in "$@"; do
	"$step"
done
