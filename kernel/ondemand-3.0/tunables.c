// SPDX-License-Identifier: GPL-2.0
/*
 * The tunables and their folder, at the path that Linux 3.0 used.
 */
#include <linux/jiffies.h>
#include <linux/kobject.h>
#include <linux/minmax.h>
#include <linux/module.h>
#include <linux/sysfs.h>
#include <linux/tick.h>
#include "ondemand30.h"

#define SAMPLING_RATE_PER_LATENCY	1000
#define SAMPLING_RATE_MIN_PER_LATENCY	100

/* Thresholds with idle time in microseconds (NO_HZ), and without */
#define FINE_UP_THRESHOLD		95
#define FINE_DOWN_DIFFERENTIAL		3
#define FINE_SAMPLING_RATE_MIN_US	10000
#define COARSE_UP_THRESHOLD		80
#define COARSE_DOWN_DIFFERENTIAL	10
#define COARSE_SAMPLING_RATE_MIN_TICKS	20

#define UP_THRESHOLD_MIN		11
#define UP_THRESHOLD_MAX		100
#define SAMPLING_DOWN_FACTOR_MAX	100000
#define POWERSAVE_BIAS_MAX		1000U

static bool immediate_rate = true;
module_param(immediate_rate, bool, 0644);
MODULE_PARM_DESC(immediate_rate, "A smaller sampling_rate moves the next sample forward (Samsung 3.0, later mainline); N: it applies after that sample (mainline 3.0)");

struct tunables tunables = {
	.freq_step = 100,
	.sampling_down_factor = 1,
};

static unsigned int sampling_rate_min;

/* Never held by a store: removing the folder waits for stores. */
static DEFINE_MUTEX(users_lock);
static unsigned int users;

/* Apply a smaller rate at once: move a sample that is too late forward. */
static void advance_samples(void)
{
	unsigned long delay = usecs_to_jiffies(tunables.sampling_rate);
	struct governed *governed;

	list_for_each_entry(governed, &active, link) {
		bool late;

		mutex_lock(&governed->lock);
		late = delayed_work_pending(&governed->work) &&
		       time_before(jiffies + delay,
				   governed->work.timer.expires);
		mutex_unlock(&governed->lock);
		if (!late)
			continue;
		/* The work takes the lock, so wait for it without holding it. */
		cancel_delayed_work_sync(&governed->work);
		schedule_delayed_work_on(governed->cpu, &governed->work, delay);
	}
}

static ssize_t sampling_rate_store(struct kobject *kobj,
				   struct kobj_attribute *attr,
				   const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	mutex_lock(&active_lock);
	tunables.sampling_rate = max(value, sampling_rate_min);
	if (immediate_rate)
		advance_samples();
	mutex_unlock(&active_lock);
	return count;
}

static ssize_t up_threshold_store(struct kobject *kobj,
				  struct kobj_attribute *attr,
				  const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	if (value < UP_THRESHOLD_MIN || value > UP_THRESHOLD_MAX)
		return -EINVAL;
	tunables.up_threshold = value;
	return count;
}

static ssize_t down_differential_store(struct kobject *kobj,
				       struct kobj_attribute *attr,
				       const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	tunables.down_differential = min(value, 100U);
	return count;
}

static ssize_t freq_step_store(struct kobject *kobj,
			       struct kobj_attribute *attr,
			       const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	tunables.freq_step = min(value, 100U);
	return count;
}

static ssize_t sampling_down_factor_store(struct kobject *kobj,
					  struct kobj_attribute *attr,
					  const char *buf, size_t count)
{
	struct governed *governed;
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	if (!value || value > SAMPLING_DOWN_FACTOR_MAX)
		return -EINVAL;
	mutex_lock(&active_lock);
	tunables.sampling_down_factor = value;
	list_for_each_entry(governed, &active, link) {
		mutex_lock(&governed->lock);
		governed->rate_multiplier = 1;
		mutex_unlock(&governed->lock);
	}
	mutex_unlock(&active_lock);
	return count;
}

static ssize_t powersave_bias_store(struct kobject *kobj,
				    struct kobj_attribute *attr,
				    const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	tunables.powersave_bias = min(value, POWERSAVE_BIAS_MAX);
	return count;
}

static ssize_t ignore_nice_load_store(struct kobject *kobj,
				      struct kobj_attribute *attr,
				      const char *buf, size_t count)
{
	struct governed *governed;
	unsigned int value, cpu;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	mutex_lock(&active_lock);
	if (tunables.ignore_nice_load == !!value)
		goto out;
	/* The idle time so far was counted by the other rule: restart the window. */
	list_for_each_entry(governed, &active, link) {
		mutex_lock(&governed->lock);
		for_each_cpu(cpu, governed->policy->cpus)
			take_times(cpu, per_cpu_ptr(&samples, cpu));
		mutex_unlock(&governed->lock);
	}
	tunables.ignore_nice_load = !!value;
out:
	mutex_unlock(&active_lock);
	return count;
}

