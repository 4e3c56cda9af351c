// SPDX-License-Identifier: GPL-2.0
/*
 * Calibration: the cost of a timer interrupt outside its handler.  A fixed loop is
 * timed with and without interrupts; the fastest of several trials is the one
 * without a tick.
 */
#include <linux/limits.h>
#include <linux/math64.h>
#include <linux/minmax.h>
#include <linux/preempt.h>
#include "virtual_cpufreq.h"

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

int measure_overhead(void)
{
	static struct calibration trial;
	unsigned long turns = 1000;
	u64 quiet = U64_MAX;
	s64 least = S64_MAX;
	int i;

	setup_pinned_timer(&trial.timer, calibration_fired);
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
	return clamp_t(s64, least, 0, INT_MAX);
}
