// SPDX-License-Identifier: GPL-2.0
/*
 * virtual-cpufreq - a cpufreq driver whose frequency really slows the CPU
 *
 * A virtual machine has no clock to turn down.  This driver lets a task run
 * natively for a part of every quantum and keeps the CPU in a hard interrupt
 * handler for the rest, so that work takes the time that it would take at the
 * chosen frequency:
 *
 *	stall = run * (reference / frequency - 1)
 *
 * where the reference is the highest frequency of any CPU, at which a CPU runs
 * natively.  The stall is kept as a debt: running adds to it, time spent in
 * the driver pays it off, a change of frequency settles it first, and being
 * idle in between does not write it off.
 *
 * Energy follows P = C * V^2 * f while a CPU is busy, and a constant power
 * while it is idle.  It is computed from the time spent in each state, so no
 * rounding error accumulates, and is read like RAPL from a powercap zone.
 */
#define pr_fmt(fmt) KBUILD_MODNAME ": " fmt

#include <linux/cpu.h>
#include <linux/cpufreq.h>
#include <linux/cpuhotplug.h>
#include <linux/hrtimer.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/module.h>
#include <linux/powercap.h>
#include <linux/slab.h>
#include <trace/events/power.h>

#define MAX_STATES		16
#define MAX_CPUS		64

/* RAPL counters wrap, so their readers must cope: wrap at a round 2^40 uJ. */
#define ENERGY_RANGE_UJ		((1ULL << 40) - 1)

/* A CPU that is held longer than this in one go would upset the watchdogs. */
#define STALL_LIMIT_NS		(20 * NSEC_PER_MSEC)
/*
 * Shortest native run between two stalls.  A timer that expires again before
 * its interrupt has returned counts as hanging, and the kernel then leaves it
 * alone for as long as the interrupt took.
 */
#define RUN_MINIMUM_NS		(50 * NSEC_PER_USEC)
/* A debt above this came from a clock jump or a stopped guest: forgive it. */
#define DEBT_LIMIT_NS		((s64)NSEC_PER_SEC)
#define CREDIT_LIMIT_NS		(100 * (s64)NSEC_PER_USEC)

#define OVERHEAD_MEASURE	(-1)
#define OVERHEAD_LIMIT_NS	50000

static unsigned int frequencies_mhz[MAX_STATES] = { 200, 500, 800, 1000, 1200 };
static int nr_frequencies = 5;
module_param_array(frequencies_mhz, uint, &nr_frequencies, 0444);
MODULE_PARM_DESC(frequencies_mhz, "Frequencies in MHz, ascending");

static unsigned int voltages_mv[MAX_STATES] = { 950, 975, 1050, 1150, 1250 };
static int nr_voltages = 5;
module_param_array(voltages_mv, uint, &nr_voltages, 0444);
MODULE_PARM_DESC(voltages_mv, "Core voltage in mV at each frequency");

static unsigned int maxima_mhz[MAX_CPUS];
static int nr_maxima;
module_param_array(maxima_mhz, uint, &nr_maxima, 0444);
MODULE_PARM_DESC(maxima_mhz, "Highest frequency of each CPU in MHz (default: the highest of all for every CPU)");

static unsigned int capacitance_pf = 300;
module_param(capacitance_pf, uint, 0444);
MODULE_PARM_DESC(capacitance_pf, "Effective switched capacitance of a CPU in pF");

static unsigned int idle_power_uw = 20000;
module_param(idle_power_uw, uint, 0444);
MODULE_PARM_DESC(idle_power_uw, "Power of an idle CPU in uW");

static unsigned int transition_latency_us = 100;
module_param(transition_latency_us, uint, 0444);
MODULE_PARM_DESC(transition_latency_us, "Transition latency in us that governors are told");

static bool shared_policy;
module_param(shared_policy, bool, 0444);
MODULE_PARM_DESC(shared_policy, "CPUs of equal maximum share one cpufreq policy");

static bool governor_per_policy;
module_param(governor_per_policy, bool, 0444);
MODULE_PARM_DESC(governor_per_policy, "Governor tunables lie in each policy's directory instead of a global one");

static unsigned int quantum_us = 1000;
module_param(quantum_us, uint, 0444);
MODULE_PARM_DESC(quantum_us, "Length of one run and stall period in us (100 to 4000)");

static int overhead_ns = OVERHEAD_MEASURE;
module_param(overhead_ns, int, 0444);
MODULE_PARM_DESC(overhead_ns, "Cost of entering and leaving the timer interrupt in ns (-1: measure at load)");

