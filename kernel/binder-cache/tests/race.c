// SPDX-License-Identifier: GPL-2.0
/*
 * Look-ups of several processes against a service that is replaced all the
 * time.  Each service says its number; one that is below the last number whose
 * registration had returned before the look-up began is stale.  Then one that
 * rewrites its question while the driver reads it.
 */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "wire.h"

struct shared {
	uint64_t registered;
	uint64_t look_ups;
	uint64_t stale;
	uint64_t failed;
	bool over;
};

static struct shared *shared;
static struct client server, client;

/* A service's only answer is its own number. */
static void *serve_numbers(void *unused)
{
	struct client c = { .fd = server.fd };

	queue_u32(&c, BC_ENTER_LOOPER);
	for (;;) {
		int size = exchange(&c, sizeof(c.in));
		const uint8_t *at = c.in, *end_of = c.in + size;

		while (at < end_of) {
			struct binder_transaction_data t;
			struct parcel reply = { 0 };
			uint32_t command;

			memcpy(&command, at, sizeof(command));
			at += sizeof(command);
			memcpy(&t, at, sizeof(t));
			if (command == BR_TRANSACTION) {
				memcpy(reply.data, &t.target.ptr, sizeof(t.target.ptr));
				reply.size = sizeof(t.target.ptr);
				queue_free(&c, t.data.ptr.buffer);
				queue_transaction(&c, BC_REPLY, 0, 0, 0, &reply);
			} else if (command == BR_INCREFS || command == BR_ACQUIRE) {
				queue_u32(&c, command == BR_INCREFS ? BC_INCREFS_DONE :
					  BC_ACQUIRE_DONE);
				queue(&c, at, sizeof(struct binder_ptr_cookie));
			}
			at += _IOC_SIZE(command);
		}
	}
	return unused;
}

static void replace_for_ever(void)
{
	pthread_t thread;
	uint64_t number;

	open_binder(&server, DEVICE, 1 << 20);
	pthread_create(&thread, NULL, serve_numbers, NULL);
	for (number = 1; !shared->over; number++) {
		/* numbers are addresses to binder: far apart, never 0 */
		if (add_service(&server, "racer", number << 4, CODE_ADD, 0) == FAILED)
			break;
		__atomic_store_n(&shared->registered, number, __ATOMIC_SEQ_CST);
		usleep(200);
	}
	_exit(0);
}

static void look_up_for_ever(uint64_t times)
{
	struct parcel p = { 0 };

	open_binder(&client, DEVICE, MAP);
	while (times--) {
		uint64_t floor = __atomic_load_n(&shared->registered, __ATOMIC_SEQ_CST);
		uint64_t number = 0;
		uint32_t handle;

		if (look_up(&client, "racer") != FOUND) {
			__atomic_add_fetch(&shared->failed, 1, __ATOMIC_RELAXED);
			continue;
		}
		handle = object(&client)->handle;
		queue_u32(&client, BC_ACQUIRE);
		queue_u32(&client, handle);
		free_reply(&client);
		call(&client, handle, 1, 0, &p);
		if (client.reply.data_size == sizeof(number))
			memcpy(&number, (void *)(uintptr_t)client.reply.data.ptr.buffer,
			       sizeof(number));
		if (number >> 4 < floor)
			__atomic_add_fetch(&shared->stale, 1, __ATOMIC_RELAXED);
		free_reply(&client);
		queue_u32(&client, BC_RELEASE);
		queue_u32(&client, handle);
		exchange(&client, 0);
		__atomic_add_fetch(&shared->look_ups, 1, __ATOMIC_RELAXED);
	}
	_exit(0);
}

