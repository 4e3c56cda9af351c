// SPDX-License-Identifier: GPL-2.0
/*
 * Slows CPUs: lets a task run natively for a part of every quantum and keeps the
 * CPU in a hard interrupt handler for the rest, so that work takes as long as at
 * the selected frequency:
 *
 *	stall = run * (native speed / speed - 1)
 *
 * where a CPU's speed is its frequency times its work in a cycle.  The stall is kept
 * as a debt: running increases it, time spent in the driver pays it off, a change of
 * frequency settles it first, and idle time does not reduce it.
 */
#include <linux/cpuhotplug.h>
#include <linux/ktime.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/smp.h>
#include <trace/events/power.h>
#include "virtual_cpufreq.h"

/* Holding a CPU longer than this at once would trigger the watchdogs. */
#define STALL_LIMIT_NS		(20 * NSEC_PER_MSEC)
/*
 * Shortest native run between two stalls.  The kernel treats a timer that expires
 * again before its interrupt has returned as hanging, and then ignores it for as
 * long as the interrupt took.
 */
#define RUN_MINIMUM_NS		(50 * NSEC_PER_USEC)
/* A debt above this came from a clock jump or a stopped guest: drop it. */
#define DEBT_LIMIT_NS		((s64)NSEC_PER_SEC)
/* Overshoot that later work may compensate */
#define CREDIT_LIMIT_NS		(100 * (s64)NSEC_PER_USEC)

DEFINE_PER_CPU(struct virtual_cpu, virtual_cpus);

static enum cpuhp_state hotplug_state;

void setup_pinned_timer(struct hrtimer *timer,
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

static unsigned int speed(const struct virtual_cpu *vcpu)
{
	return vcpu->domain->speed[vcpu->state];
}

static bool is_native(const struct virtual_cpu *vcpu)
{
	return speed(vcpu) == vcpu->domain->native_speed;
}

/*
 * Accounting.  Everything below runs on the CPU that it accounts, with interrupts
 * disabled, so a CPU's figures need no lock.  On entry to the driver the time since
 * last_ns is charged to the task (or to idle); on exit, to the stall: the driver's
 * own work is thus part of the stall.
 */
static void charge(struct virtual_cpu *vcpu, bool stalled)
{
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
		vcpu->debt_ns += mul_u64_u32_div(delta,
						 vcpu->domain->native_speed -
						 speed(vcpu), speed(vcpu));
	/* At native speed the driver's own time earns a task no credit. */
	vcpu->debt_ns = clamp(vcpu->debt_ns,
			      is_native(vcpu) ? 0 : -CREDIT_LIMIT_NS,
			      DEBT_LIMIT_NS);
}

/* Native run time until this quantum's stall is due */
static u64 run_ns(const struct virtual_cpu *vcpu)
{
	unsigned int native = vcpu->domain->native_speed;
	unsigned int slower = native - speed(vcpu);
	s64 stall = (u64)quantum_us * NSEC_PER_USEC * slower / native;
	s64 missing = stall - vcpu->debt_ns;

	if (missing <= 0 || !slower)
		return RUN_MINIMUM_NS;
	return max_t(u64, mul_u64_u32_div(missing, speed(vcpu), slower),
		     RUN_MINIMUM_NS);
}

static bool must_stall(const struct virtual_cpu *vcpu)
{
	return vcpu->active && !vcpu->idle &&
	       (!is_native(vcpu) || vcpu->debt_ns > 0);
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
	enum hrtimer_restart again = HRTIMER_NORESTART;

	charge(vcpu, false);
	if (!must_stall(vcpu))
		return HRTIMER_NORESTART;

	/*
	 * The interrupt's entry and exit are outside the two time stamps and
	 * were charged as the task's work, with their stall.
	 */
	if (!is_native(vcpu))
		vcpu->debt_ns -= (s64)overhead_ns *
				 vcpu->domain->native_speed / speed(vcpu);
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
		if (vcpu->idle && idle_state == PWR_EVENT_EXIT)
			vcpu->idle_exits[vcpu->state]++;
		vcpu->idle = idle_state != PWR_EVENT_EXIT;
		rearm(vcpu);
		charge(vcpu, true);
	}
	local_irq_restore(flags);
}

/* An interprocessor call: adopt the domain's new state */
void adopt_state(void *unused)
{
	struct virtual_cpu *vcpu = this_cpu_ptr(&virtual_cpus);
	unsigned int state = READ_ONCE(vcpu->domain->state);

	if (!vcpu->active || vcpu->state == state)
		return;
	charge(vcpu, false);
	/* Work at the old frequency takes its time and its power. */
	if (!vcpu->idle)
		pay_debt(vcpu);
	vcpu->state = state;
	rearm(vcpu);
	charge(vcpu, true);
}

void charge_here(void *unused)
{
	struct virtual_cpu *vcpu = this_cpu_ptr(&virtual_cpus);

	if (vcpu->active)
		charge(vcpu, false);
}

/*
 * Hotplug.  A CPU that goes offline keeps its counters and its domain its state, so
 * energy never decreases and a CPU that returns runs like its siblings.  These
 * callbacks are registered before cpufreq's own: a CPU is ready here when cpufreq
 * first sees it, and cpufreq has released it before it goes offline.
 */
static int cpu_comes(unsigned int cpu)
{
	struct virtual_cpu *vcpu = per_cpu_ptr(&virtual_cpus, cpu);
	unsigned long flags;

	setup_pinned_timer(&vcpu->timer, stall);
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

int start_slowdown(void)
{
	int ret = register_trace_cpu_idle(idle_changed, NULL);

	if (ret)
		return ret;
	ret = cpuhp_setup_state(CPUHP_AP_ONLINE_DYN, "cpufreq/virtual:online",
				cpu_comes, cpu_leaves);
	if (ret < 0) {
		unregister_trace_cpu_idle(idle_changed, NULL);
		tracepoint_synchronize_unregister();
		return ret;
	}
	hotplug_state = ret;
	return 0;
}

void stop_slowdown(void)
{
	cpuhp_remove_state(hotplug_state);
	unregister_trace_cpu_idle(idle_changed, NULL);
	tracepoint_synchronize_unregister();
}