/* CPUs that change frequency together: one cpufreq policy */
struct domain {
	struct cpumask cpus;
	unsigned int state;	/* index into frequencies_mhz now in force */
	unsigned int nr_states;
	struct cpufreq_frequency_table table[MAX_STATES + 1];
};

struct virtual_cpu {
	struct hrtimer timer;
	struct domain *domain;
	bool active;		/* between the hotplug callbacks */
	bool idle;
	unsigned int state;
	u64 last_ns;		/* up to here time has been accounted */
	s64 debt_ns;		/* stall still owed; negative: held too long */
	u64 busy_ns[MAX_STATES];
	u64 idle_ns;
};

static DEFINE_PER_CPU(struct virtual_cpu, virtual_cpus);
static struct domain *domains;
static unsigned int nr_domains;
static unsigned int reference_mhz;
static unsigned int busy_power_uw[MAX_STATES];
static enum cpuhp_state hotplug_state;
static struct powercap_control_type *control_type;
static struct powercap_zone *zone;

static u64 now_ns(void)
{
	return ktime_get_mono_fast_ns();
}

static void timer_setup_here(struct hrtimer *timer,
			     enum hrtimer_restart (*function)(struct hrtimer *))
{
#ifdef HAVE_HRTIMER_SETUP
	hrtimer_setup(timer, function, CLOCK_MONOTONIC,
		      HRTIMER_MODE_REL_PINNED_HARD);
#else
	hrtimer_init(timer, CLOCK_MONOTONIC, HRTIMER_MODE_REL_PINNED_HARD);
	timer->function = function;
#endif
}

/*
 * Accounting.  Everything below runs on the CPU it is about with interrupts
 * disabled, so a CPU's figures need no lock.  On the way into the driver the
 * time since last_ns is charged to the task (or to idle); on the way out, to
 * the stall: the driver's own work is thus part of the time that it owes.
 */
static void charge(struct virtual_cpu *vcpu, bool stalled)
{
	unsigned int mhz = frequencies_mhz[vcpu->state];
	u64 now = now_ns();
	s64 delta = now - vcpu->last_ns;

	if (delta <= 0)
		return;
	vcpu->last_ns = now;
	if (vcpu->idle) {
		vcpu->idle_ns += delta;
		return;
	}
	vcpu->busy_ns[vcpu->state] += delta;
	if (stalled)
		vcpu->debt_ns -= delta;
	else
		vcpu->debt_ns += mul_u64_u32_div(delta, reference_mhz - mhz,
						 mhz);
	/* At native speed the driver's own time earns a task no credit. */
	vcpu->debt_ns = clamp(vcpu->debt_ns,
			      mhz == reference_mhz ? 0 : -CREDIT_LIMIT_NS,
			      DEBT_LIMIT_NS);
}

/* Native run time until this quantum's stall is due */
static u64 run_ns(const struct virtual_cpu *vcpu)
{
	unsigned int mhz = frequencies_mhz[vcpu->state];
	unsigned int slower = reference_mhz - mhz;
	s64 stall = (u64)quantum_us * NSEC_PER_USEC * slower / reference_mhz;
	s64 missing = stall - vcpu->debt_ns;

	if (missing <= 0 || !slower)
		return RUN_MINIMUM_NS;
	return max_t(u64, mul_u64_u32_div(missing, mhz, slower),
		     RUN_MINIMUM_NS);
}

static bool must_stall(const struct virtual_cpu *vcpu)
{
	return vcpu->active && !vcpu->idle &&
	       (frequencies_mhz[vcpu->state] != reference_mhz ||
		vcpu->debt_ns > 0);
}

/* pause and yield cost a translator far more than they save: spin plainly */
static void spin_until(u64 end_ns)
{
	unsigned int i;

	while ((s64)(now_ns() - end_ns) < 0)
		for (i = 0; i < 50; i++)
			barrier();
}

static void pay_debt(struct virtual_cpu *vcpu)
{
	if (vcpu->debt_ns > 0)
		spin_until(vcpu->last_ns +
			   min_t(u64, vcpu->debt_ns, STALL_LIMIT_NS));
	charge(vcpu, true);
}

static enum hrtimer_restart stall(struct hrtimer *timer)
{
	struct virtual_cpu *vcpu = container_of(timer, struct virtual_cpu,
						timer);
	unsigned int mhz = frequencies_mhz[vcpu->state];
	enum hrtimer_restart again = HRTIMER_NORESTART;

	charge(vcpu, false);
	if (!must_stall(vcpu))
		return HRTIMER_NORESTART;