bool no_stale_answer(uint64_t look_ups)
{
	pid_t manager, replacer, clients[4];
	long hits = stat_of("hits");
	size_t i;

	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	set_profile("binder");
	set("mode", cooperative ? "cooperative" : "transparent");
	manager = start_manager(DEVICE);
	replacer = fork();
	if (!replacer)
		replace_for_ever();
	while (!shared->registered)
		usleep(1000);
	for (i = 0; i < 4; i++) {
		clients[i] = fork();
		if (!clients[i])
			look_up_for_ever(look_ups / 4);
	}
	for (i = 0; i < 4; i++)
		waitpid(clients[i], NULL, 0);
	shared->over = true;
	waitpid(replacer, NULL, 0);
	end(manager);
	printf("race (%s): %llu look-ups, %ld hits, %llu replacements, %llu failed, %llu stale\n",
	       cooperative ? "cooperative" : "transparent",
	       (unsigned long long)shared->look_ups, stat_of("hits") - hits,
	       (unsigned long long)shared->registered, (unsigned long long)shared->failed,
	       (unsigned long long)shared->stale);
	return !shared->stale && !shared->failed && stat_of("hits") > hits;
}

#define GOOD	0x10
#define EVIL	0x20

static struct parcel flipping;
static size_t name_at;

static void serve_two(void)
{
	pthread_t thread;

	open_binder(&server, DEVICE, MAP);
	pthread_create(&thread, NULL, serve_numbers, NULL);
	add_service(&server, "forge.good", GOOD, CODE_ADD, 0);
	add_service(&server, "forge.evil", EVIL, CODE_ADD, 0);
	__atomic_store_n(&shared->registered, 1, __ATOMIC_SEQ_CST);
	for (;;)
		pause();
}

/* Writes one name over the other while the driver reads. */
static void *flip(void *unused)
{
	struct parcel good = { 0 }, evil = { 0 };

	put_string(&good, "forge.good");
	put_string(&evil, "forge.evil");
	while (!__atomic_load_n(&shared->over, __ATOMIC_RELAXED)) {
		memcpy(flipping.data + name_at, evil.data, evil.size);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
		memcpy(flipping.data + name_at, good.data, good.size);
		__atomic_signal_fence(__ATOMIC_SEQ_CST);
	}
	return unused;
}

static uint64_t number_of(struct client *c, const char *name)
{
	struct parcel p = { 0 };
	uint64_t number = 0;
	uint32_t handle;

	if (look_up(c, name) != FOUND)
		return 0;
	handle = object(c)->handle;
	queue_u32(c, BC_ACQUIRE);
	queue_u32(c, handle);
	free_reply(c);
	call(c, handle, 1, 0, &p);
	if (c->reply.data_size == sizeof(number))
		memcpy(&number, (void *)(uintptr_t)c->reply.data.ptr.buffer, sizeof(number));
	free_reply(c);
	queue_u32(c, BC_RELEASE);
	queue_u32(c, handle);
	exchange(c, 0);
	return number;
}

bool no_forged_answer(uint64_t rounds)
{
	uint64_t round, forged = 0;
	struct client forger;
	pid_t manager, two;
	pthread_t thread;

	memset(shared, 0, sizeof(*shared));
	manager = start_manager(DEVICE);
	two = fork();
	if (!two)
		serve_two();
	while (!__atomic_load_n(&shared->registered, __ATOMIC_SEQ_CST))
		usleep(1000);
	put_header(&flipping);
	name_at = flipping.size;
	put_string(&flipping, "forge.good");
	open_binder(&forger, DEVICE, MAP);
	open_binder(&client, DEVICE, MAP);
	pthread_create(&thread, NULL, flip, NULL);
	for (round = 0; round < rounds; round++) {
		set("flush", "1");
		call(&forger, 0, CODE_CHECK, 0, &flipping);
		free_reply(&forger);
		forged += number_of(&client, "forge.good") != GOOD;
	}
	shared->over = true;
	pthread_join(thread, NULL);
	close_binder(&client);
	close_binder(&forger);
	end(two);
	end(manager);
	printf("forger (%s): %llu rounds, %llu forged\n",
	       cooperative ? "cooperative" : "transparent",
	       (unsigned long long)rounds, (unsigned long long)forged);
	return !forged;
}
