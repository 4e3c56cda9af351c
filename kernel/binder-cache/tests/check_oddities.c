// SPDX-License-Identifier: GPL-2.0
/* Unusual answers, callers and calls. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

void odd_answers_are_not_kept(void)
{
	struct parcel p;
	long hits;
	int round;

	CHECK(hits_while(NOTHING, "null.one", 3) == 0);
	CHECK(hits_while(NOTHING, "never.registered", 3) == 0);
	CHECK(hits_while(NOTHING, "status.one", 3) == 0);
	CHECK(hits_while(FOUND, "two.one", 3) == 0);
	if (cooperative)
		CHECK(hits_while(FOUND, "unmarked.one", 3) == 0);
	hits = stat_of("hits");
	for (round = 0; round < 3; round++) {
		put_header(&p);
		put_string(&p, "fd.one");
		CHECK(call(&client, 0, CODE_CHECK, TF_ACCEPT_FDS, &p) == FOUND);
		CHECK(object(&client)->hdr.type == BINDER_TYPE_FD);
		close(object(&client)->handle);
		free_reply(&client);
	}
	CHECK(stat_of("hits") == hits);
}

/* Looks up by the call that answers with a union; the bytes must be the same each time. */
static long union_hits_while(const char *name, uint32_t tag, int times)
{
	long before = stat_of("hits");
	uint8_t first[96] = { 0 };
	int round;

	for (round = 0; round < times; round++) {
		const uint8_t *data;

		CHECK(lookup_by(&client, CODE_CHECK_UNION, name) == FOUND);
		CHECK(client.reply.data_size <= sizeof(first));
		data = (const uint8_t *)(uintptr_t)client.reply.data.ptr.buffer;
		if (!round)
			memcpy(first, data, client.reply.data_size);
		CHECK(!memcmp(data + 8, &tag, sizeof(tag)));
		CHECK(!memcmp(data, first, client.reply.data_size));
		free_reply(&client);
	}
	return stat_of("hits") - before;
}

void a_service_in_a_union_is_kept_and_an_accessor_is_not(void)
{
	int handle = handle_of(&client, "plain");

	CHECK(union_hits_while("plain", 0, 4) == 3);
	/* the other call has another answer */
	CHECK(handle_of(&client, "plain") == handle);
	CHECK(union_hits_while("plain", 0, 2) == 2);
	CHECK(union_hits_while("accessor.one", 1, 3) == 0);
	CHECK(union_hits_while("starts.one", 0, 3) == 0);
	CHECK(lookup_by(&client, CODE_CHECK_UNION, "nobody") == NOTHING);
	free_reply(&client);
	CHECK(lookup_by(&client, CODE_CHECK_UNION, "nobody") == NOTHING);
	free_reply(&client);
}

void who_wants_answers_cleared_has_others(void)
{
	struct parcel p;
	int round;
	long hits;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	hits = stat_of("hits");
	put_header(&p);
	put_string(&p, "plain");
	for (round = 0; round < 3; round++) {
		CHECK(call(&client, 0, CODE_CHECK, TF_CLEAR_BUF, &p) == FOUND);
		CHECK(client.reply.flags & TF_CLEAR_BUF);
		free_reply(&client);
	}
	CHECK(stat_of("hits") == hits + 2);
	CHECK(lookup(&client, "plain") == FOUND);
	CHECK(!(client.reply.flags & TF_CLEAR_BUF));
	free_reply(&client);
	CHECK(stat_of("hits") == hits + 3);
}

void an_owner_finds_its_own_binder(void)
{
	long hits;
	int round;

	add_service(&client, "mine", 0x90000, CODE_ADD, 0);
	/* another process with the same rights learns the answer */
	if (!fork()) {
		open_binder(&client, DEVICE, MAP);
		lookup(&client, "mine");
		_exit(0);
	}
	wait(NULL);
	hits = stat_of("hits");
	for (round = 0; round < 3; round++) {
		CHECK(lookup(&client, "mine") == FOUND);
		CHECK(object(&client)->hdr.type == BINDER_TYPE_BINDER);
		CHECK(object(&client)->binder == 0x90000);
		free_reply(&client);
	}
	CHECK(stat_of("hits") == hits);
}

static int answers_that_fit(void)
{
	struct client small;
	int count = 0;

	open_binder(&small, DEVICE, 4096);
	while (count < 1000 && lookup(&small, "plain") == FOUND)
		count++;
	CHECK(small.error == BR_FAILED_REPLY);
	close_binder(&small);
	return count;
}