	/*
	 * The interrupt's entry and exit lie outside the two time stamps and
	 * were charged as if they were the task's work, with their stall.
	 */
	if (mhz != reference_mhz)
		vcpu->debt_ns -= (s64)overhead_ns * reference_mhz / mhz;
	pay_debt(vcpu);
	if (must_stall(vcpu)) {
		hrtimer_set_expires(timer, ktime_add_ns(ktime_get(),
							run_ns(vcpu)));
		again = HRTIMER_RESTART;
	}
	return again;
}

static void rearm(struct virtual_cpu *vcpu)
{
	if (must_stall(vcpu))
		hrtimer_start(&vcpu->timer, ns_to_ktime(run_ns(vcpu)),
			      HRTIMER_MODE_REL_PINNED_HARD);
	else
		hrtimer_try_to_cancel(&vcpu->timer);
}

static void idle_changed(void *data, unsigned int idle_state, unsigned int cpu)
{
	struct virtual_cpu *vcpu;
	unsigned long flags;

	local_irq_save(flags);
	vcpu = this_cpu_ptr(&virtual_cpus);
	if (vcpu->active) {
		charge(vcpu, false);
		vcpu->idle = idle_state != PWR_EVENT_EXIT;
		rearm(vcpu);
		charge(vcpu, true);
	}
	local_irq_restore(flags);
}

/* An interprocessor call: take over the state that the domain now has */
static void adopt_state(void *unused)
{
	struct virtual_cpu *vcpu = this_cpu_ptr(&virtual_cpus);
	unsigned int state = READ_ONCE(vcpu->domain->state);

	if (!vcpu->active || vcpu->state == state)
		return;
	charge(vcpu, false);
	/* What was run at the old frequency takes its time and its power. */
	if (!vcpu->idle)
		pay_debt(vcpu);
	vcpu->state = state;
	rearm(vcpu);
	charge(vcpu, true);
}

static void charge_here(void *unused)
{
	struct virtual_cpu *vcpu = this_cpu_ptr(&virtual_cpus);

	if (vcpu->active)
		charge(vcpu, false);
}

/*
 * Hotplug.  A CPU that leaves keeps its counters and its domain its state, so
 * energy never runs backwards and a CPU that returns runs as its siblings do.
 * These callbacks are registered before cpufreq's own: a CPU is ready here
 * when cpufreq first sees it, and cpufreq has let go of it before it leaves.
 */
static int cpu_comes(unsigned int cpu)
{
	struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus, cpu);
	unsigned long flags;

	timer_setup_here(&vcpu->timer, stall);
	local_irq_save(flags);
	vcpu->idle = false;
	vcpu->debt_ns = 0;
	vcpu->last_ns = now_ns();
	vcpu->active = true;
	vcpu->state = READ_ONCE(vcpu->domain->state);
	rearm(vcpu);
	local_irq_restore(flags);
	return 0;
}

static int cpu_leaves(unsigned int cpu)
{
	struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus, cpu);
	unsigned long flags;

	local_irq_save(flags);
	charge(vcpu, false);
	vcpu->active = false;
	local_irq_restore(flags);
	hrtimer_cancel(&vcpu->timer);
	return 0;
}

/*
 * Calibration: what a timer interrupt costs outside its handler.  A fixed loop
 * is timed with and without interrupts; the fastest of several trials is the
 * one that met no tick.
 */
#define TRIALS			16
#define TRIAL_NS		(500 * NSEC_PER_USEC)
#define TRIAL_PERIOD_NS		(40 * NSEC_PER_USEC)

struct calibration {
	struct hrtimer timer;
	u64 inside_ns;
	unsigned int fired;
};

static enum hrtimer_restart calibration_fired(struct hrtimer *timer)
{
	struct calibration *trial = container_of(timer, struct calibration,
						 timer);
	u64 entered = now_ns();

	trial->fired++;
	hrtimer_set_expires(timer, ktime_add_ns(ktime_get(), TRIAL_PERIOD_NS));
	trial->inside_ns += now_ns() - entered;
	return HRTIMER_RESTART;
}

static u64 time_loop(unsigned long turns)
{
	u64 start = now_ns();

	while (turns--)
		barrier();
	return now_ns() - start;
}

