// SPDX-License-Identifier: GPL-2.0
/*
 * Processes that hold many references.  A new one gets the smallest free descriptor:
 * finding it may take long, need memory, or both.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <time.h>
#include <unistd.h>

#include "checks.h"

/* Binders in one answer. */
#define EACH	16
#define FEW	16
#define MANY	10000

/* Names that two threads look up, and rounds; the driver's map has 64 bits at first. */
#define NAMES	200
#define ROUNDS	20

static struct client server;

static void register_names(const void *unused, int ready)
{
	char name[16];
	int i;

	open_binder(&server, DEVICE, MAP);
	for (i = 0; i < NAMES; i++) {
		snprintf(name, sizeof(name), "many.%d", i);
		add_service(&server, name, 0x100000 + 16 * i, CODE_ADD, 0);
	}
	say_ready(ready);
	for (;;)
		pause();
}

/* Looks up every other name and holds the results; returns the number of failures. */
static long hold_names(int fd, int first)
{
	struct client c = { .fd = fd };
	long missing = 0;
	char name[16];
	int i;

	for (i = first; i < NAMES; i += 2) {
		snprintf(name, sizeof(name), "many.%d", i);
		if (lookup(&c, name) == FOUND) {
			queue_u32(&c, BC_ACQUIRE);
			queue_u32(&c, object(&c)->handle);
		} else {
			missing++;
		}
		free_reply(&c);
	}
	return missing;
}

static void *hold_odd_names(void *fd)
{
	return (void *)hold_names((long)fd, 1);
}

/*
 * This client has no reference to the context manager: bit 0 of its map stays free
 * while all others are in use.
 */
void two_threads_fill_the_map_of_descriptors(void)
{
	pid_t owner = start(register_names, NULL);
	long missing, hits;
	pthread_t thread;
	void *odd;
	int round;

	/* learnt */
	CHECK(!hold_names(client.fd, 0) && !hold_names(client.fd, 1));
	hits = stat_of("hits");
	for (round = 0; round < ROUNDS; round++) {
		close_binder(&client);
		open_binder(&client, DEVICE, MAP);
		pthread_create(&thread, NULL, hold_odd_names, (void *)(long)client.fd);
		missing = hold_names(client.fd, 0);
		pthread_join(thread, &odd);
		CHECK(!missing && !odd);
	}
	/* the stock path grows the map to 128 and to 256, for either thread */
	CHECK(stat_of("hits") - hits >= ROUNDS * (NAMES - 4));
	end(owner);
}

static void answer_binders(struct client *c, const struct binder_transaction_data *t)
{
	static uint64_t last = 0x1000000;
	/* it is sent with the next exchange */
	static struct parcel reply;
	int i;

	memset(&reply, 0, sizeof(reply));
	for (i = 0; i < EACH; i++)
		put_object(&reply, BINDER_TYPE_BINDER, last += 16);
	reply_to(c, t, 0, &reply);
}

static void serve_binders(const void *unused, int ready)
{
	open_binder(&server, DEVICE, MAP);
	add_service(&server, "binders", 16, CODE_ADD, 0);
	queue_u32(&server, BC_ENTER_LOOPER);
	say_ready(ready);
	serve(&server, answer_binders);
}

/* Makes @c hold @count more references, each to a new binder. */
static void hold(struct client *c, int count)
{
	struct parcel nothing = { 0 };
	uint32_t service;

	CHECK(lookup(c, "binders") == FOUND);
	service = object(c)->handle;
	queue_u32(c, BC_ACQUIRE);
	queue_u32(c, service);
	free_reply(c);
	for (; count > 0; count -= EACH) {
		const binder_size_t *offsets;
		int i;

		CHECK(call(c, service, 1, 0, &nothing) == FOUND);
		offsets = (const void *)(uintptr_t)c->reply.data.ptr.offsets;
		for (i = 0; i < EACH; i++) {
			uint64_t at = c->reply.data.ptr.buffer + offsets[i];

			queue_u32(c, BC_ACQUIRE);
			queue_u32(c, ((const struct flat_binder_object *)(uintptr_t)at)->handle);
		}
		free_reply(c);
	}
}

