/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two threads of tested code, only one of which runs at a time.  The code is
 * compiled with -fsanitize=thread, whose calls before each memory access are
 * implemented here instead of by a library: the other thread may continue there.
 */
#ifndef _SCHEDULE_H
#define _SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

/* Rank in the lock order; the outermost is 1. */
struct lock {
	int rank;
	bool held;
	int holder;
};

void take_lock(struct lock *lock);
void drop_lock(struct lock *lock);

/* Ends the program if the running thread holds a lock of @rank or above. */
void must_not_hold(int rank, const char *what);

/* Atomic accesses: the other thread may continue before and after one. */
void *exchange(void **place, void *to);
void *exchange_if(void **place, const void *from, void *to);

/* Ends the program if a thread accesses this memory before both have ended. */
void free_memory(const void *at, size_t size);

/*
 * Runs two threads from @prepare's state to the end, in every order with at most two
 * voluntary switches, and calls @check after each.  Returns the number of orders;
 * @check ends the program on a fault.
 */
long explore(void (*prepare)(void), void (*first)(void), void (*second)(void),
	     void (*check)(void));

/* Prints which order it was, and ends the program. */
void fail(const char *what);

#endif
