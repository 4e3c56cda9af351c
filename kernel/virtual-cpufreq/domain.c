// SPDX-License-Identifier: GPL-2.0
/*
 * The cpufreq driver: CPUs that change frequency together, and their policies.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/energy_model.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/slab.h>
#include <linux/smp.h>
#include "virtual_cpufreq.h"

static struct domain *domains;
static unsigned int nr_domains;

/* Number of frequencies up to this CPU's maximum, or 0 if that is not listed */
static unsigned int states_of(unsigned int cpu)
{
	unsigned int i;

	if (cpu >= nr_maxima)
		return nr_frequencies;
	for (i = 0; i < nr_frequencies; i++)
		if (frequencies_mhz[i] == maxima_mhz[cpu])
			return i + 1;
	return 0;
}

static struct domain *domain_for(unsigned int cpu, unsigned int nr_states)
{
	unsigned int capacity = cpu < nr_capacities ? capacities[cpu] :
						      FULL_CAPACITY;
	unsigned int pf = capacitance_pf[min_t(int, cpu, nr_capacitances - 1)];
	struct domain *domain;
	unsigned int i;

	for (i = 0; shared_policy && i < nr_domains; i++) {
		domain = &domains[i];
		if (domain->nr_states == nr_states &&
		    domain->capacity == capacity && domain->capacitance_pf == pf)
			return domain;
	}

	domain = &domains[nr_domains++];
	domain->nr_states = nr_states;
	domain->state = nr_states - 1;
	domain->capacity = capacity;
	domain->capacitance_pf = pf;
	for (i = 0; i < nr_states; i++) {
		domain->table[i].frequency = frequencies_mhz[i] * 1000;
		/* pF * mV^2 * MHz = 1e-12 W */
		domain->busy_power_uw[i] = div_u64((u64)pf * voltages_mv[i] *
						   voltages_mv[i] *
						   frequencies_mhz[i], 1000000);
	}
	domain->table[nr_states].frequency = CPUFREQ_TABLE_END;
	return domain;
}

/*
 * The speed at each frequency, in a unit of the domain's own that keeps it whole.
 * Without capacities, every CPU does the same work in a cycle, and the highest
 * frequency of any CPU is native speed.
 */
static void find_speeds(void)
{
	unsigned int top = 0;
	unsigned int i, j;

	for (i = 0; i < nr_domains; i++)
		top = max(top, frequencies_mhz[domains[i].nr_states - 1]);
	for (i = 0; i < nr_domains; i++) {
		struct domain *domain = &domains[i];
		unsigned int own_top = frequencies_mhz[domain->nr_states - 1];

		domain->native_speed = nr_capacities ? own_top * FULL_CAPACITY :
						       top;
		for (j = 0; j < domain->nr_states; j++)
			domain->speed[j] = frequencies_mhz[j] *
					   (nr_capacities ? domain->capacity : 1);
	}
}

int build_domains(void)
{
	unsigned int cpu, states;

	domains = kcalloc(num_possible_cpus(), sizeof(*domains), GFP_KERNEL);
	if (!domains)
		return -ENOMEM;
	for_each_possible_cpu(cpu) {
		struct domain *domain;

		states = states_of(cpu);
		if (!states) {
			pr_err("maxima_mhz: %u MHz of CPU %u is not one of frequencies_mhz\n",
			       maxima_mhz[cpu], cpu);
			kfree(domains);
			return -EINVAL;
		}
		domain = domain_for(cpu, states);
		cpumask_set_cpu(cpu, &domain->cpus);
		per_cpu(virtual_cpus, cpu).domain = domain;
	}
	find_speeds();
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

#ifdef HAVE_ENERGY_MODEL_IN_MICROWATTS
/* The lowest state of at least *khz; unused without CONFIG_ENERGY_MODEL */
static int __maybe_unused active_power(struct device *dev,
				       unsigned long *power_uw,
				       unsigned long *khz)
{
	struct domain *domain = per_cpu(virtual_cpus, dev->id).domain;
	unsigned int i;

	for (i = 0; i < domain->nr_states; i++) {
		if (domain->table[i].frequency < *khz)
			continue;
		*khz = domain->table[i].frequency;
		*power_uw = domain->busy_power_uw[i];
		return 0;
	}
	return -EINVAL;
}

/* The scheduler weighs energy where CPUs are unequal, so only then it is told. */
static void register_energy_model(struct cpufreq_policy *policy)
{
	struct domain *domain = policy->driver_data;
	struct em_data_callback callback = EM_DATA_CB(active_power);
	int ret;

	if (!nr_capacities)
		return;
	ret = em_dev_register_perf_domain(get_cpu_device(policy->cpu),
					  domain->nr_states, &callback,
					  policy->related_cpus, true);
	/* A model stays when the module goes: a second one is refused. */
	if (ret && ret != -EEXIST)
		pr_warn("CPU %u has no energy model: %d\n", policy->cpu, ret);
}
#endif

static struct cpufreq_driver driver = {
#ifdef HAVE_ENERGY_MODEL_IN_MICROWATTS
	.register_em	= register_energy_model,
#endif
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
