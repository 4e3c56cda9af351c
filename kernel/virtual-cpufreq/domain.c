// SPDX-License-Identifier: GPL-2.0
/*
 * The cpufreq driver: CPUs that change frequency together, and their policies.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpufreq.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include "virtual_cpufreq.h"

static struct domain *domains;
static unsigned int nr_domains;

/* Number of frequencies up to this CPU's maximum, or 0 if that is not listed */
static unsigned int states_of(unsigned int cpu, const unsigned int *maxima_mhz,
			      unsigned int nr_maxima)
{
	unsigned int i;

	if (cpu >= nr_maxima)
		return nr_frequencies;
	for (i = 0; i < nr_frequencies; i++)
		if (frequencies_mhz[i] == maxima_mhz[cpu])
			return i + 1;
	return 0;
}

static struct domain *domain_for(unsigned int nr_states)
{
	struct domain *domain;
	unsigned int i;

	for (i = 0; shared_policy && i < nr_domains; i++)
		if (domains[i].nr_states == nr_states)
			return &domains[i];

	domain = &domains[nr_domains++];
	domain->nr_states = nr_states;
	domain->state = nr_states - 1;
	for (i = 0; i < nr_states; i++)
		domain->table[i].frequency = frequencies_mhz[i] * 1000;
	domain->table[nr_states].frequency = CPUFREQ_TABLE_END;
	return domain;
}

int build_domains(const unsigned int *maxima_mhz, unsigned int nr_maxima)
{
	unsigned int cpu, states;

	domains = kcalloc(num_possible_cpus(), sizeof(*domains), GFP_KERNEL);
	if (!domains)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct domain *domain;

		states = states_of(cpu, maxima_mhz, nr_maxima);
		if (!states) {
			pr_err("maxima_mhz: %u MHz of CPU %u is not one of frequencies_mhz\n",
			       maxima_mhz[cpu], cpu);
			kfree(domains);
			return -EINVAL;
		}
		domain = domain_for(states);
		cpumask_set_cpu(cpu, &domain->cpus);
		per_cpu(virtual_cpus, cpu).domain = domain;
	}
	return 0;
}

static int domain_of_policy_init(struct cpufreq_policy *policy)
{
	struct domain *domain = per_cpu(virtual_cpus, policy->cpu).domain;

	policy->driver_data = domain;
	policy->freq_table = domain->table;
	policy->cpuinfo.transition_latency = transition_latency_us *
					     NSEC_PER_USEC;
	policy->cur = frequencies_mhz[domain->state] * 1000;
	policy->dvfs_possible_from_any_cpu = true;
	cpumask_copy(policy->cpus, &domain->cpus);
	return 0;
}

static int set_state(struct cpufreq_policy *policy, unsigned int index)
{
	struct domain *domain = policy->driver_data;

	WRITE_ONCE(domain->state, index);
	/* Not policy->cpus: a CPU may be active here before cpufreq adds it. */
	on_each_cpu_mask(&domain->cpus, adopt_state, NULL, true);
	return 0;
}

static unsigned int get_khz(unsigned int cpu)
{
	struct domain *domain = per_cpu(virtual_cpus, cpu).domain;

	return frequencies_mhz[READ_ONCE(domain->state)] * 1000;
}

static struct cpufreq_driver driver = {
	.name		= "virtual-cpufreq",
	.flags		= CPUFREQ_CONST_LOOPS,
	.verify		= cpufreq_generic_frequency_table_verify,
	.target_index	= set_state,
	.get		= get_khz,
	.init		= domain_of_policy_init,
#ifdef HAVE_CPUFREQ_GENERIC_ATTR
	.attr		= cpufreq_generic_attr,
#endif
};

void free_domains(void)
{
	kfree(domains);
}

unsigned int count_domains(void)
{
	return nr_domains;
}

int register_domains(bool governor_per_policy)
{
	int ret;

	if (governor_per_policy)
		driver.flags |= CPUFREQ_HAVE_GOVERNOR_PER_POLICY;
	ret = cpufreq_register_driver(&driver);
	if (ret)
		pr_err("cpufreq refuses the driver (is another one loaded?): %d\n",
		       ret);
	return ret;
}

void unregister_domains(void)
{
	cpufreq_unregister_driver(&driver);
}
