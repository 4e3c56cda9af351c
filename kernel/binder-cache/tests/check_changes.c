// SPDX-License-Identifier: GPL-2.0
/* Changes are forgotten: registrations, deaths, lazy services. */

#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

void a_replaced_service_is_never_found_again(void)
{
	int before = handle_of(&client, "plain"), round;
	struct client owner;

	open_binder(&owner, DEVICE, MAP);
	for (round = 0; round < 20; round++) {
		int held, now;

		/* the old service is held, so its handle cannot be given to the new one */
		CHECK(lookup(&client, "plain") == FOUND);
		held = object(&client)->handle;
		queue_u32(&client, BC_ACQUIRE);
		queue_u32(&client, held);
		free_reply(&client);
		CHECK(hits_while(FOUND, "plain", 2) == 2 || round == 0);
		add_service(&owner, "plain", 0x90000 + 16 * round, CODE_ADD, 0);
		now = handle_of(&client, "plain");
		CHECK(now >= 0 && now != held);
		CHECK(handle_of(&client, "plain") == now);
		queue_u32(&client, BC_RELEASE);
		queue_u32(&client, held);
		exchange(&client, 0);
	}
	CHECK(before >= 0);
	close_binder(&owner);
}

/* One thread of the manager still answers with the state at the time of the question. */
void an_answer_under_way_is_not_learnt(void)
{
	int held, now;
	struct client owner;
	pid_t pid;

	CHECK(lookup(&client, "slow.one") == FOUND);
	held = object(&client)->handle;
	queue_u32(&client, BC_ACQUIRE);
	queue_u32(&client, held);
	free_reply(&client);
	set("flush", "1");
	pid = fork();
	if (!pid) {
		open_binder(&client, DEVICE, MAP);
		lookup(&client, "slow.one");
		_exit(0);
	}
	usleep(20000);
	open_binder(&owner, DEVICE, MAP);
	add_service(&owner, "slow.one", 0x90000, CODE_ADD, 0);
	waitpid(pid, NULL, 0);
	now = handle_of(&client, "slow.one");
	CHECK(now >= 0 && now != held);
	close_binder(&owner);
}

void a_one_way_change_lasts_until_the_manager_is_done(void)
{
	int held, now, round, wait_ms;
	struct client owner;

	if (cooperative)
		return;
	CHECK(lookup(&client, "held.one") == FOUND);
	held = object(&client)->handle;
	queue_u32(&client, BC_ACQUIRE);
	queue_u32(&client, held);
	free_reply(&client);
	open_binder(&owner, DEVICE, MAP);
	add_service(&owner, "held.one", 0x90000, CODE_ADD_LATER, TF_ONE_WAY);
	/* before the manager receives it, other threads of it answer with the old service */
	for (round = 0; round < 5; round++)
		handle_of(&client, "held.one");
	for (now = held, wait_ms = 0; now == held && wait_ms < 10000; wait_ms += 10) {
		usleep(10000);
		now = handle_of(&client, "held.one");
	}
	CHECK(now >= 0 && now != held);
	/* and it ends when the manager frees its buffer */
	for (; !hits_while(FOUND, "held.one", 1) && wait_ms < 10000; wait_ms += 10)
		usleep(10000);
	CHECK(hits_while(FOUND, "held.one", 2) == 2);
	close_binder(&owner);
}

