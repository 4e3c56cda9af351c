/* SPDX-License-Identifier: GPL-2.0 */
#ifndef VIRTUAL_CPUFREQ_H
#define VIRTUAL_CPUFREQ_H

#include <linux/cpufreq.h>
#include <linux/cpumask.h>
#include <linux/hrtimer.h>
#include <linux/percpu.h>
#include <linux/timekeeping.h>
#include <linux/types.h>

#define MAX_CPUS		64
#define MAX_STATES		16
#define FULL_CAPACITY		1024

/* CPUs that change frequency together: one cpufreq policy */
struct domain {
	struct cpumask cpus;
	unsigned int state;	/* index into frequencies_mhz now in force */
	unsigned int nr_states;
	unsigned int capacity;
	unsigned int capacitance_pf;
	unsigned int native_speed;	/* speed of a CPU that never stalls */
	unsigned int speed[MAX_STATES];
	unsigned int busy_power_uw[MAX_STATES];
	struct cpufreq_frequency_table table[MAX_STATES + 1];
};

/* The state, debt and usage of one CPU; accessed on that CPU alone */
struct virtual_cpu {
	struct hrtimer timer;
	struct domain *domain;
	bool active;		/* between the hotplug callbacks */
	bool idle;
	unsigned int state;
	u64 last_ns;		/* time is accounted up to here */
	s64 debt_ns;		/* stall still owed; negative: held too long */
	u64 busy_ns[MAX_STATES];
	u64 idle_ns;
	u64 idle_exits[MAX_STATES];
};

DECLARE_PER_CPU(struct virtual_cpu, virtual_cpus);

/* Parameters and values derived from them; constant after initialisation */
extern unsigned int frequencies_mhz[MAX_STATES];
extern unsigned int voltages_mv[MAX_STATES];
extern int nr_frequencies;
extern unsigned int maxima_mhz[MAX_CPUS];
extern int nr_maxima;
extern unsigned int capacities[MAX_CPUS];
extern int nr_capacities;
extern unsigned int capacitance_pf[MAX_CPUS];
extern int nr_capacitances;
extern unsigned int idle_power_uw;
extern unsigned int idle_exit_us;
extern unsigned int transition_latency_us;
extern bool shared_policy;
extern unsigned int quantum_us;
extern int overhead_ns;

static inline u64 now_ns(void)
{
	return ktime_get_mono_fast_ns();
}

/* slowdown.c: runs a CPU at a state, and accounts for it */
int start_slowdown(void);
void stop_slowdown(void);
void adopt_state(void *unused);
void charge_here(void *unused);
void setup_pinned_timer(struct hrtimer *timer,
			enum hrtimer_restart (*function)(struct hrtimer *));

/* overhead.c: the cost of an interrupt outside its handler, in ns */
int measure_overhead(void);

/* domain.c: the cpufreq driver */
int build_domains(void);
void free_domains(void);
unsigned int count_domains(void);
int register_domains(bool governor_per_policy);
void unregister_domains(void);

/* energy.c: the powercap zone */
int register_energy(void);
void unregister_energy(void);

#endif
