#!/bin/sh
# A series of reboots on a device that reboots. Runs in the lab's guest as a service of systemd, again in each boot, as
# `reboots.sh NAME`, and as the services beside it; tests/lab/reboots/mod.rs reads the lines "NAME: TEXT" and checks them.
set -eu

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

kept=/var/lib/brisk/test
results=/var/lib/brisk-reboots
if [ "$1" = android ]; then
	kept=/data/test
	results=/data/adb/brisk/reboots
fi

# count NAME: how often it was called so far, over all boots.
count() {
	mkdir -p $kept
	echo >>"$kept/$1"
	wc -l <"$kept/$1"
}

# The files that a series adds to a device, apart from its results.
left() {
	find /etc/systemd/system -name '*brisk-reboots*' -o -type d -name 'sysinit.target.d' 2>/dev/null || true
	find /data/adb -name '*brisk-reboots*' 2>/dev/null || true
	find $results -name 'series*' -o -name 'preload*' 2>/dev/null || true
}

is_over() {
	! [ -e $results/series.json ]
}

# Complete results are kept beside their report, and no series resumes them.
has_proof() {
	[ -n "$(find $results -path '*/samples/*' -name replicates.jsonl)" ]
}

# The reboot ends this script.
wait_for_reboot() {
	while :; do sleep 1; done
}

# replicates NAME: all measurements, and the reasons for missing ones.
replicates() {
	find $results -name replicates.jsonl -exec cat {} + | while read -r line; do say "$1" "$line"; done
}

# measured NUMBER: true when so many replicates are on record.
measured() {
	[ "$(grep -c '"arm"' $results/partial/mini-reboots-quick/replicates.jsonl)" -eq "$1" ]
}

tried_again() {
	grep -q '"tries":1' $results/series.json
}

begin() {
	brisk prove /mini.toml --here --yes 2>/dev/null
}

interrupted() {
	case $boot in
	1)
		status=0
		brisk prove /mini.toml --here 2>/said || status=$?
		say asked.exit $status
		while read -r line; do say asked.said "$line"; done </said
		say asked.left "$(left)"
		status=0
		begin || status=$?
		say begun.exit $status
		status=0
		begin || status=$?
		say again.exit $status
		say doctor "$(brisk doctor --json | tr -d '\n')"
		wait_for_reboot
		;;
	2)
		wait_for 120 tried_again
		say refused "$(cat $results/series.json)"
		wait_for_reboot
		;;
	3)
		wait_for 120 measured 1
		status=0
		brisk prove --here --stop 2>/dev/null || status=$?
		say stopped.exit $status
		say stopped.left "$(left)"
		status=0
		brisk prove --here --stop 2>/dev/null || status=$?
		say stopped.again $status
		replicates replicate
		;;
	esac
}

whole() {
	case $boot in
	1)
		begin
		wait_for_reboot
		;;
	6)
		wait_for 200 is_over
		say whole.left "$(left)"
		wait_for 60 has_proof
		replicates whole.replicate
		find $results -name proof.json -exec cat {} + | while read -r line; do say whole.proof "$line"; done
		touch $kept/hangs
		begin
		wait_for_reboot
		;;
	8)
		wait_for 200 is_over
		say failed.left "$(left)"
		rm -r $results/*/samples
		replicates failed.replicate
		;;
	*)
		wait_for_reboot
		;;
	esac
}

# Runs the scripts in a folder, as Magisk does.
run_scripts() {
	mkdir -p "$1"
	for script in "$1"/*; do
		if [ -e "$script" ]; then sh "$script"; fi
	done
}

# The zygote reports what it did; once it reports that it had to do something else.
zygote() {
	told=$(cat /data/property/persist.brisk.preload)
	say told "$told"
	case $told in
	ahead)
		if [ "$(count ahead)" -eq 1 ]; then
			/system/bin/setprop brisk.preloaded.64 "off 900 the last preload did not end"
			return 1
		fi
		/system/bin/setprop brisk.preloaded.64 "ahead 512"
		;;
	off) /system/bin/setprop brisk.preloaded.64 "off 812" ;;
	*) /system/bin/setprop brisk.preloaded.64 "off 812 there is no plan" ;;
	esac
}

# True when the property has the user's value.
is_given_back() {
	[ "$(cat /data/property/persist.brisk.preload)" = plan ]
}

android() {
	mkdir -p /dev/__properties__ /system/bin
	cat /properties >/dev/__properties__/properties
	ln -s /setprop /system/bin/setprop
	rm /bin/reboot
	printf '#!/bin/sh\nsync\necho b >/proc/sysrq-trigger\n' >/bin/reboot
	chmod +x /bin/reboot
	if [ "$boot" -eq 1 ]; then
		/system/bin/setprop persist.brisk.preload plan
	fi
	/system/bin/setprop persist.brisk.preload "$(cat /data/property/persist.brisk.preload)"
	counts=true
	zygote || counts=false
	run_scripts /data/adb/post-fs-data.d
	run_scripts /data/adb/service.d
	wait_for 60 is_given_back
	say given_back "$(cat /data/property/persist.brisk.preload)"
	sleep 3
	read -r seconds _ </proc/uptime
	/system/bin/setprop sys.boot_completed 1
	if [ "$boot" -eq 1 ]; then
		brisk prove /mini.toml --here 2>/said || true
		while read -r line; do say asked.said "$line"; done </said
		begin || true
		wait_for_reboot
	fi
	if $counts; then say set_ms "${seconds%.*}${seconds#*.}0"; fi
	if [ "$boot" -lt 6 ]; then wait_for_reboot; fi
	wait_for 120 is_over
	wait_for 60 has_proof
	say given_back "$(cat /data/property/persist.brisk.preload)"
	find $results -name proof.json -exec cat {} + | while read -r line; do say proof "$line"; done
	status=0
	brisk prove --here --stop 2>/dev/null || status=$?
	say stopped.exit $status
	say stopped.left "$(left)"
	replicates replicate
}

case $1 in
cut)
	# Simulates a power cut while the next state is written.
	if [ -e $kept/cuts ] && [ "$(count cut)" -eq 1 ]; then
		printf '{"armed":{"repl' >$results/series.new
		sync
		echo b >/proc/sysrq-trigger
	fi
	;;
slow)
	if [ -e $kept/hangs ] || { [ -e $kept/hangs_once ] && [ "$(count slow)" -eq 1 ]; }; then
		sleep 1000000
	fi
	;;
*)
	boot=$(count boot)
	say boot "$boot"
	if [ "$boot" -eq 1 ]; then
		# From the next boot on.
		systemctl is-system-running --wait >/dev/null || true
		case $1 in
		interrupted) touch $kept/cuts ;;
		whole) touch $kept/hangs_once ;;
		esac
	fi
	"$1"
	;;
esac