void a_dead_service_is_not_given_out(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	end(server_pid);
	CHECK(stat_of("entries") == 0);
	CHECK(hits_while(FOUND, "plain", 2) == 0);
	server_pid = start_server(DEVICE, 0x50000);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

void a_dead_manager_is_not_spoken_for(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	end(manager_pid);
	CHECK(stat_of("entries") == 0);
	CHECK(lookup(&client, "plain") == FAILED && client.error == BR_DEAD_REPLY);
	manager_pid = start_manager(DEVICE);
	CHECK(hits_while(NOTHING, "plain", 2) == 0);
	end(server_pid);
	server_pid = start_server(DEVICE, 0x50000);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

static uint32_t count_of(const char *name)
{
	uint32_t count = -1;
	struct parcel p;

	put_header(&p);
	put_string(&p, name);
	call(&client, 0, CODE_COUNT, 0, &p);
	memcpy(&count, (uint8_t *)(uintptr_t)client.reply.data.ptr.buffer + 4, sizeof(count));
	free_reply(&client);
	return count;
}

void the_manager_counts_what_stock_counts(void)
{
	uint32_t off, on;

	set("mode", "off");
	hits_while(FOUND, "plain", 5);
	off = count_of("plain");
	/* a new process: a service whose references were counted stays lazy */
	end(server_pid);
	end(manager_pid);
	set("mode", cooperative ? "cooperative" : "transparent");
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x50000);
	CHECK(hits_while(FOUND, "plain", 5) == 4);
	on = count_of("plain");
	CHECK(on == off);
}

void a_lazy_service_is_not_kept(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	CHECK(count_of("plain") > 0);
	CHECK(hits_while(FOUND, "plain", 3) == 0);
	CHECK(hits_while(FOUND, "plain.2", 3) == 2);
}

void a_service_that_wants_to_know_its_clients_is_not_kept(void)
{
	struct client owner;

	if (cooperative)
		return;
	open_binder(&owner, DEVICE, MAP);
	add_service(&owner, "lazy.two", 0x90000, CODE_ADD, 0);
	CHECK(hits_while(FOUND, "lazy.two", 3) == 2);
	add_service(&owner, "lazy.two", 0x90000, CODE_CLIENTS, 0);
	CHECK(hits_while(FOUND, "lazy.two", 3) == 0);
	close_binder(&owner);
}

/* Reports when its registration, which takes some time, has returned. */
static void register_later(const void *name, int ready)
{
	struct client owner;

	open_binder(&owner, DEVICE, MAP);
	add_service(&owner, name, 0x90000, CODE_ADD_LATER, 0);
	say_ready(ready);
	for (;;)
		pause();
}

/* Another thread of the manager answers with the old state meanwhile. */
static void *turn_on_and_lookup(void *unused)
{
	usleep(20000);
	set("mode", "transparent");
	handle_of(&client, "held.one");
	return unused;
}

void a_registration_older_than_the_cache_counts(void)
{
	pthread_t thread;
	int held, now;
	pid_t owner;

	if (cooperative)
		return;
	set("mode", "off");
	CHECK(lookup(&client, "held.one") == FOUND);
	held = object(&client)->handle;
	queue_u32(&client, BC_ACQUIRE);
	queue_u32(&client, held);
	free_reply(&client);
	pthread_create(&thread, NULL, turn_on_and_lookup, NULL);
	owner = start(register_later, "held.one");
	pthread_join(thread, NULL);
	now = handle_of(&client, "held.one");
	CHECK(now >= 0 && now != held);
	end(owner);
}

/* An answer from the cache is freed with the cache off, and the other way round. */
void turned_off_and_on_it_confuses_no_answers(void)
{
	struct binder_transaction_data hit;
	struct parcel nothing = { 0 };
	uint32_t handle;

	if (cooperative)
		return;
	CHECK(hits_while(FOUND, "plain", 2) == 1);
	CHECK(lookup(&client, "plain") == FOUND);
	hit = client.reply;
	set("mode", "off");
	free_reply(&client);
	/* two objects in the hit's buffer: disabled hooks have not kept it */
	CHECK(lookup(&client, "two.one") == FOUND);
	CHECK(client.reply.data.ptr.buffer == hit.data.ptr.buffer);
	handle = object(&client)->handle;
	set("mode", "transparent");
	free_reply(&client);
	/* both references are dropped with it, so the handle refers to nothing */
	CHECK(call(&client, handle, 1, TF_ONE_WAY, &nothing) == FAILED);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

void one_name_can_be_flushed(void)
{
	struct parcel p;

	if (!cooperative)
		return;
	CHECK(hits_while(FOUND, "plain", 2) == 1);
	CHECK(hits_while(FOUND, "plain.2", 2) == 1);
	put_header(&p);
	put_string(&p, "plain");
	call(&client, 0, CODE_FLUSH, 0, &p);
	free_reply(&client);
	CHECK(hits_while(FOUND, "plain.2", 1) == 1);
	CHECK(hits_while(FOUND, "plain", 2) == 1);
}
