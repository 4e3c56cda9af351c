#!/bin/sh
# The release's packages, installed and removed in the lab's guest under systemd by the commands of the README.
# tests/lab/install/mod.rs writes those into files, reads the lines "NAME: TEXT" and checks them.
set -eu

# The guest's own brisk is in /bin. BusyBox has its own dpkg, which its shell prefers, so dash runs this.
PATH=/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin
work=/tmp/work
rate=/sys/devices/system/cpu/cpufreq/ondemand/sampling_rate

# shellcheck source=tests/lab/steps/steps.sh
. /steps.sh

in_vain() {
	systemctl status brisk.service >&2 || true
}

# lines NAME: runs the README's commands of that name as a user types them, and prints each with its exit code.
lines() {
	cd /release
	while read -r line; do
		code=0
		# Standard input is empty, so that no command reads the next one.
		dash -c "$line" </dev/null >"$work/said" 2>&1 || code=$?
		sed 's/^/    /' "$work/said" >&2
		say "$1" "$code $line"
	done <"/$1.lines"
}

# All files with their contents, without those that dpkg and systemd change for every package and boot, and the kernel's
# tunables. The lab has its own /usr/bin/brisk.
state() {
	find / \( -path /proc -o -path /sys -o -path /dev -o -path /tmp -o -path /run -o -path /var/lib/dpkg \
		-o -path /var/log -o -path /var/cache -o -path /etc/.pwd.lock -o -path /usr/bin/brisk \) -prune -o -print
	# Users and groups by name: useradd and others rewrite these files, and keep backups.
	find /etc /usr/lib -type f ! -name .pwd.lock ! -name 'passwd*' ! -name 'group*' ! -name '*shadow*' -exec md5sum {} +
	sed 's/:.*//' /etc/passwd /etc/group
	ls -d /run/brisk* 2>/dev/null || :
	grep -rH . /sys/devices/system/cpu/cpufreq /proc/sys/vm 2>/dev/null | grep -v '/stats/\|cur_freq'
	find /sys/devices/system/cpu/cpufreq ! -user root
}

begin() {
	# /var/lib/systemd exists on each Debian.
	mkdir -p "$work" /var/lib/systemd
	# As on each Debian; `useradd` and others keep backups of them.
	for file in passwd group shadow gshadow; do
		[ -e /etc/$file ] || : >/etc/$file
		cp /etc/$file /etc/$file-
	done
	echo ondemand >/sys/devices/system/cpu/cpufreq/policy0/scaling_governor
	echo 100000 >"$rate"
	state | sort >"$work/before"
}

# compare NAME: what was added or removed.
compare() { # NAME
	state | sort >"$work/after"
	say "$1" "$(diff "$work/before" "$work/after" | grep '^[-+<>]' | grep -v '^[-+][-+]' | tr '\n' ' ' || :)"
}

serves() {
	brisk status >/dev/null
}

main_pid() {
	systemctl show --property=MainPID --value brisk.service
}

# The daemon changes a tunable for a launch that does not end.
launch() {
	printf '[launch]\nforce = true\ntriggers = ["announced"]\nactuators = ["sampling-rate"]\n[launch.end]\nload_below_cpu_percent = 0\ndeadline_ms = 60000\n' \
		>/etc/brisk/brisk.toml.d/test.toml
	# A start completes when the configuration is active; a reload may return earlier.
	systemctl restart brisk.service
	brisk launch -- sleep 1000 >/dev/null 2>&1 &
	launched=$!
	wait_for 20 is_raised
	say "$1" "$(cat "$rate")"
	rm /etc/brisk/brisk.toml.d/test.toml
}

is_raised() {
	[ "$(cat "$rate")" != 100000 ]
}

end_launch() {
	# shellcheck disable=SC2046 # one process
	kill $(pidof sleep) || :
	wait "$launched" || :
}

# The README's commands to test brisk, then an upgrade while a launch holds a tunable, and the removal.
try() { # UPGRADE
	lines try
	wait_for 20 serves
	before=$(main_pid)
	lines "$1"
	wait_for 20 serves
	say upgraded "$([ "$(main_pid)" != "$before" ] && echo another process) $(systemctl is-active brisk.service)"
	say kept "$(tr '\n' ' ' </etc/brisk/brisk.toml.d/switched.toml)"
	launch held
}

package() {
	begin
	lines package
	say started "$(systemctl is-active brisk.service) $(systemctl is-enabled brisk.service)"
	try package
	lines undo
	lines remove-package
	say restored "$(cat "$rate")"
	end_launch
	compare left
}

# Without stopping the service first, and without purging: the user's settings are kept until a purge.
package_removed() {
	begin
	lines package
	try package
	dpkg --remove brisk >/dev/null 2>&1
	say restored "$(cat "$rate")"
	say stopped "$(systemctl is-active brisk.service)"
	say set "$(echo /etc/brisk/brisk.toml.d/*)"
	end_launch
	lines remove-package
	compare left
}

tarball() {
	begin
	lines tarball
	say started "$(systemctl is-active brisk.service) $(systemctl is-enabled brisk.service)"
	try tarball
	lines remove-tarball
	say restored "$(cat "$rate")"
	end_launch
	rm -r /release/brisk-*/
	compare left
}

"$1"
