// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups of two processes, each with two threads, against a service that is replaced
 * all the time, whose process is killed and started again, while a process tries to
 * unload the driver.
 * Each service answers with its number; a number below the last one whose
 * registration had returned before the lookup began is stale.  Then a client that
 * rewrites its question while the driver reads it.
 */

#define _GNU_SOURCE
#include <fcntl.h>
#include <pthread.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "wire.h"

/* Registrations before a service's process is killed. */
#define LIFE	20
/* Lookups that find a service before it is replaced, unless that takes too long. */
#define LOOKUPS	32
#define LOOKUPS_US	20000
/* Lookups before one of the service that is never replaced. */
#define STEADY		4

struct shared {
	uint64_t last_number;
	uint64_t registered;
	/* of the service's process: now, at the last registration, at its last end */
	uint64_t life;
	uint64_t begun;
	uint64_t over_with;
	/* that were answered */
	uint64_t lookups;
	/* that found a dead service, or none, around its death */
	uint64_t bereaved;
	uint64_t stale;
	uint64_t failed;
	uint64_t unloaded;
	bool over;
};

static struct shared *shared;
static struct client server, client;

/* A service's only answer is its own number. */
static void answer_number(struct client *c, const struct binder_transaction_data *t)
{
	struct parcel reply = { .size = sizeof(t->target.ptr) };

	memcpy(reply.data, &t->target.ptr, sizeof(t->target.ptr));
	reply_to(c, t, 0, &reply);
}

static void *serve_numbers(void *unused)
{
	struct client c = { .fd = server.fd };

	queue_u32(&c, BC_ENTER_LOOPER);
	serve(&c, answer_number);
	return unused;
}

/* Most of the racing calls are lookups, however slow the kernel is. */
static void wait_for_lookups(void)
{
	uint64_t until = __atomic_load_n(&shared->lookups, __ATOMIC_RELAXED) + LOOKUPS;
	int us;

	for (us = 0; us < LOOKUPS_US && !shared->over; us += 200) {
		usleep(200);
		if (__atomic_load_n(&shared->lookups, __ATOMIC_RELAXED) >= until)
			return;
	}
}

static void replace_for_a_life(void)
{
	uint64_t life = shared->life;
	pthread_t thread;
	int i;

	open_binder(&server, DEVICE, 1 << 20);
	pthread_create(&thread, NULL, serve_numbers, NULL);
	for (i = 0; i < LIFE && !shared->over; i++) {
		uint64_t number = ++shared->last_number;

		/* binder uses numbers as addresses: far apart, never 0 */
		if (add_service(&server, "racer", number << 4, CODE_ADD, 0) == FAILED)
			_exit(1);
		__atomic_store_n(&shared->registered, number, __ATOMIC_SEQ_CST);
		__atomic_store_n(&shared->begun, life, __ATOMIC_SEQ_CST);
		wait_for_lookups();
	}
	/* the manager could complete a registration in progress at any time */
	shared->over_with = life;
	for (;;)
		pause();
}

static bool is_bereaved(void)
{
	return __atomic_load_n(&shared->begun, __ATOMIC_SEQ_CST) !=
	       __atomic_load_n(&shared->life, __ATOMIC_SEQ_CST);
}

/* Kills and restarts the service's process in a loop; the driver stays loaded. */
static void kill_for_ever(void)
{
	while (!shared->over) {
		pid_t pid = fork();

		if (!pid)
			replace_for_a_life();
		while (shared->over_with != shared->life && !waitpid(pid, NULL, WNOHANG))
			usleep(100);
		shared->unloaded += !syscall(SYS_delete_module, "binder_linux", O_NONBLOCK);
		__atomic_add_fetch(&shared->life, 1, __ATOMIC_SEQ_CST);
		kill(pid, SIGKILL);
		waitpid(pid, NULL, 0);
	}
	_exit(0);
}

/* Makes the next exchange free what was received. */
static void free_later(struct client *c)
{
	if (c->reply.data.ptr.buffer)
		queue_free(c, c->reply.data.ptr.buffer);
	c->reply.data.ptr.buffer = 0;
}

