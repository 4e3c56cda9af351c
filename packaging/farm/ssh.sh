#!/bin/sh
# Shards of experiments on several machines, by GNU parallel over ssh, one at a time on each machine:
#
#   BRISK=./brisk packaging/farm/ssh.sh HOSTS 8 FOLDER --full launch
#   BRISK=./brisk SHARDS="3 5" packaging/farm/ssh.sh HOSTS 8 FOLDER --full launch   # shards 3 and 5 again
#
# HOSTS is a file with a machine a line, as for `parallel --sshloginfile`; 8 is the number of shards; FOLDER receives the results;
# the rest are the arguments of `brisk prove`. BRISK names the static program, which is copied. The machines need rsync. They work
# in the folder WORK, by default brisk-farm in the user's home, which is kept: there, a shard that failed goes on.
set -eu

if [ $# -lt 3 ] || [ -z "${BRISK:-}" ]; then
	echo "usage: BRISK=FILE $0 HOSTS N FOLDER [ARGUMENTS of brisk prove]" >&2
	exit 2
fi
hosts=$(realpath -- "$1")
count=$2
mkdir -p -- "$3"
cp -- "$BRISK" "$3/brisk"
cd -- "$3"
shift 3
# shellcheck disable=SC2086 # one word a shard
printf '%s\n' ${SHARDS:-$(seq "$count")} | parallel --will-cite --sshloginfile "$hosts" --jobs 1 --retries 2 \
	--workdir "${WORK:-brisk-farm}" --basefile brisk --return "shard-{}-of-$count" --quote \
	./brisk prove "$@" --output . --shard "{}/$count"
