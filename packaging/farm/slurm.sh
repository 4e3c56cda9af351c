#!/bin/sh
# One shard of experiments as one task of a Slurm job array:
#
#   sbatch --array=1-8 packaging/farm/slurm.sh 8 FOLDER --full launch
#   sbatch --array=3 packaging/farm/slurm.sh 8 FOLDER --full launch   # shard 3 again, alone
#
# 8 is the number of shards, FOLDER a folder that all nodes share, and the rest are the arguments of `brisk prove`. BRISK names
# the program if the nodes do not have it in their PATH.
#SBATCH --job-name=brisk-prove
#SBATCH --output=brisk-prove-%A-%a.log
# In parallel mode a guest needs its host's CPUs for itself.
#SBATCH --exclusive
# A shard on a node that failed starts again, and goes on where it stopped.
#SBATCH --requeue
set -eu

if [ $# -lt 2 ] || [ -z "${SLURM_ARRAY_TASK_ID:-}" ]; then
	echo "usage: sbatch --array=1-N $0 N FOLDER [ARGUMENTS of brisk prove]" >&2
	exit 2
fi
count=$1
folder=$2
shift 2
exec "${BRISK:-brisk}" prove "$@" --output "$folder" --shard "$SLURM_ARRAY_TASK_ID/$count"