void a_full_buffer_fails_as_stock(void)
{
	struct binder_transaction_data last = { 0 };
	struct client small;
	int off, on;

	set("mode", "off");
	off = answers_that_fit();
	set("mode", cooperative ? "cooperative" : "transparent");
	if (cooperative) {
		end(manager_pid);
		end(server_pid);
		manager_pid = start_manager(DEVICE);
		server_pid = start_server(DEVICE, 0x50000);
	}
	CHECK(hits_while(FOUND, "plain", 2) == 1);
	on = answers_that_fit();
	CHECK(off == on && off > 10);
	/* the driver keeps a freed answer without reducing its space */
	open_binder(&small, DEVICE, 4096);
	while (lookup(&small, "plain") == FOUND)
		last = small.reply;
	small.reply = last;
	free_reply(&small);
	set("mode", "off");
	CHECK(lookup(&small, "plain") == FOUND);
	close_binder(&small);
}

void a_small_read_gets_its_parts(void)
{
	struct parcel p;
	int size;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	put_header(&p);
	put_string(&p, "plain");
	queue_transaction(&client, BC_TRANSACTION, 0, CODE_CHECK, 0, &p);
	client.completed = false;
	client.reply.data.ptr.buffer = 0;
	size = exchange(&client, 80);
	CHECK(size == 8 && !take(&client, size) && client.completed);
	size = exchange(&client, 80);
	CHECK(size > 8 && take(&client, size));
	CHECK(object(&client)->hdr.type == BINDER_TYPE_HANDLE);
	free_reply(&client);
}

void unread_answers_wait_in_order(void)
{
	struct parcel p;
	int replies = 0, round;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	put_header(&p);
	put_string(&p, "plain");
	for (round = 0; round < 2; round++) {
		queue_transaction(&client, BC_TRANSACTION, 0, CODE_CHECK, 0, &p);
		CHECK(exchange(&client, 0) == 0);
	}
	/* a read may end with a completion alone */
	for (round = 0; round < 3 && replies < 2; round++) {
		int size = exchange(&client, sizeof(client.in));

		if (size > 0 && take(&client, size)) {
			replies += !client.error;
			free_reply(&client);
		}
	}
	CHECK(replies == 2);
}

void a_thread_may_end_without_reading(void)
{
	struct parcel p;
	int round;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	put_header(&p);
	put_string(&p, "plain");
	for (round = 0; round < 10; round++) {
		queue_transaction(&client, BC_TRANSACTION, 0, CODE_CHECK, 0, &p);
		CHECK(exchange(&client, 0) == 0);
		CHECK(!ioctl(client.fd, BINDER_THREAD_EXIT, 0));
	}
	CHECK(hits_while(FOUND, "plain", 2) == 2);
}

void odd_calls_get_stock_errors(void)
{
	struct parcel p;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	/* not mapped */
	put_header(&p);
	queue_u32(&client, BC_TRANSACTION);
	queue(&client, &(struct binder_transaction_data){
		.code = CODE_CHECK, .data_size = p.size, .data.ptr.buffer = 16,
	}, sizeof(struct binder_transaction_data));
	client.error = 0;
	CHECK(take(&client, exchange(&client, sizeof(client.in))));
	CHECK(client.error == BR_FAILED_REPLY);
	/* a name that is longer than the cache keeps */
	put_header(&p);
	memset(p.data + p.size, 0, 600);
	p.size += 600;
	CHECK(call(&client, 0, CODE_CHECK, 0, &p) == NOTHING);
	free_reply(&client);
	/* no memory mapped at all: no space for an answer */
	{
		struct client bare = { .fd = open(DEVICE, O_RDWR | O_CLOEXEC) };

		CHECK(lookup(&bare, "plain") == FAILED);
		close(bare.fd);
	}
	CHECK(hits_while(FOUND, "plain", 2) > 0);
}

void another_format_turns_it_off(void)
{
	char state[32];

	if (cooperative)
		return;
	set("profile", "lookup=1,2 volatile=4 header=00010203");
	CHECK(hits_while(FOUND, "plain", 3) == 0);
	get("state", state, sizeof(state));
	CHECK(!strcmp(state, "refused\n"));
	set_profile("binder");
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

void policies_are_arms(void)
{
	char name[16], text[32];
	int i;

	set("policy", "paper");
	get("capacity", text, sizeof(text));
	CHECK(!strcmp(text, "10\n"));
	for (i = 0; i < 12; i++) {
		struct client owner = client;

		snprintf(name, sizeof(name), "arm.%d", i);
		add_service(&owner, name, 0x90000 + 16 * i, CODE_ADD, 0);
	}
	/* the owner finds its own node, other callers a handle */
	CHECK(hits_while(FOUND, "plain", 4) == 3);
	CHECK(stat_of("entries") <= 10);
	set("policy", "lru");
	set("capacity", "2048");
}

void the_driver_stays(void)
{
	CHECK(syscall(SYS_delete_module, "binder_linux", O_NONBLOCK) == -1);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}
