// SPDX-License-Identifier: GPL-2.0
/*
 * What must not happen with the cache on, in a guest whose driver has it:
 *
 *	hazards			every check, in both modes
 *	hazards race LOOK_UPS	look-ups of several processes against a service
 *				that is replaced all the time
 *
 * Each check has a manager and a process with services of its own.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../binder_cache.h"
#include "guest.h"
#include "wire.h"

static const char *check_name;
static int failures;
static pid_t manager_pid, server_pid;
static struct client client;

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			printf("not ok %s (%s), line %d: %s\n", check_name,	\
			       cooperative ? "cooperative" : "transparent",	\
			       __LINE__, #condition);				\
			failures++;						\
		}								\
	} while (0)

static long hits_while(enum found expected, const char *name, int times)
{
	long before = stat_of("hits");

	while (times--) {
		CHECK(look_up(&client, name) == expected);
		free_reply(&client);
	}
	return stat_of("hits") - before;
}

/* Runs @body as another user with a descriptor of its own; its failures count. */
static void as_user(uid_t uid, void (*body)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		failures = 0;
		if (setresuid(uid, uid, uid))
			_exit(99);
		open_binder(&client, DEVICE, MAP);
		body();
		fflush(stdout);
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	failures += WEXITSTATUS(status);
}

/* ---- checks ---- */

static void a_hit_is_what_the_manager_said(void)
{
	struct binder_transaction_data first;
	uint8_t data[256];
	uint32_t handle;
	long hits;

	CHECK(look_up(&client, "plain") == FOUND);
	first = client.reply;
	memcpy(data, (void *)(uintptr_t)first.data.ptr.buffer, first.data_size);
	handle = object(&client)->handle;
	hits = stat_of("hits");
	/* the first answer is kept, so the buffer is another one */
	CHECK(look_up(&client, "plain") == FOUND);
	CHECK(stat_of("hits") == hits + 1);
	CHECK(client.completed);
	CHECK(client.reply.data_size == first.data_size);
	CHECK(client.reply.offsets_size == first.offsets_size);
	CHECK(client.reply.flags == first.flags && client.reply.code == first.code);
	CHECK(client.reply.sender_euid == first.sender_euid);
	CHECK(client.reply.sender_pid == first.sender_pid);
	CHECK(object(&client)->handle == handle);
	CHECK(!memcmp(data, (void *)(uintptr_t)client.reply.data.ptr.buffer, first.data_size));
	free_reply(&client);
	client.reply = first;
	free_reply(&client);
	CHECK(hits_while(FOUND, "plain", 50) == 50);
}

static void secret_is_refused(void)
{
	CHECK(hits_while(NOTHING, "secret.key", 3) == 0);
}

static void what_one_may_have_another_may_not(void)
{
	CHECK(hits_while(FOUND, "secret.key", 3) == 2);
	as_user(1000, secret_is_refused);
	CHECK(hits_while(FOUND, "secret.key", 1) == 1);
}

/* The manager is told who the process is now, not who opened the device. */
static void who_changes_user_is_another(void)
{
	CHECK(hits_while(FOUND, "secret.key", 3) == 2);
	CHECK(!setresuid(-1, 1000, -1));
	CHECK(look_up(&client, "secret.key") == NOTHING);
	free_reply(&client);
	CHECK(!setresuid(-1, 0, -1));
	CHECK(look_up(&client, "secret.key") == FOUND);
	free_reply(&client);
}

static void isolated_is_asked_for(void)
{
	CHECK(hits_while(FOUND, "plain", 2) == (cooperative ? 0 : 1));
}

static void plain_is_shared(void)
{
	CHECK(hits_while(FOUND, "plain", 2) == (cooperative ? 2 : 1));
}

static void scopes_are_kept(void)
{
	hits_while(FOUND, "plain", 2);
	as_user(10001, plain_is_shared);
	as_user(99001, isolated_is_asked_for);
}