/* Unlike current kernels, this neither samples nor restarts the window. */
static ssize_t io_is_busy_store(struct kobject *kobj,
				struct kobj_attribute *attr,
				const char *buf, size_t count)
{
	unsigned int value;
	int ret = kstrtouint(buf, 10, &value);

	if (ret)
		return ret;
	tunables.io_is_busy = !!value;
	return count;
}

static ssize_t sampling_rate_min_show(struct kobject *kobj,
				      struct kobj_attribute *attr, char *buf)
{
	return sysfs_emit(buf, "%u\n", sampling_rate_min);
}

static struct kobj_attribute sampling_rate_min_attribute =
	__ATTR_RO(sampling_rate_min);

struct tunable_attribute {
	struct kobj_attribute attribute;
	const unsigned int *value;
};

static ssize_t tunable_show(struct kobject *kobj, struct kobj_attribute *attr,
			    char *buf)
{
	struct tunable_attribute *tunable =
		container_of(attr, struct tunable_attribute, attribute);

	return sysfs_emit(buf, "%u\n", *tunable->value);
}

static struct tunable_attribute sampling_rate_attribute = {
	__ATTR(sampling_rate, 0644, tunable_show, sampling_rate_store),
	&tunables.sampling_rate
};

static struct tunable_attribute up_threshold_attribute = {
	__ATTR(up_threshold, 0644, tunable_show, up_threshold_store),
	&tunables.up_threshold
};

static struct tunable_attribute down_differential_attribute = {
	__ATTR(down_differential, 0644, tunable_show, down_differential_store),
	&tunables.down_differential
};

static struct tunable_attribute freq_step_attribute = {
	__ATTR(freq_step, 0644, tunable_show, freq_step_store),
	&tunables.freq_step
};

static struct tunable_attribute sampling_down_factor_attribute = {
	__ATTR(sampling_down_factor, 0644, tunable_show, sampling_down_factor_store),
	&tunables.sampling_down_factor
};

static struct tunable_attribute powersave_bias_attribute = {
	__ATTR(powersave_bias, 0644, tunable_show, powersave_bias_store),
	&tunables.powersave_bias
};

static struct tunable_attribute ignore_nice_load_attribute = {
	__ATTR(ignore_nice_load, 0644, tunable_show, ignore_nice_load_store),
	&tunables.ignore_nice_load
};

static struct tunable_attribute io_is_busy_attribute = {
	__ATTR(io_is_busy, 0644, tunable_show, io_is_busy_store),
	&tunables.io_is_busy
};

static struct attribute *attributes[] = {
	&sampling_rate_min_attribute.attr,
	&sampling_rate_attribute.attribute.attr,
	&up_threshold_attribute.attribute.attr,
	&down_differential_attribute.attribute.attr,
	&freq_step_attribute.attribute.attr,
	&sampling_down_factor_attribute.attribute.attr,
	&powersave_bias_attribute.attribute.attr,
	&ignore_nice_load_attribute.attribute.attr,
	&io_is_busy_attribute.attribute.attr,
	NULL
};

static const struct attribute_group attribute_group = {
	.name = "ondemand30",
	.attrs = attributes,
};

/* .../cpu/cpufreq, which is not exported but is every policy's parent */
static struct kobject *global_folder;

/*
 * The first policy to use the governor creates the tunables' folder and sets the
 * rate by its latency; the last one removes the folder.
 */
static int first_user(const struct cpufreq_policy *policy)
{
	unsigned int latency_us = max(policy->cpuinfo.transition_latency /
				      (unsigned int)NSEC_PER_USEC, 1U);

	sampling_rate_min = max(sampling_rate_min, latency_us *
				SAMPLING_RATE_MIN_PER_LATENCY);
	tunables.sampling_rate = max(sampling_rate_min, latency_us *
				     SAMPLING_RATE_PER_LATENCY);
	/* 3.0 sets this on Intel CPUs only; no phone has one. */
	tunables.io_is_busy = 0;
	global_folder = policy->kobj.parent;
	return sysfs_create_group(global_folder, &attribute_group);
}

int acquire_tunables(const struct cpufreq_policy *policy)
{
	int ret = 0;

	mutex_lock(&users_lock);
	if (!users)
		ret = first_user(policy);
	if (!ret)
		users++;
	mutex_unlock(&users_lock);
	return ret;
}

void release_tunables(void)
{
	mutex_lock(&users_lock);
	if (!--users)
		sysfs_remove_group(global_folder, &attribute_group);
	mutex_unlock(&users_lock);
}

void set_default_thresholds(void)
{
	u64 wall_us;

	if (get_cpu_idle_time_us(raw_smp_processor_id(), &wall_us) != -1ULL) {
		tunables.up_threshold = FINE_UP_THRESHOLD;
		tunables.down_differential = FINE_DOWN_DIFFERENTIAL;
		sampling_rate_min = FINE_SAMPLING_RATE_MIN_US;
	} else {
		tunables.up_threshold = COARSE_UP_THRESHOLD;
		tunables.down_differential = COARSE_DOWN_DIFFERENTIAL;
		sampling_rate_min =
			jiffies_to_usecs(COARSE_SAMPLING_RATE_MIN_TICKS);
	}
}