/* The number that the service answers with; 0: it is dead. */
static uint64_t ask(struct client *c, uint32_t handle)
{
	struct parcel p = { 0 };
	uint64_t number = 0;

	call(c, handle, 1, 0, &p);
	if (!c->error && c->reply.data_size == sizeof(number))
		memcpy(&number, (void *)(uintptr_t)c->reply.data.ptr.buffer, sizeof(number));
	free_later(c);
	return number;
}

/*
 * The number of the found service.  While a service is held its handle is not
 * reused, so only a new handle needs a call.
 */
static uint64_t find(struct client *c, uint32_t *held, uint64_t *number)
{
	uint32_t handle = lookup(c, "racer") == FOUND ? object(c)->handle : 0;

	if (handle && handle == *held) {
		free_later(c);
		return *number;
	}
	if (*held) {
		queue_u32(c, BC_RELEASE);
		queue_u32(c, *held);
	}
	if (handle) {
		queue_u32(c, BC_ACQUIRE);
		queue_u32(c, handle);
	}
	free_later(c);
	*held = handle;
	*number = handle ? ask(c, handle) : 0;
	return *number;
}

/*
 * A service that is never replaced: the reference to it is freed each time, and both
 * threads of a process may get the one that the driver keeps.
 */
static void find_steady(struct client *c)
{
	if (lookup(c, "plain") != FOUND)
		__atomic_add_fetch(&shared->failed, 1, __ATOMIC_RELAXED);
	free_later(c);
}

static void *lookup_many(void *lookups)
{
	struct client c = { .fd = client.fd };
	uint64_t times = *(uint64_t *)lookups, number = 0;
	uint32_t held = 0;

	while (times) {
		uint64_t life = __atomic_load_n(&shared->life, __ATOMIC_SEQ_CST);
		bool bereaved = is_bereaved();
		uint64_t floor = __atomic_load_n(&shared->registered, __ATOMIC_SEQ_CST);

		if (find(&c, &held, &number)) {
			if (number >> 4 < floor)
				__atomic_add_fetch(&shared->stale, 1, __ATOMIC_RELAXED);
			__atomic_add_fetch(&shared->lookups, 1, __ATOMIC_RELAXED);
			if (!(--times % STEADY))
				find_steady(&c);
			continue;
		}
		if (__atomic_load_n(&shared->life, __ATOMIC_SEQ_CST) != life)
			bereaved = true;
		__atomic_add_fetch(bereaved ? &shared->bereaved : &shared->failed, 1,
				   __ATOMIC_RELAXED);
		usleep(100);
	}
	return lookups;
}

static void lookup_for_ever(uint64_t times)
{
	uint64_t each = times / 2;
	pthread_t thread;

	open_binder(&client, DEVICE, MAP);
	pthread_create(&thread, NULL, lookup_many, &each);
	lookup_many(&each);
	pthread_join(thread, NULL);
	_exit(0);
}

static void prepare(void)
{
	shared = mmap(NULL, sizeof(*shared), PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS,
		      -1, 0);
	set_profile("binder");
	set("mode", cooperative ? "cooperative" : "transparent");
}

bool no_stale_answer(uint64_t lookups)
{
	pid_t manager, steady, killer, clients[2];
	long hits = stat_of("hits");
	size_t i;

	prepare();
	shared->life = 1;
	manager = start_manager(DEVICE);
	/* far from the numbers of the service that is replaced */
	steady = start_server(DEVICE, 1ull << 40);
	killer = fork();
	if (!killer)
		kill_for_ever();
	while (is_bereaved())
		usleep(1000);
	for (i = 0; i < ARRAY_SIZE(clients); i++) {
		clients[i] = fork();
		if (!clients[i])
			lookup_for_ever(lookups / ARRAY_SIZE(clients));
	}
	for (i = 0; i < ARRAY_SIZE(clients); i++)
		waitpid(clients[i], NULL, 0);
	shared->over = true;
	waitpid(killer, NULL, 0);
	end(steady);
	end(manager);
	hits = stat_of("hits") - hits;
	printf("race (%s): %llu lookups, %ld hits, %llu replacements, %llu deaths, "
	       "%llu bereaved, %llu failed, %llu stale, %llu unloaded\n",
	       cooperative ? "cooperative" : "transparent",
	       (unsigned long long)shared->lookups, hits,
	       (unsigned long long)shared->last_number, (unsigned long long)shared->life - 1,
	       (unsigned long long)shared->bereaved, (unsigned long long)shared->failed,
	       (unsigned long long)shared->stale, (unsigned long long)shared->unloaded);
	return shared->lookups == lookups / 4 * 4 && !shared->stale && !shared->failed &&
	       !shared->unloaded && hits > 0;
}