static void a_replaced_service_is_never_found_again(void)
{
	int before = handle_of(&client, "plain"), round;
	struct client owner;

	open_binder(&owner, DEVICE, MAP);
	for (round = 0; round < 20; round++) {
		int held, now;

		/* holding the old one, its handle cannot be given to the new one */
		CHECK(look_up(&client, "plain") == FOUND);
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

/* One thread of the manager still says what was true when it was asked. */
static void an_answer_under_way_is_not_learnt(void)
{
	int held, now;
	struct client owner;
	pid_t pid;

	CHECK(look_up(&client, "slow.one") == FOUND);
	held = object(&client)->handle;
	queue_u32(&client, BC_ACQUIRE);
	queue_u32(&client, held);
	free_reply(&client);
	set("flush", "1");
	pid = fork();
	if (!pid) {
		open_binder(&client, DEVICE, MAP);
		look_up(&client, "slow.one");
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

static void a_one_way_change_lasts_until_the_manager_is_done(void)
{
	int held, now, round;
	struct client owner;

	if (cooperative)
		return;
	CHECK(look_up(&client, "held.one") == FOUND);
	held = object(&client)->handle;
	queue_u32(&client, BC_ACQUIRE);
	queue_u32(&client, held);
	free_reply(&client);
	open_binder(&owner, DEVICE, MAP);
	add_service(&owner, "held.one", 0x90000, CODE_ADD_LATER, TF_ONE_WAY);
	/* before the manager gets to it, other threads of it say the old one */
	for (round = 0; round < 5; round++)
		handle_of(&client, "held.one");
	usleep(200000);
	now = handle_of(&client, "held.one");
	CHECK(now >= 0 && now != held);
	CHECK(hits_while(FOUND, "held.one", 2) == 2);
	close_binder(&owner);
}

static void a_dead_service_is_not_given_out(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	end(server_pid);
	CHECK(stat_of("entries") == 0);
	CHECK(hits_while(FOUND, "plain", 2) == 0);
	server_pid = start_server(DEVICE, 0x50000);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

static void a_dead_manager_is_not_spoken_for(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	end(manager_pid);
	CHECK(stat_of("entries") == 0);
	CHECK(look_up(&client, "plain") == FAILED && client.error == BR_DEAD_REPLY);
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

static void the_manager_counts_what_stock_counts(void)
{
	uint32_t off, on;

	set("mode", "off");
	hits_while(FOUND, "plain", 5);
	off = count_of("plain");
	/* a fresh one: whose references were counted is lazy for good */
	end(server_pid);
	end(manager_pid);
	set("mode", cooperative ? "cooperative" : "transparent");
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x50000);
	CHECK(hits_while(FOUND, "plain", 5) == 4);
	on = count_of("plain");
	CHECK(on == off);
}

static void a_lazy_service_is_not_kept(void)
{
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	CHECK(count_of("plain") > 0);
	CHECK(hits_while(FOUND, "plain", 3) == 0);
	CHECK(hits_while(FOUND, "plain.2", 3) == 2);
}

static void a_service_that_wants_to_know_its_clients_is_not_kept(void)
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

static void odd_answers_are_not_kept(void)
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

static void an_owner_finds_its_own_binder(void)
{
	long hits;
	int round;

	add_service(&client, "mine", 0x90000, CODE_ADD, 0);
	/* another process with the same rights learns the answer */
	if (!fork()) {
		open_binder(&client, DEVICE, MAP);
		look_up(&client, "mine");
		_exit(0);
	}
	wait(NULL);
	hits = stat_of("hits");
	for (round = 0; round < 3; round++) {
		CHECK(look_up(&client, "mine") == FOUND);
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
	while (count < 1000 && look_up(&small, "plain") == FOUND)
		count++;
	CHECK(small.error == BR_FAILED_REPLY);
	close_binder(&small);
	return count;
}

static void a_full_buffer_fails_as_stock(void)
{
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
}

static void a_small_read_gets_its_parts(void)
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

static void unread_answers_wait_in_order(void)
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

static void a_thread_may_end_without_reading(void)
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

static void odd_calls_get_stock_errors(void)
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
	/* a name that is longer than anything that is kept */
	put_header(&p);
	memset(p.data + p.size, 0, 600);
	p.size += 600;
	CHECK(call(&client, 0, CODE_CHECK, 0, &p) == NOTHING);
	free_reply(&client);
	/* no memory mapped at all: no room for an answer */
	{
		struct client bare = { .fd = open(DEVICE, O_RDWR | O_CLOEXEC) };

		CHECK(look_up(&bare, "plain") == FAILED);
		close(bare.fd);
	}
	CHECK(hits_while(FOUND, "plain", 2) > 0);
}

static void contexts_know_nothing_of_each_other(void)
{
	pid_t other_manager, other_server;
	struct client other;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	set_profile("hwbinder");
	set_in("hwbinder", "mode", cooperative ? "cooperative" : "transparent");
	other_manager = start_manager("/dev/hwbinder");
	open_binder(&other, "/dev/hwbinder", MAP);
	CHECK(look_up(&other, "plain") == NOTHING);
	free_reply(&other);
	other_server = start_server("/dev/hwbinder", 0x70000);
	CHECK(look_up(&other, "plain") == FOUND);
	free_reply(&other);
	/* a change there is none here */
	CHECK(hits_while(FOUND, "plain", 2) == 2);
	close_binder(&other);
	end(other_server);
	end(other_manager);
	CHECK(hits_while(FOUND, "plain", 2) == 2);
}

static void another_format_turns_it_off(void)
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

static void no_user_takes_all_memory(void)
{
	set("uid_limit_bytes", "600");
	set("flush", "1");
	CHECK(hits_while(FOUND, "plain", 2) == 1);
	hits_while(FOUND, "exact.one", 2);
	hits_while(FOUND, "label.one", 2);
	CHECK(stat_of("refused_limit") > 0);
	CHECK(stat_of("bytes") <= 600);
	set("uid_limit_bytes", "65536");
}

static void only_the_manager_opts_in(void)
{
	struct binder_cache_profile profile = { .lookup_codes = 2 };
	struct binder_cache_flush flush = { 0 };

	CHECK(ioctl(client.fd, BINDER_CACHE_OPT_IN, &profile) == -1 && errno == EPERM);
	CHECK(ioctl(client.fd, BINDER_CACHE_FLUSH, &flush) == -1 && errno == EPERM);
	profile.header_size = BINDER_CACHE_HEADER_MAX + 1;
	CHECK(ioctl(client.fd, BINDER_CACHE_OPT_IN, &profile) == -1 && errno == EINVAL);
}

static void one_name_can_be_flushed(void)
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

static void policies_are_arms(void)
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
	/* the owner finds its own: others ask */
	CHECK(hits_while(FOUND, "plain", 4) == 3);
	CHECK(stat_of("entries") <= 10);
	set("policy", "lru");
	set("capacity", "2048");
}

static void the_driver_stays(void)
{
	CHECK(syscall(SYS_delete_module, "binder_linux", O_NONBLOCK) == -1);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}

#define ENTRY(check) { #check, check }

static const struct {
	const char *name;
	void (*run)(void);
} checks[] = {
	ENTRY(a_hit_is_what_the_manager_said),
	ENTRY(what_one_may_have_another_may_not),
	ENTRY(who_changes_user_is_another),
	ENTRY(scopes_are_kept),
	ENTRY(a_replaced_service_is_never_found_again),
	ENTRY(an_answer_under_way_is_not_learnt),
	ENTRY(a_one_way_change_lasts_until_the_manager_is_done),
	ENTRY(a_dead_service_is_not_given_out),
	ENTRY(a_dead_manager_is_not_spoken_for),
	ENTRY(the_manager_counts_what_stock_counts),
	ENTRY(a_lazy_service_is_not_kept),
	ENTRY(a_service_that_wants_to_know_its_clients_is_not_kept),
	ENTRY(odd_answers_are_not_kept),
	ENTRY(an_owner_finds_its_own_binder),
	ENTRY(a_full_buffer_fails_as_stock),
	ENTRY(a_small_read_gets_its_parts),
	ENTRY(unread_answers_wait_in_order),
	ENTRY(a_thread_may_end_without_reading),
	ENTRY(odd_calls_get_stock_errors),
	ENTRY(contexts_know_nothing_of_each_other),
	ENTRY(another_format_turns_it_off),
	ENTRY(no_user_takes_all_memory),
	ENTRY(only_the_manager_opts_in),
	ENTRY(one_name_can_be_flushed),
	ENTRY(policies_are_arms),
	ENTRY(the_driver_stays),
};

static void begin(void)
{
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x10000);
}

static void run_checks(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(checks); i++) {
		int before = failures;

		check_name = checks[i].name;
		set_profile("binder");
		set("mode", cooperative ? "cooperative" : "transparent");
		begin();
		open_binder(&client, DEVICE, MAP);
		checks[i].run();
		close_binder(&client);
		end(server_pid);
		end(manager_pid);
		if (failures == before)
			printf("ok %s (%s)\n", check_name,
			       cooperative ? "cooperative" : "transparent");
		fflush(stdout);
	}
}

int main(int argc, char **argv)
{
	int mode;

	setvbuf(stdout, NULL, _IOLBF, 0);
	chmod(DEVICE, 0666);
	for (mode = 0; mode < 2; mode++) {
		cooperative = mode;
		if (argc > 2 && !strcmp(argv[1], "race"))
			failures += !no_stale_answer(strtoull(argv[2], NULL, 10));
		else
			run_checks();
	}
	printf(failures ? "%d failures\n" : "all ok\n", failures);
	return !!failures;
}
