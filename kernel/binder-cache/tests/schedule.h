/* SPDX-License-Identifier: GPL-2.0 */
/*
 * Two threads of tested code, one of which runs at a time.  The code is compiled
 * with -fsanitize=thread, whose calls before each access to memory come here
 * instead of to a library: there the other thread may go on.
 */
#ifndef _SCHEDULE_H
#define _SCHEDULE_H

#include <stdbool.h>
#include <stddef.h>

/* What has a place in the order in which locks are taken; the outermost is 1. */
struct lock {
	int rank;
	bool held;
	int holder;
};

void take_lock(struct lock *lock);
void drop_lock(struct lock *lock);

/* Ends the program if the running thread holds a lock of @rank or above. */
void must_not_hold(int rank, const char *what);

/* Ends the program if a thread accesses it before both are over. */
void free_memory(const void *at, size_t size);

/*
 * Runs two threads from @prepare's state in every order with at most two switches
 * that neither of them waits for, each time to the end, and asks @check then.
 * The number of orders; @check ends the program.
 */
long explore(void (*prepare)(void), void (*first)(void), void (*second)(void),
	     void (*check)(void));

/* Prints which order it was, and ends the program. */
void fail(const char *what);

#endif
