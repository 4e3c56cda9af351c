// SPDX-License-Identifier: GPL-2.0
/* See schedule.h. */

#include <stdio.h>
#include <stdlib.h>
#include <ucontext.h>

#include "schedule.h"

#define STACK	(64 << 10)
#define LOCKS	8
#define ENDLESS	(-1l)

static ucontext_t whole, context[2];
static char stack[2][STACK];
static void (*body[2])(void);
static bool over[2];
static struct lock *held[2][LOCKS];
static int held_count[2];
static int running, waits, starts;
/* Accesses until the other thread continues, and its quota then. */
static long left, next_left, accesses, slice[2];
static bool is_exploring;
static const char *freed, *freed_end;

void fail(const char *what)
{
	printf("not ok: %s, thread %d first, %ld accesses of it, then %ld of the other\n", what,
	       starts, slice[0], slice[1]);
	exit(1);
}

static void let_other_go_on(void)
{
	int own = running;

	if (over[1 - own])
		return;
	running = 1 - own;
	left = next_left;
	next_left = ENDLESS;
	swapcontext(&context[own], &context[running]);
}

/* The other thread may continue here. */
static void pass(void)
{
	if (!is_exploring)
		return;
	accesses++;
	waits = 0;
	if (left > 0 && !--left)
		let_other_go_on();
}

static void must_not_be_freed(const void *at, size_t size)
{
	const char *first = at;

	if (is_exploring && first < freed_end && first + size > freed)
		fail("freed memory is accessed");
}

static void access_memory(const void *at, size_t size)
{
	pass();
	must_not_be_freed(at, size);
}

void *exchange(void **place, void *to)
{
	void *was;

	access_memory(place, sizeof(*place));
	was = *place;
	*place = to;
	pass();
	return was;
}

void *exchange_if(void **place, const void *from, void *to)
{
	void *was;

	access_memory(place, sizeof(*place));
	was = *place;
	if (was == from)
		*place = to;
	pass();
	return was;
}

void free_memory(const void *at, size_t size)
{
	freed = at;
	freed_end = freed + size;
}

void take_lock(struct lock *lock)
{
	int i;

	if (!is_exploring)
		return;
	access_memory(lock, sizeof(*lock));
	while (lock->held) {
		if (lock->holder == running || over[1 - running] || ++waits > 2)
			fail("a lock is waited for that is never let go");
		next_left = ENDLESS;
		let_other_go_on();
		must_not_be_freed(lock, sizeof(*lock));
	}
	for (i = 0; i < held_count[running]; i++)
		if (held[running][i]->rank >= lock->rank)
			fail("locks are taken in another order");
	lock->held = true;
	lock->holder = running;
	held[running][held_count[running]++] = lock;
}

void drop_lock(struct lock *lock)
{
	int i = 0;

	if (!is_exploring)
		return;
	while (i < held_count[running] && held[running][i] != lock)
		i++;
	if (i == held_count[running])
		fail("a lock is let go that is not held");
	must_not_be_freed(lock, sizeof(*lock));
	held[running][i] = held[running][--held_count[running]];
	lock->held = false;
	pass();
}

void must_not_hold(int rank, const char *what)
{
	int i;

	for (i = 0; is_exploring && i < held_count[running]; i++)
		if (held[running][i]->rank >= rank)
			fail(what);
}

static void run_body(void)
{
	body[running]();
	over[running] = true;
	let_other_go_on();
}

/* The number of accesses that each thread has made. */
static long run(int first, long of_first, long of_second, void (*prepare)(void))
{
	int i;

	prepare();
	free_memory(NULL, 0);
	starts = first;
	slice[0] = of_first;
	slice[1] = of_second;
	left = of_first;
	next_left = of_second;
	accesses = 0;
	running = first;
	for (i = 0; i < 2; i++) {
		over[i] = false;
		held_count[i] = 0;
		getcontext(&context[i]);
		context[i].uc_stack.ss_sp = stack[i];
		context[i].uc_stack.ss_size = STACK;
		context[i].uc_link = &whole;
		makecontext(&context[i], run_body, 0);
	}
	is_exploring = true;
	swapcontext(&whole, &context[first]);
	is_exploring = false;
	if (!over[0] || !over[1])
		fail("a thread did not end");
	return accesses;
}

long explore(void (*prepare)(void), void (*first)(void), void (*second)(void),
	     void (*check)(void))
{
	long orders = 0, longest, a, b;
	int i;

	body[0] = first;
	body[1] = second;
	for (i = 0; i < 2; i++) {
		longest = run(i, ENDLESS, ENDLESS, prepare);
		check();
		for (a = 1; a <= longest; a++) {
			for (b = 1; b <= longest; b++, orders++) {
				run(i, a, b, prepare);
				check();
			}
		}
	}
	return orders;
}

/* The functions that the compiler's instrumentation calls. */

void __tsan_init(void) { }
void __tsan_func_entry(void *pc) { }
void __tsan_func_exit(void) { }

#define ACCESS(name, size) \
	void __tsan_##name##size(void *at) { access_memory(at, size); }
#define ACCESSES(name) \
	ACCESS(name, 1) ACCESS(name, 2) ACCESS(name, 4) ACCESS(name, 8) ACCESS(name, 16)

ACCESSES(read)
ACCESSES(write)
ACCESSES(unaligned_read)
ACCESSES(unaligned_write)
ACCESSES(volatile_read)
ACCESSES(volatile_write)

void __tsan_read_range(void *at, unsigned long size) { access_memory(at, size); }
void __tsan_write_range(void *at, unsigned long size) { access_memory(at, size); }
