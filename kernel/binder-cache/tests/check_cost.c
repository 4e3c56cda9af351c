// SPDX-License-Identifier: GPL-2.0
/* What a hit costs, where the emulator's time stamps count instructions. */

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

/* One exchange of what is queued; the emulator's time stamps count instructions. */
static uint64_t cost(void)
{
	uint64_t before = stamp();
	int size = exchange(&client, sizeof(client.in));
	uint64_t after = stamp();

	if (size > 0)
		take(&client, size);
	return after - before;
}

void a_hit_costs_little(void)
{
	static uint64_t empty[TIMES], hit[TIMES];
	struct parcel p;
	int i;

	put_header(&p);
	put_string(&p, "plain");
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	CHECK(look_up(&client, "plain") == FOUND);
	for (i = 0; i < TIMES; i++) {
		struct binder_write_read nothing = { 0 };
		uint64_t before = stamp();

		ioctl(client.fd, BINDER_WRITE_READ, &nothing);
		empty[i] = stamp() - before;
		queue_free(&client, client.reply.data.ptr.buffer);
		queue_transaction(&client, BC_TRANSACTION, 0, CODE_CHECK, 0, &p);
		hit[i] = cost();
	}
	free_reply(&client);
	qsort(empty, TIMES, sizeof(*empty), by_size);
	qsort(hit, TIMES, sizeof(*hit), by_size);
	/* on a clock that is not counted, times say nothing */
	if (!empty[0] || empty[TIMES * 9 / 10] != empty[0] || empty[0] > 2000)
		return;
	printf("a hit: %llu, at most %llu in 99 of 100; an empty call: %llu instructions\n",
	       (unsigned long long)hit[TIMES / 2], (unsigned long long)hit[TIMES * 99 / 100],
	       (unsigned long long)empty[0]);
	CHECK(hit[TIMES / 2] <= 5000);
	CHECK(hit[TIMES * 99 / 100] <= 6000);
}