#define GOOD	0x10
#define EVIL	0x20

static struct parcel flipping;
static size_t name_at;

static void serve_two(const void *unused, int ready)
{
	pthread_t thread;

	open_binder(&server, DEVICE, MAP);
	pthread_create(&thread, NULL, serve_numbers, NULL);
	add_service(&server, "forge.good", GOOD, CODE_ADD, 0);
	add_service(&server, "forge.evil", EVIL, CODE_ADD, 0);
	say_ready(ready);
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
	uint64_t number;
	uint32_t handle;

	if (lookup(c, name) != FOUND)
		return 0;
	handle = object(c)->handle;
	queue_u32(c, BC_ACQUIRE);
	queue_u32(c, handle);
	free_later(c);
	number = ask(c, handle);
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
	two = start(serve_two, NULL);
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

/* Spins for up to some microseconds, which vary between rounds. */
static void wait_a_little(uint64_t round)
{
	volatile uint32_t spins = (uint32_t)round * 0x9e3779b1u >> 20;

	while (spins)
		spins--;
}

static void *count_references(void *unused)
{
	struct client counter = { .fd = client.fd };
	uint64_t round = 0;
	struct parcel p;

	put_header(&p);
	put_string(&p, "lazy.one");
	while (!__atomic_load_n(&shared->over, __ATOMIC_RELAXED)) {
		/* the other thread numbers the rounds */
		if (__atomic_load_n(&shared->begun, __ATOMIC_ACQUIRE) == round) {
			sched_yield();
			continue;
		}
		wait_a_little(++round);
		call(&counter, 0, CODE_COUNT, 0, &p);
		free_reply(&counter);
		__atomic_store_n(&shared->life, round, __ATOMIC_RELEASE);
	}
	return unused;
}

/*
 * One thread of the manager counts a service's references, as for a lazy service,
 * while another answers with it.  After both, the cache has no answer.
 */
bool no_lazy_service_is_kept(uint64_t rounds)
{
	uint64_t round, failed = 0;
	struct client owner;
	pthread_t thread;
	pid_t manager;
	long hits;

	prepare();
	manager = start_manager(DEVICE);
	open_binder(&owner, DEVICE, MAP);
	open_binder(&client, DEVICE, MAP);
	pthread_create(&thread, NULL, count_references, NULL);
	hits = stat_of("hits");
	for (round = 1; round <= rounds; round++) {
		/* binder uses numbers as addresses: each round has its own service */
		failed += add_service(&owner, "lazy.one", round << 4, CODE_ADD, 0) == FAILED;
		__atomic_store_n(&shared->begun, round, __ATOMIC_RELEASE);
		wait_a_little(round * round);
		failed += lookup(&client, "lazy.one") != FOUND;
		free_reply(&client);
		while (__atomic_load_n(&shared->life, __ATOMIC_ACQUIRE) != round)
			sched_yield();
		failed += lookup(&client, "lazy.one") != FOUND;
		free_reply(&client);
	}
	hits = stat_of("hits") - hits;
	shared->over = true;
	pthread_join(thread, NULL);
	close_binder(&client);
	close_binder(&owner);
	end(manager);
	printf("lazy (%s): %llu rounds, %ld kept, %llu failed\n",
	       cooperative ? "cooperative" : "transparent", (unsigned long long)rounds, hits,
	       (unsigned long long)failed);
	return !hits && !failed;
}
