/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A cache that is plainly right, run beside the core by a program of bytes;
 * the first difference aborts.
 */
#ifndef _MODEL_H
#define _MODEL_H

#include <linux/types.h>
#include <stdio.h>
#include <stdlib.h>

#include "../core.h"

/* Tells, and aborts, in what is fuzzed. */
#define MUST(condition)								\
	do {									\
		if (!(condition)) {						\
			fprintf(stderr, "%s:%d: %s\n", __FILE__, __LINE__, #condition); \
			abort();						\
		}								\
	} while (0)

/* What the core may touch of an entry for @question, and charges for it. */
static inline size_t entry_bytes(const struct bc_question *question)
{
	return sizeof(struct bc_entry) + (question->size + 7) / 8 * 8;
}

/* How often each thing happened: a test that never evicts proves nothing. */
struct coverage {
	u64 calls, hits, misses, kept, stale, over_limit, evictions, forgotten;
};

void run_program(const u8 *program, size_t size, struct coverage *coverage);

#endif
