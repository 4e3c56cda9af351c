// SPDX-License-Identifier: GPL-2.0
/*
 * One sample: the load of a policy's CPUs since the previous one, and the decision
 * of Linux 3.0.
 */
#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kernel_stat.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/tick.h>
#include "ondemand30.h"

DEFINE_PER_CPU(struct cpu_sample, samples);

static u64 nice_time_ns(unsigned int cpu)
{
	return kcpustat_cpu(cpu).cpustat[CPUTIME_NICE];
}

/* 3.0 counted iowait as idle and reported it separately: read both. */
void take_times(unsigned int cpu, struct cpu_sample *sample)
{
	u64 iowait_us = get_cpu_iowait_time_us(cpu, NULL);

	sample->idle_us = get_cpu_idle_time(cpu, &sample->wall_us, 0);
	sample->iowait_us = iowait_us == -1ULL ? 0 : iowait_us;
	sample->nice_ns = nice_time_ns(cpu);
}

/* Load of one CPU since its last sample in per cent, or -1 if unknown */
static int load_since_last(unsigned int cpu)
{
	struct cpu_sample *last = per_cpu_ptr(&samples, cpu);
	struct cpu_sample this;
	unsigned int wall, idle, iowait;

	take_times(cpu, &this);
	wall = this.wall_us - last->wall_us;
	idle = this.idle_us - last->idle_us;
	iowait = this.iowait_us - last->iowait_us;
	if (tunables.ignore_nice_load)
		idle += div_u64(this.nice_ns - last->nice_ns, NSEC_PER_USEC);
	*last = this;

	if (tunables.io_is_busy && idle >= iowait)
		idle -= iowait;
	if (!wall || wall < idle)
		return -1;
	return div_u64(100ULL * (wall - idle), wall);
}

/*
 * The listed frequencies next to khz within the policy's limits: the highest not
 * above it and the lowest not below it.  The arguments of the kernel's own lookup
 * differ between the supported versions.
 */
static void neighbours(const struct cpufreq_policy *policy, unsigned int khz,
		       unsigned int *below, unsigned int *above)
{
	struct cpufreq_frequency_table *entry;
	unsigned int lowest = policy->max, highest = policy->min;

	*below = 0;
	*above = UINT_MAX;
	cpufreq_for_each_valid_entry(entry, policy->freq_table) {
		unsigned int listed = entry->frequency;

		if (listed < policy->min || listed > policy->max)
			continue;
		lowest = min(lowest, listed);
		highest = max(highest, listed);
		if (listed <= khz)
			*below = max(*below, listed);
		if (listed >= khz)
			*above = min(*above, listed);
	}
	if (!*below)
		*below = lowest;
	if (*above == UINT_MAX)
		*above = highest;
}

/*
 * powersave_bias: lowers the average by that many thousandths, by splitting the
 * period between the two nearest frequencies.  Returns the higher.
 */
static unsigned int biased(struct governed *governed, unsigned int khz,
			   unsigned int relation)
{
	struct cpufreq_policy *policy = governed->policy;
	unsigned int below, above, wanted, average, total;

	if (!policy->freq_table)
		return khz;
	neighbours(policy, khz, &below, &above);
	wanted = relation == CPUFREQ_RELATION_H ? below : above;
	average = wanted - div_u64((u64)wanted * tunables.powersave_bias, 1000);
	neighbours(policy, average, &below, &above);
	if (below == above)
		return below;

	total = usecs_to_jiffies(tunables.sampling_rate);
	governed->low_khz = below;
	governed->high_jiffies = div_u64((u64)(average - below) * total +
					 (above - below) / 2, above - below);
	governed->low_jiffies = total - governed->high_jiffies;
	return above;
}

static void increase(struct governed *governed, unsigned int khz)
{
	struct cpufreq_policy *policy = governed->policy;

	if (tunables.powersave_bias)
		__cpufreq_driver_target(policy, biased(governed, khz,
						       CPUFREQ_RELATION_H),
					CPUFREQ_RELATION_L);
	else if (policy->cur != policy->max)
		__cpufreq_driver_target(policy, khz, CPUFREQ_RELATION_H);
}

static void decrease(struct governed *governed, unsigned int khz)
{
	if (tunables.powersave_bias)
		khz = biased(governed, khz, CPUFREQ_RELATION_L);
	__cpufreq_driver_target(governed->policy, khz, CPUFREQ_RELATION_L);
}

static void decide(struct governed *governed)
{
	struct cpufreq_policy *policy = governed->policy;
	unsigned int up = tunables.up_threshold;
	unsigned int keep = up - min(up - 1, tunables.down_differential);
	unsigned int cpu;
	int load = 0;

	governed->low_khz = 0;
	for_each_cpu(cpu, policy->cpus)
		load = max(load, load_since_last(cpu));

	if (load > up) {
		unsigned int step = div_u64((u64)policy->max *
					    tunables.freq_step, 100);
		unsigned int khz = min(policy->max, policy->cur + step);

		if (policy->cur < policy->max && khz == policy->max)
			governed->rate_multiplier =
				tunables.sampling_down_factor;
		increase(governed, khz);
	} else if (load < keep && policy->cur != policy->min) {
		governed->rate_multiplier = 1;
		decrease(governed, max(policy->min, load * policy->cur / keep));
	}
}

/* All CPUs sample nearly on the same jiffy, so that idle ones wake together. */
unsigned long next_delay(unsigned int multiplier)
{
	u64 us = min_t(u64, (u64)tunables.sampling_rate * multiplier, UINT_MAX);
	unsigned long delay = max(usecs_to_jiffies(us), 1UL);

	if (num_online_cpus() > 1)
		delay -= jiffies % delay;
	return delay;
}

void sample_policy(struct work_struct *work)
{
	struct governed *governed = container_of(to_delayed_work(work),
						 struct governed, work);
	unsigned long delay;

	mutex_lock(&governed->lock);
	if (tunables.powersave_bias && governed->low_part_next) {
		governed->low_part_next = false;
		__cpufreq_driver_target(governed->policy, governed->low_khz,
					CPUFREQ_RELATION_H);
		delay = governed->low_jiffies;
	} else {
		governed->low_part_next = false;
		decide(governed);
		if (governed->low_khz) {
			governed->low_part_next = true;
			delay = governed->high_jiffies;
		} else {
			delay = next_delay(governed->rate_multiplier);
		}
	}
	schedule_delayed_work_on(governed->cpu, &governed->work, delay);
	mutex_unlock(&governed->lock);
}
