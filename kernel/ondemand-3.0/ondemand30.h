/* SPDX-License-Identifier: GPL-2.0 */
#ifndef ONDEMAND30_H
#define ONDEMAND30_H

#include <linux/cpufreq.h>
#include <linux/list.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/types.h>
#include <linux/workqueue.h>

struct tunables {
	unsigned int sampling_rate;
	unsigned int up_threshold;
	unsigned int down_differential;
	unsigned int freq_step;
	unsigned int sampling_down_factor;
	unsigned int powersave_bias;
	unsigned int ignore_nice_load;
	unsigned int io_is_busy;
};

struct cpu_sample {
	u64 wall_us;
	u64 idle_us;
	u64 iowait_us;
	u64 nice_ns;
};

/* One cpufreq policy under this governor */
struct governed {
	struct list_head link;	/* in active, between start and stop */
	struct cpufreq_policy *policy;
	struct delayed_work work;
	/* Serialises a sample with changes of limits and tunables */
	struct mutex lock;
	unsigned int cpu;
	unsigned int rate_multiplier;
	/* powersave_bias: the rest of the period is spent at the lower one */
	bool low_part_next;
	unsigned int low_khz;
	unsigned int low_jiffies;
	unsigned int high_jiffies;
};

extern struct tunables tunables;
extern struct list_head active;
extern struct mutex active_lock;
DECLARE_PER_CPU(struct cpu_sample, samples);

/* sample.c: measurement and decision */
void take_times(unsigned int cpu, struct cpu_sample *sample);
void sample_policy(struct work_struct *work);
unsigned long next_delay(unsigned int multiplier);

/* tunables.c: the sysfs folder, which exists while a policy uses the governor */
void set_default_thresholds(void);
int acquire_tunables(const struct cpufreq_policy *policy);
void release_tunables(void);

#endif
