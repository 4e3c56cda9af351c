// SPDX-License-Identifier: GPL-2.0
/*
 * Energy: C * V^2 * f while a CPU is busy, a constant power while it is idle, and
 * for each time that it leaves idle, idle_exit_us at the power of a busy CPU.
 * It is computed from the time spent in each state and the number of exits, so no
 * rounding error accumulates, and exposed like RAPL in a powercap zone.  Kernels
 * without powercap (Debian's for arm64) have the same counter as a module parameter.
 */
#include <linux/cpu.h>
#include <linux/err.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/powercap.h>
#include <linux/smp.h>
#include <linux/sysfs.h>
#include "virtual_cpufreq.h"

/* RAPL counters wrap, so their readers must handle it: wrap at a round 2^40 uJ. */
#define ENERGY_RANGE_UJ		((1ULL << 40) - 1)

static u64 read_energy_uj(void)
{
	u64 total = 0;
	unsigned int cpu, i;

	/* uW * ns = 1e-15 J */
	cpus_read_lock();
	on_each_cpu(charge_here, NULL, true);
	for_each_possible_cpu(cpu) {
		const struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus,
							     cpu);
		const unsigned int *power_uw = vcpu->domain->busy_power_uw;

		for (i = 0; i < vcpu->domain->nr_states; i++) {
			u64 exits = READ_ONCE(vcpu->idle_exits[i]);

			total += mul_u64_u32_div(READ_ONCE(vcpu->busy_ns[i]),
						 power_uw[i], 1000000000);
			total += mul_u64_u32_div(exits * idle_exit_us,
						 power_uw[i], 1000000);
		}
		total += mul_u64_u32_div(READ_ONCE(vcpu->idle_ns),
					 idle_power_uw, 1000000000);
	}
	cpus_read_unlock();
	return total & ENERGY_RANGE_UJ;
}

static int show_energy_uj(char *buffer, const struct kernel_param *unused)
{
	return sysfs_emit(buffer, "%llu\n", read_energy_uj());
}

static const struct kernel_param_ops energy_ops = {
	.get = show_energy_uj,
};
module_param_cb(energy_uj, &energy_ops, NULL, 0444);
MODULE_PARM_DESC(energy_uj, "Energy used by all CPUs in uJ (read only)");

static int show_idle_exits(char *buffer, const struct kernel_param *unused)
{
	unsigned int cpu, i;
	u64 total = 0;

	for_each_possible_cpu(cpu) {
		const struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus,
							     cpu);

		for (i = 0; i < MAX_STATES; i++)
			total += READ_ONCE(vcpu->idle_exits[i]);
	}
	return sysfs_emit(buffer, "%llu\n", total);
}

static const struct kernel_param_ops idle_exits_ops = {
	.get = show_idle_exits,
};
module_param_cb(idle_exits, &idle_exits_ops, NULL, 0444);
MODULE_PARM_DESC(idle_exits, "How often a CPU has left idle (read only)");

#if IS_ENABLED(CONFIG_POWERCAP)
static struct powercap_control_type *control_type;
static struct powercap_zone *zone;

static int get_energy_uj(struct powercap_zone *unused, u64 *energy_uj)
{
	*energy_uj = read_energy_uj();
	return 0;
}

static int get_max_energy_range_uj(struct powercap_zone *unused, u64 *range_uj)
{
	*range_uj = ENERGY_RANGE_UJ;
	return 0;
}

static int release_zone(struct powercap_zone *unused)
{
	return 0;
}

static const struct powercap_zone_ops zone_ops = {
	.get_max_energy_range_uj	= get_max_energy_range_uj,
	.get_energy_uj			= get_energy_uj,
	.release			= release_zone,
};

/*
 * The zone has no constraint, but powercap refuses a zone without these callbacks;
 * they are never called.
 */
static int set_nothing(struct powercap_zone *unused, int id, u64 value)
{
	return -EOPNOTSUPP;
}

static int get_nothing(struct powercap_zone *unused, int id, u64 *value)
{
	return -EOPNOTSUPP;
}

static const struct powercap_zone_constraint_ops constraint_ops = {
	.set_power_limit_uw	= set_nothing,
	.get_power_limit_uw	= get_nothing,
	.set_time_window_us	= set_nothing,
	.get_time_window_us	= get_nothing,
};

int register_energy(void)
{
	int ret;

	control_type = powercap_register_control_type(NULL, "virtual-cpufreq",
						      NULL);
	if (IS_ERR(control_type))
		return PTR_ERR(control_type);
	zone = powercap_register_zone(NULL, control_type, "package-0", NULL,
				      &zone_ops, 0, &constraint_ops);
	if (IS_ERR(zone)) {
		ret = PTR_ERR(zone);
		powercap_unregister_control_type(control_type);
		return ret;
	}
	return 0;
}

void unregister_energy(void)
{
	powercap_unregister_zone(control_type, zone);
	powercap_unregister_control_type(control_type);
}
#else
int register_energy(void)
{
	return 0;
}

void unregister_energy(void)
{
}
#endif
