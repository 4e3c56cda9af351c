// SPDX-License-Identifier: GPL-2.0
/*
 * ondemand30 - the ondemand governor as it decided in Linux 3.0
 *
 * Today's ondemand samples from the scheduler's hook, forgets its window after
 * a long idle and picks a frequency in proportion to the load.  That of 3.0
 * samples from deferrable work at fixed times, goes to the maximum above
 * up_threshold and otherwise to the lowest frequency that would have kept the
 * load down_differential points under it.  Work on the papers' phones was
 * measured with the latter; this module brings it to a kernel that runs today.
 *
 * The README lists each rule with its source.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/jiffies.h>
#include <linux/kernel_stat.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/mutex.h>
#include <linux/percpu.h>
#include <linux/slab.h>
#include <linux/sysfs.h>
#include <linux/tick.h>
#include <linux/workqueue.h>

#define SAMPLING_RATE_PER_LATENCY	1000
#define SAMPLING_RATE_MIN_PER_LATENCY	100
#define LATENCY_LIMIT_NS		(10 * NSEC_PER_MSEC)

/* Thresholds where idle time is known to the microsecond (NO_HZ), and not */
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
MODULE_PARM_DESC(immediate_rate, "A smaller sampling_rate moves the next sample forward (vendor kernels and 3.3 on); N: it counts from the sample after (3.0)");

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

static struct tunables tunables = {
	.freq_step = 100,
	.sampling_down_factor = 1,
};

static unsigned int sampling_rate_min;

struct cpu_sample {
	u64 wall_us;
	u64 idle_us;
	u64 iowait_us;
	u64 nice_ns;
};

static DEFINE_PER_CPU(struct cpu_sample, samples);

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

/* Order: users_lock (never held by a store) or active_lock, then governed.lock */
static DEFINE_MUTEX(users_lock);
static unsigned int users;
static DEFINE_MUTEX(active_lock);
static LIST_HEAD(active);

static u64 nice_time_ns(unsigned int cpu)
{
	return kcpustat_field(&kcpustat_cpu(cpu), CPUTIME_NICE, cpu);
}

/* 3.0 counted waiting for I/O as idle and told it apart: read both. */
static void take_times(unsigned int cpu, struct cpu_sample *sample)
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
 * The listed frequencies next to khz within the policy's limits: the highest
 * not above it and the lowest not below it.  The kernel's own look-up has
 * changed its arguments between the versions this builds for.
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
 * powersave_bias: run so that the average is that many thousandths lower, by
 * sharing the period between the two nearest frequencies.  Returns the higher.
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
static unsigned long next_delay(unsigned int multiplier)
{
	u64 us = min_t(u64, (u64)tunables.sampling_rate * multiplier, UINT_MAX);
	unsigned long delay = max(usecs_to_jiffies(us), 1UL);

	if (num_online_cpus() > 1)
		delay -= jiffies % delay;
	return delay;
}

static void sample(struct work_struct *work)
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

/* Let a smaller rate count at once: bring forward a sample that is too far. */
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
		/* The work takes the lock, so wait for it without. */
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
	/* The idle time so far was counted by the other rule: start afresh. */
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

/* Unlike today, this neither samples nor restarts the window. */
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
 * The first policy to use the governor brings the tunables' folder and sets
 * the rate by its latency; the last one takes the folder away.
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

static int ondemand30_init(struct cpufreq_policy *policy)
{
	struct governed *governed;
	int ret = 0;

	if (policy->cpuinfo.transition_latency > LATENCY_LIMIT_NS) {
		pr_warn("CPU %u takes too long to change frequency: %u ns\n",
			policy->cpu, policy->cpuinfo.transition_latency);
		return -EINVAL;
	}
	governed = kzalloc(sizeof(*governed), GFP_KERNEL);
	if (!governed)
		return -ENOMEM;
	governed->policy = policy;
	mutex_init(&governed->lock);
	INIT_DEFERRABLE_WORK(&governed->work, sample);

	mutex_lock(&users_lock);
	if (!users)
		ret = first_user(policy);
	if (!ret)
		users++;
	mutex_unlock(&users_lock);
	if (ret) {
		kfree(governed);
		return ret;
	}
	policy->governor_data = governed;
	return 0;
}

static void ondemand30_exit(struct cpufreq_policy *policy)
{
	struct governed *governed = policy->governor_data;

	policy->governor_data = NULL;
	mutex_lock(&users_lock);
	if (!--users)
		sysfs_remove_group(global_folder, &attribute_group);
	mutex_unlock(&users_lock);
	mutex_destroy(&governed->lock);
	kfree(governed);
}

static int ondemand30_start(struct cpufreq_policy *policy)
{
	struct governed *governed = policy->governor_data;
	unsigned int cpu;

	if (!policy->cur)
		return -EINVAL;
	for_each_cpu(cpu, policy->cpus)
		take_times(cpu, per_cpu_ptr(&samples, cpu));
	governed->cpu = policy->cpu;
	governed->rate_multiplier = 1;
	governed->low_part_next = false;
	governed->low_khz = 0;

	mutex_lock(&active_lock);
	list_add_tail(&governed->link, &active);
	schedule_delayed_work_on(governed->cpu, &governed->work, next_delay(1));
	mutex_unlock(&active_lock);
	return 0;
}

static void ondemand30_stop(struct cpufreq_policy *policy)
{
	struct governed *governed = policy->governor_data;

	mutex_lock(&active_lock);
	list_del(&governed->link);
	mutex_unlock(&active_lock);
	/* Off the list, so no store can queue it again. */
	cancel_delayed_work_sync(&governed->work);
}

static void ondemand30_limits(struct cpufreq_policy *policy)
{
	struct governed *governed = policy->governor_data;

	mutex_lock(&governed->lock);
	cpufreq_policy_apply_limits(policy);
	mutex_unlock(&governed->lock);
}

static struct cpufreq_governor ondemand30 = {
	.name	= "ondemand30",
	.flags	= CPUFREQ_GOV_DYNAMIC_SWITCHING,
	.owner	= THIS_MODULE,
	.init	= ondemand30_init,
	.exit	= ondemand30_exit,
	.start	= ondemand30_start,
	.stop	= ondemand30_stop,
	.limits	= ondemand30_limits,
};

static int __init ondemand30_module_init(void)
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
	return cpufreq_register_governor(&ondemand30);
}

static void __exit ondemand30_module_exit(void)
{
	cpufreq_unregister_governor(&ondemand30);
}

module_init(ondemand30_module_init);
module_exit(ondemand30_module_exit);
MODULE_DESCRIPTION("The ondemand cpufreq governor as it decided in Linux 3.0");
MODULE_AUTHOR("The brisk authors");
MODULE_LICENSE("GPL");
