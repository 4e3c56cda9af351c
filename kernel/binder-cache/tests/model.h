/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A simple, obviously correct cache that a program of bytes runs alongside the core;
 * the first difference aborts.
 */
#ifndef _MODEL_H
#define _MODEL_H

#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>

#include "../core.h"

/* Prints and aborts, in fuzzed code. */
#define MUST(condition)								\
	do {									\
		if (!(condition)) {						\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();						\
		}								\
	} while (0)

/* The bytes of an entry for @question that the core may touch, and charges. */
static inline size_t entry_bytes(const struct bc_question *question)
{
	return sizeof(struct bc_entry) + (question->size + 7) / 8 * 8;
}

/* Counts of each event: a test that never evicts proves nothing. */
struct coverage {
	u64 calls, hits, misses, kept, stale, over_limit, evictions, forgotten;
};

void run_program(const u8 *program, size_t size, struct coverage *coverage);

#endif