static void tell_costs(const char *whose)
{
	struct costs costs = cost_of_hits(&client, "plain");

	printf("a hit %s %d references: %llu, at most %llu in 99 of 100 %s\n", whose, MANY,
	       (unsigned long long)costs.p50, (unsigned long long)costs.p99,
	       costs.is_counted ? "instructions" : "ticks");
	if (!costs.is_counted)
		return;
	CHECK(costs.p50 <= 5000);
	CHECK(costs.p99 <= 6000);
}

/* The process that looks up now. */
enum turn { NOBODY, WITH_FEW, WITH_MANY, TURNS };

static volatile enum turn *turn;

static void lookup_in_turn(const void *own, int ready)
{
	struct client c;

	open_binder(&c, DEVICE, MAP);
	hold(&c, *(const enum turn *)own == WITH_MANY ? MANY : FEW);
	say_ready(ready);
	for (;;) {
		while (*turn != *(const enum turn *)own)
			usleep(100);
		lookup(&c, "plain");
		free_reply(&c);
	}
}

static uint64_t now_ns(void)
{
	struct timespec now;

	clock_gettime(CLOCK_MONOTONIC, &now);
	return now.tv_sec * 1000000000ull + now.tv_nsec;
}

#define BLOCKS	20
#define LOOKUPS	200

static int by_time(const void *a, const void *b)
{
	const uint64_t *x = a, *y = b;

	return (*x > *y) - (*x < *y);
}

/* Duration of one process's lookups while another one looks up on the other CPU. */
static void tell_times(void)
{
	static const enum turn turns[] = { WITH_FEW, WITH_MANY };
	static uint64_t ns[TURNS][BLOCKS * LOOKUPS];
	pid_t others[ARRAY_SIZE(turns)];
	int block, i;
	size_t which;

	turn = mmap(NULL, sizeof(*turn), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
	for (which = 0; which < ARRAY_SIZE(turns); which++)
		others[which] = start(lookup_in_turn, &turns[which]);
	for (block = 0; block < BLOCKS; block++) {
		for (which = 0; which < ARRAY_SIZE(turns); which++) {
			*turn = turns[which];
			usleep(10000);
			for (i = 0; i < LOOKUPS; i++) {
				uint64_t before = now_ns();

				CHECK(lookup(&client, "plain") == FOUND);
				free_reply(&client);
				ns[turns[which]][block * LOOKUPS + i] = now_ns() - before;
			}
		}
	}
	*turn = NOBODY;
	for (which = 0; which < ARRAY_SIZE(turns); which++) {
		uint64_t *of = ns[turns[which]];

		end(others[which]);
		qsort(of, BLOCKS * LOOKUPS, sizeof(*of), by_time);
		printf("a lookup beside a process that holds %d references: %llu ns, 99 of 100 at most %llu ns\n",
		       turns[which] == WITH_MANY ? MANY : FEW,
		       (unsigned long long)of[BLOCKS * LOOKUPS / 2],
		       (unsigned long long)of[BLOCKS * LOOKUPS * 99 / 100]);
	}
	CHECK(ns[WITH_MANY][BLOCKS * LOOKUPS / 2] < 2 * ns[WITH_FEW][BLOCKS * LOOKUPS / 2]);
}

void beside_many_references(void)
{
	struct client holder;
	pid_t binders;

	check_name = "beside_many_references";
	set_profile("binder");
	set("mode", cooperative ? "cooperative" : "transparent");
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x10000);
	binders = start(serve_binders, NULL);
	open_binder(&client, DEVICE, MAP);
	open_binder(&holder, DEVICE, MAP);
	hold(&holder, MANY);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	tell_costs("beside a process that holds");
	close_binder(&holder);
	if (sysconf(_SC_NPROCESSORS_ONLN) > 1)
		tell_times();
	hold(&client, MANY);
	tell_costs("of a process that holds");
	close_binder(&client);
	end(binders);
	end(server_pid);
	end(manager_pid);
}