static int measure_overhead(void)
{
	static struct calibration trial;
	unsigned long turns = 1000;
	u64 quiet = U64_MAX;
	s64 least = S64_MAX;
	int i;

	timer_setup_here(&trial.timer, calibration_fired);
	preempt_disable();
	while (time_loop(turns) < TRIAL_NS)
		turns *= 2;
	for (i = 0; i < TRIALS; i++)
		quiet = min(quiet, time_loop(turns));
	for (i = 0; i < TRIALS; i++) {
		s64 cost;

		trial.fired = 0;
		trial.inside_ns = 0;
		hrtimer_start(&trial.timer, ns_to_ktime(TRIAL_PERIOD_NS),
			      HRTIMER_MODE_REL_PINNED_HARD);
		cost = time_loop(turns);
		hrtimer_cancel(&trial.timer);
		cost -= quiet + trial.inside_ns;
		if (trial.fired)
			least = min(least, div_s64(cost, trial.fired));
	}
	preempt_enable();
	return clamp_t(s64, least, 0, OVERHEAD_LIMIT_NS);
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
	/* Not policy->cpus: a CPU may be ready here before cpufreq adds it. */
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

static int get_energy_uj(struct powercap_zone *unused, u64 *energy_uj)
{
	u64 total = 0;
	unsigned int cpu, i;

	/* uW * ns = 1e-15 J */
	cpus_read_lock();
	on_each_cpu(charge_here, NULL, true);
	for_each_possible_cpu(cpu) {
		const struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus,
							     cpu);

		for (i = 0; i < nr_frequencies; i++)
			total += mul_u64_u32_div(READ_ONCE(vcpu->busy_ns[i]),
						 busy_power_uw[i], 1000000000);
		total += mul_u64_u32_div(READ_ONCE(vcpu->idle_ns),
					 idle_power_uw, 1000000000);
	}
	cpus_read_unlock();
	*energy_uj = total & ENERGY_RANGE_UJ;
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
 * The zone has no constraint, yet powercap refuses one without these; they are
 * never called.
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
	if (capacitance_pf > 10000 || idle_power_uw > 1000000000) {
		pr_err("capacitance_pf is at most 10000, idle_power_uw 1e9\n");
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

static int build_domains(void)
{
	unsigned int cpu, i, states;

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
		domain = domain_for(states);
		cpumask_set_cpu(cpu, &domain->cpus);
		per_cpu(virtual_cpus, cpu).domain = domain;
		reference_mhz = max(reference_mhz, frequencies_mhz[states - 1]);
	}
	/* pF * mV^2 * MHz = 1e-12 W */
	for (i = 0; i < nr_frequencies; i++)
		busy_power_uw[i] = div_u64((u64)capacitance_pf *
					   voltages_mv[i] * voltages_mv[i] *
					   frequencies_mhz[i], 1000000);
	return 0;
}

static int register_energy(void)
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

static void unregister_energy(void)
{
	powercap_unregister_zone(control_type, zone);
	powercap_unregister_control_type(control_type);
}

/*
 * Where the TSC is not constant, the kernel takes it to follow the frequency,
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
		overhead_ns = measure_overhead();

	ret = register_trace_cpu_idle(idle_changed, NULL);
	if (ret)
		goto free_domains;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpufreq/virtual:online",
				cpu_comes, cpu_leaves);
	if (ret < 0)
		goto unregister_trace;
	hotplug_state = ret;

	if (governor_per_policy)
		driver.flags |= CPUFREQ_HAVE_GOVERNOR_PER_POLICY;
	ret = cpufreq_register_driver(&driver);
	if (ret) {
		pr_err("cpufreq refuses the driver (is another one loaded?): %d\n",
		       ret);
		goto remove_hotplug;
	}
	ret = register_energy();
	if (ret)
		goto unregister_driver;

	pr_info("%u policies, native speed at %u MHz, %d ns overhead an interrupt\n",
		nr_domains, reference_mhz, overhead_ns);
	return 0;

unregister_driver:
	cpufreq_unregister_driver(&driver);
remove_hotplug:
	cpuhp_remove_state(hotplug_state);
unregister_trace:
	unregister_trace_cpu_idle(idle_changed, NULL);
	tracepoint_synchronize_unregister();
free_domains:
	kfree(domains);
	return ret;
}

static void __exit virtual_cpufreq_exit(void)
{
	unregister_energy();
	cpufreq_unregister_driver(&driver);
	cpuhp_remove_state(hotplug_state);
	unregister_trace_cpu_idle(idle_changed, NULL);
	tracepoint_synchronize_unregister();
	kfree(domains);
}

module_init(virtual_cpufreq_init);
module_exit(virtual_cpufreq_exit);
MODULE_DESCRIPTION("cpufreq driver for virtual machines whose frequency slows the CPU");
MODULE_AUTHOR("The brisk authors");
MODULE_LICENSE("GPL");
