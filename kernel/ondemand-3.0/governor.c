// SPDX-License-Identifier: GPL-2.0
/*
 * ondemand30 - the ondemand governor of Linux 3.0
 *
 * Current ondemand samples from the scheduler's hook, drops its window after a
 * long idle and picks a frequency in proportion to the load.  That of 3.0 samples
 * from deferrable work at fixed times, goes to the maximum above up_threshold and
 * otherwise to the lowest frequency that would have kept the load
 * down_differential points below it.  The papers measured phones with the latter;
 * this module provides it for current kernels.
 *
 * The README lists each rule with its source.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpufreq.h>
#include <linux/module.h>
#include <linux/slab.h>
#include "ondemand30.h"

#define LATENCY_LIMIT_NS		(10 * NSEC_PER_MSEC)

static bool wakes_idle;
module_param(wakes_idle, bool, 0444);
MODULE_PARM_DESC(wakes_idle, "A sample wakes an idle CPU, unlike in Linux 3.0: shows what deferrable work saves");

/* Taken before a policy's own lock */
DEFINE_MUTEX(active_lock);
LIST_HEAD(active);

static int ondemand30_init(struct cpufreq_policy *policy)
{
	struct governed *governed;
	int ret;

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
	if (wakes_idle)
		INIT_DELAYED_WORK(&governed->work, sample_policy);
	else
		INIT_DEFERRABLE_WORK(&governed->work, sample_policy);

	ret = acquire_tunables(policy);
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
	release_tunables();
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
	/* The policy is off the list, so no store can queue it again. */
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
	set_default_thresholds();
	return cpufreq_register_governor(&ondemand30);
}

static void __exit ondemand30_module_exit(void)
{
	cpufreq_unregister_governor(&ondemand30);
}

module_init(ondemand30_module_init);
module_exit(ondemand30_module_exit);
MODULE_DESCRIPTION("The ondemand cpufreq governor of Linux 3.0");
MODULE_AUTHOR("The brisk authors");
MODULE_LICENSE("GPL");
