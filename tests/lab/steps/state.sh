# shellcheck shell=sh
# The whole state of a guest, to compare it with an earlier one; `Report::of_whole_state` of tests/lab/steps/mod.rs installs it.
# The script provides the folder `$work`, cpufreq's folder `$cpufreq`, and the PIDs `$hogs`, `$build` and optionally `$cached`.
# shellcheck disable=SC2154,SC2086 # of the script: lists and paths without spaces

# Lists the threads to compare: all except the kernel's workers (PF_WQ_WORKER), which appear, vanish and are moved by the
# kernel, short-lived processes (a build's children) and this script.
list_threads() {
	status_files='' stat_files='' group_files='' adj_files=''
	for thread in /proc/[0-9]*/task/[0-9]*; do
		process=${thread%/task/*}
		process=${process#/proc/}
		name=$(cat "/proc/$process/comm" 2>/dev/null) || continue
		parent=$(sed -n 's/^PPid:[^0-9]*//p' "/proc/$process/status" 2>/dev/null) || continue
		if [ "$name" = ls ] || [ $(($(sed 's/.*) //' "$thread/stat" | cut -d ' ' -f 7) & 0x20)) != 0 ]; then continue; fi
		if [ "$process" = $$ ] || [ "$parent" = "$build" ]; then continue; fi
		status_files="$status_files $thread/status"
		stat_files="$stat_files $thread/stat"
		group_files="$group_files $thread/cgroup"
		adj_files="$adj_files /proc/$process/oom_score_adj"
	done
}

# shellcheck disable=SC2086 # lists of files
threads() {
	grep -H '^Cpus_allowed_list' $status_files
	# Without the name in brackets the nice value is field 18, the real-time priority 39, the policy 40.
	sed 's/^\([0-9]*\) (.*) /\1 /' $stat_files | awk '{ print "nice, priority, policy of", $1, $18, $39, $40 }'
	grep -H . $group_files
	grep -H . $adj_files
	for pid in $hogs $build ${cached-}; do
		echo "I/O priority of $pid: $(ionice -p "$pid")"
	done
}

tunables() {
	grep -rH . $cpufreq /sys/kernel/mm/lru_gen /proc/sys/vm /sys/module/zswap 2>/dev/null | grep -v '/stats/\|cur_freq'
	for name in mode policy capacity profile; do
		grep -H . "/sys/kernel/binder_cache/binder/$name" 2>/dev/null || :
	done
	for name in disksize comp_algorithm backing_dev initstate writeback_limit_enable writeback_limit; do
		grep -H . "/sys/block/zram0/$name" 2>/dev/null || :
	done
}

groups() {
	find /sys/fs/cgroup -type d | grep -v '/brisk[a-z-]*\.service'
	for name in cpu.weight cpu.shares cpu.idle cpu.max memory.high memory.max memory.limit_in_bytes cpuset.cpus \
		cpuset.mems cgroup.subtree_control cgroup.type; do
		find /sys/fs/cgroup -name "$name" -exec grep -H . {} + 2>/dev/null | grep -v '/brisk[a-z-]*\.service' || :
	done
}

# Except what brisk keeps by design: /run/brisk, /run/brisk-boot and its learned data.
files() {
	find / \( -path /proc -o -path /sys -o -path $work -o -path /run/brisk -o -path /run/brisk-boot -o -path /run/systemd -o -path /var/lib/brisk \) \
		-prune -o -print
	find /etc -type f -exec cksum {} +
}

state() {
	threads
	tunables | sort
	groups | sort
	awk '{ print "swap", $1, $2, $3, $5 }' /proc/swaps
	sort /proc/mounts
	files | sort
}

is_as_before() {
	state >$work/now 2>/dev/null
	cmp -s $work/before $work/now
}
