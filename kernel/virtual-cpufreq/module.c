// SPDX-License-Identifier: GPL-2.0
/*
 * virtual-cpufreq - a cpufreq driver whose frequency really slows the CPU
 *
 * The clock of a virtual machine cannot be slowed down; slowdown.c emulates that,
 * domain.c offers it to cpufreq and energy.c models the energy.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/minmax.h>
#include <linux/module.h>
#include "virtual_cpufreq.h"

#define OVERHEAD_MEASURE	(-1)
#define OVERHEAD_LIMIT_NS	50000

unsigned int frequencies_mhz[MAX_STATES] = { 200, 500, 800, 1000, 1200 };
int nr_frequencies = 5;
module_param_array(frequencies_mhz, uint, &nr_frequencies, 0444);
MODULE_PARM_DESC(frequencies_mhz, "Frequencies in MHz, ascending");

unsigned int voltages_mv[MAX_STATES] = { 950, 975, 1050, 1150, 1250 };
static int nr_voltages = 5;
module_param_array(voltages_mv, uint, &nr_voltages, 0444);
MODULE_PARM_DESC(voltages_mv, "Core voltage in mV at each frequency");

unsigned int maxima_mhz[MAX_CPUS];
int nr_maxima;
module_param_array(maxima_mhz, uint, &nr_maxima, 0444);
MODULE_PARM_DESC(maxima_mhz, "Highest frequency of each CPU in MHz (default: the highest of all for every CPU)");

unsigned int capacities[MAX_CPUS];
int nr_capacities;
module_param_array(capacities, uint, &nr_capacities, 0444);
MODULE_PARM_DESC(capacities, "Speed of each CPU at its highest frequency, of 1024 (default: by frequency alone)");

unsigned int capacitance_pf[MAX_CPUS] = { 300 };
int nr_capacitances = 1;
module_param_array(capacitance_pf, uint, &nr_capacitances, 0444);
MODULE_PARM_DESC(capacitance_pf, "Effective switched capacitance of each CPU in pF; the last is that of all further CPUs");

unsigned int idle_power_uw = 20000;
module_param(idle_power_uw, uint, 0444);
MODULE_PARM_DESC(idle_power_uw, "Power of an idle CPU in uW");

unsigned int idle_exit_us;
module_param(idle_exit_us, uint, 0444);
MODULE_PARM_DESC(idle_exit_us, "Energy of leaving idle once, as a time at the power of a busy CPU in us");

unsigned int transition_latency_us = 100;
module_param(transition_latency_us, uint, 0444);
MODULE_PARM_DESC(transition_latency_us, "Transition latency in us that is reported to governors");

bool shared_policy;
module_param(shared_policy, bool, 0444);
MODULE_PARM_DESC(shared_policy, "CPUs of equal maximum share one cpufreq policy");

static bool governor_per_policy;
module_param(governor_per_policy, bool, 0444);
MODULE_PARM_DESC(governor_per_policy, "Governor tunables in each policy's directory instead of a global one");

unsigned int quantum_us = 1000;
module_param(quantum_us, uint, 0444);
MODULE_PARM_DESC(quantum_us, "Length of one run and stall period in us (100 to 4000)");

int overhead_ns = OVERHEAD_MEASURE;
module_param(overhead_ns, int, 0444);
MODULE_PARM_DESC(overhead_ns, "Cost of entering and leaving the timer interrupt in ns (-1: measure at load)");

static int check_parameters(void)
{
	unsigned int i;

	if (nr_frequencies < 1 || nr_voltages != nr_frequencies) {
		pr_err("%d frequencies_mhz need as many voltages_mv, not %d\n",
		       nr_frequencies, nr_voltages);
		return -EINVAL;
	}
	for (i = 0; i < nr_frequencies; i++) {
		if (!frequencies_mhz[i] || frequencies_mhz[i] > 10000 ||
		    (i && frequencies_mhz[i] <= frequencies_mhz[i - 1])) {
			pr_err("frequencies_mhz must ascend from 1 to 10000\n");
			return -EINVAL;
		}
		if (!voltages_mv[i] || voltages_mv[i] > 5000) {
			pr_err("voltages_mv must be 1 to 5000\n");
			return -EINVAL;
		}
	}
	if (quantum_us < 100 || quantum_us > 4000) {
		pr_err("quantum_us must be 100 to 4000\n");
		return -EINVAL;
	}
	for (i = 0; i < nr_capacities; i++) {
		if (!capacities[i] || capacities[i] > FULL_CAPACITY) {
			pr_err("capacities must be 1 to %d\n", FULL_CAPACITY);
			return -EINVAL;
		}
	}
	for (i = 0; i < nr_capacitances; i++) {
		if (capacitance_pf[i] > 10000) {
			pr_err("capacitance_pf is at most 10000\n");
			return -EINVAL;
		}
	}
	if (idle_power_uw > 1000000000) {
		pr_err("idle_power_uw is at most 1e9\n");
		return -EINVAL;
	}
	if (idle_exit_us > 100000) {
		pr_err("idle_exit_us is at most 100000\n");
		return -EINVAL;
	}
	if (transition_latency_us > 100000) {
		pr_err("transition_latency_us is at most 100000\n");
		return -EINVAL;
	}
	if (overhead_ns < OVERHEAD_MEASURE || overhead_ns > OVERHEAD_LIMIT_NS) {
		pr_err("overhead_ns must be -1 to %d\n", OVERHEAD_LIMIT_NS);
		return -EINVAL;
	}
	return 0;
}

/*
 * Where the TSC is not constant, the kernel assumes that it follows the frequency,
 * and rescales the scheduler's clock at every change.
 */
static void warn_of_clock(void)
{
#ifdef CONFIG_X86
	if (!boot_cpu_has(X86_FEATURE_CONSTANT_TSC))
		pr_warn("this CPU's TSC is not constant: times will be wrong; with QEMU use -cpu kvm64\n");
#endif
}

static int __init virtual_cpufreq_init(void)
{
	int ret;

	ret = check_parameters();
	if (ret)
		return ret;
	warn_of_clock();
	ret = build_domains();
	if (ret)
		return ret;
	if (overhead_ns == OVERHEAD_MEASURE)
		overhead_ns = min(measure_overhead(), OVERHEAD_LIMIT_NS);

	ret = start_slowdown();
	if (ret)
		goto free;
	ret = register_domains(governor_per_policy);
	if (ret)
		goto stop;
	ret = register_energy();
	if (ret)
		goto unregister;

	pr_info("%u policies, %d ns overhead an interrupt\n", count_domains(),
		overhead_ns);
	return 0;

unregister:
	unregister_domains();
stop:
	stop_slowdown();
free:
	free_domains();
	return ret;
}

static void __exit virtual_cpufreq_exit(void)
{
	unregister_energy();
	unregister_domains();
	stop_slowdown();
	free_domains();
}

module_init(virtual_cpufreq_init);
module_exit(virtual_cpufreq_exit);
MODULE_DESCRIPTION("cpufreq driver for virtual machines whose frequency slows the CPU");
MODULE_AUTHOR("The brisk authors");
MODULE_LICENSE("GPL");
