// SPDX-License-Identifier: GPL-2.0
/* The cost of a hit, where the emulator's time stamps count instructions. */

#include <stdio.h>
#include <stdlib.h>
#include <sys/ioctl.h>

#include "checks.h"

#define TIMES	500

static int by_size(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

static uint64_t stamp(void)
{
#ifdef __x86_64__
	return __builtin_ia32_rdtsc();
#else
	return 0;
#endif
}

/* One exchange of the queued commands; the emulator's time stamps count instructions. */
static uint64_t cost(struct client *c)
{
	uint64_t before = stamp();
	int size = exchange(c, sizeof(c->in));
	uint64_t after = stamp();

	if (size > 0)
		take(c, size);
	return after - before;
}

struct costs cost_of_hits(struct client *c, const char *name)
{
	static uint64_t empty[TIMES], hit[TIMES];
	struct parcel p;
	int i;

	put_header(&p);
	put_string(&p, name);
	CHECK(lookup(c, name) == FOUND);
	for (i = 0; i < TIMES; i++) {
		struct binder_write_read nothing = { 0 };
		uint64_t before = stamp();

		ioctl(c->fd, BINDER_WRITE_READ, &nothing);
		empty[i] = stamp() - before;
		queue_free(c, c->reply.data.ptr.buffer);
		queue_transaction(c, BC_TRANSACTION, 0, CODE_CHECK, 0, &p);
		hit[i] = cost(c);
	}
	free_reply(c);
	qsort(empty, TIMES, sizeof(*empty), by_size);
	qsort(hit, TIMES, sizeof(*hit), by_size);
	return (struct costs){
		.p50 = hit[TIMES / 2], .p99 = hit[TIMES * 99 / 100], .empty = empty[0],
		/* without counted instructions, times are meaningless */
		.is_counted = empty[0] && empty[TIMES * 9 / 10] == empty[0] && empty[0] <= 2000,
	};
}

void a_hit_costs_little(void)
{
	struct costs costs;

	CHECK(hits_while(FOUND, "plain", 3) == 2);
	costs = cost_of_hits(&client, "plain");
	if (!costs.is_counted)
		return;
	printf("a hit: %llu, at most %llu in 99 of 100; an empty call: %llu instructions\n",
	       (unsigned long long)costs.p50, (unsigned long long)costs.p99,
	       (unsigned long long)costs.empty);
	CHECK(costs.p50 <= 5000);
	CHECK(costs.p99 <= 6000);
}
