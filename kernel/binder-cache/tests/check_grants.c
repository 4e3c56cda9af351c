// SPDX-License-Identifier: GPL-2.0
/* Which caller may get which answer, and how much of the cache it may use. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <unistd.h>

#include "../binder_cache.h"
#include "checks.h"

void a_hit_is_what_the_manager_said(void)
{
	struct binder_transaction_data first;
	uint8_t data[256];
	uint32_t handle;
	long hits;

	CHECK(lookup(&client, "plain") == FOUND);
	first = client.reply;
	memcpy(data, (void *)(uintptr_t)first.data.ptr.buffer, first.data_size);
	handle = object(&client)->handle;
	hits = stat_of("hits");
	/* the first answer is kept, so this is another buffer */
	CHECK(lookup(&client, "plain") == FOUND);
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

void what_one_may_have_another_may_not(void)
{
	CHECK(hits_while(FOUND, "secret.key", 3) == 2);
	as_user(1000, secret_is_refused);
	CHECK(hits_while(FOUND, "secret.key", 1) == 1);
}

static void secret_is_given_out(void)
{
	CHECK(hits_while(FOUND, "secret.key", 3) == 3);
}

/* For a driver with the paper's table: it gives out what the manager refuses. */
void a_table_for_all_leaks(void)
{
	as_user(1000, secret_is_refused);
	CHECK(hits_while(FOUND, "secret.key", 3) == 2);
	as_user(1000, secret_is_given_out);
	as_user(99001, secret_is_given_out);
}

/* The manager receives the process's current user, not the user who opened the device. */
void who_changes_user_is_another(void)
{
	CHECK(hits_while(FOUND, "secret.key", 3) == 2);
	CHECK(!setresuid(-1, 1000, -1));
	CHECK(lookup(&client, "secret.key") == NOTHING);
	free_reply(&client);
	CHECK(!setresuid(-1, 0, -1));
	CHECK(lookup(&client, "secret.key") == FOUND);
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

void scopes_are_kept(void)
{
	hits_while(FOUND, "plain", 2);
	as_user(10001, plain_is_shared);
	as_user(99001, isolated_is_asked_for);
}

/* The first caller has other data after the end of its answer. */
static void ask_in_a_used_buffer(void)
{
	CHECK(lookup(&client, "two.one") == FOUND);
	free_reply(&client);
	CHECK(lookup(&client, "ragged.one") == FOUND);
	free_reply(&client);
}

void nothing_of_the_first_client_reaches_the_next(void)
{
	const uint8_t *end;

	as_user(0, ask_in_a_used_buffer);
	CHECK(hits_while(FOUND, "ragged.one", 1) == 1);
	CHECK(lookup(&client, "ragged.one") == FOUND);
	end = (const uint8_t *)(uintptr_t)client.reply.data.ptr.buffer + client.reply.data_size;
	CHECK(client.reply.data_size % 8 == 4);
	CHECK(!end[0] && !end[1] && !end[2] && !end[3]);
	free_reply(&client);
}

void contexts_know_nothing_of_each_other(void)
{
	pid_t other_manager, other_server;
	struct client other;

	CHECK(hits_while(FOUND, "plain", 2) == 1);
	set_profile("hwbinder");
	set_in("hwbinder", "mode", cooperative ? "cooperative" : "transparent");
	other_manager = start_manager("/dev/hwbinder");
	open_binder(&other, "/dev/hwbinder", MAP);
	CHECK(lookup(&other, "plain") == NOTHING);
	free_reply(&other);
	other_server = start_server("/dev/hwbinder", 0x70000);
	CHECK(lookup(&other, "plain") == FOUND);
	free_reply(&other);
	/* this manager reports no changes */
	CHECK(hits_while(FOUND, "plain", 2) == 2);
	close_binder(&other);
	end(other_server);
	end(other_manager);
	set_in("hwbinder", "mode", "off");
	CHECK(hits_while(FOUND, "plain", 2) == 2);
}

/* Where the driver has a binderfs: contexts are created and removed. */
void a_made_context_has_its_own_cache(void)
{
	long hits = stat_of("hits");
	pid_t made_manager, made_server;
	struct client other;
	char folder[64];
	int round, wait_ms;

	if (access("/dev/binderfs/binder-control", F_OK))
		return;
	CHECK(make_device("/dev/binderfs", "made"));
	CHECK(!access("/dev/made", F_OK) || !symlink("/dev/binderfs/made", "/dev/made"));
	folder_of("made", folder, sizeof(folder));
	set_profile("made");
	set_in("made", "mode", cooperative ? "cooperative" : "transparent");
	made_manager = start_manager("/dev/made");
	made_server = start_server("/dev/made", 0x70000);
	open_binder(&other, "/dev/made", MAP);
	for (round = 0; round < 3; round++) {
		CHECK(lookup(&other, "plain") == FOUND);
		free_reply(&other);
	}
	CHECK(stat_in("made", "hits") == 2);
	CHECK(stat_of("hits") == hits);
	/* a process that has it open keeps it; the next one of its name starts empty */
	CHECK(!unlink("/dev/binderfs/made"));
	CHECK(lookup(&other, "plain") == FOUND);
	free_reply(&other);
	CHECK(make_device("/dev/binderfs", "made"));
	CHECK(stat_in("made", "entries") == 0);
	CHECK(!unlink("/dev/binderfs/made"));
	close_binder(&other);
	end(made_server);
	end(made_manager);
	for (wait_ms = 0; !access(folder, F_OK) && wait_ms < 10000; wait_ms += 10)
		usleep(10000);
	CHECK(access(folder, F_OK));
}

void no_user_takes_all_memory(void)
{
	long evictions = stat_of("evictions"), refused = stat_of("refused_limit");
	char drivers_own[32];

	get("uid_limit_bytes", drivers_own, sizeof(drivers_own));
	set("uid_limit_bytes", "600");
	set("flush", "1");
	CHECK(hits_while(FOUND, "plain", 2) == 1);
	hits_while(FOUND, "exact.one", 2);
	/* the least recently used one is evicted, and the new one is kept */
	CHECK(hits_while(FOUND, "label.one", 2) == 1);
	CHECK(stat_of("evictions") == evictions + 1);
	CHECK(stat_of("refused_limit") == refused);
	CHECK(stat_of("bytes") <= 600);
	set("uid_limit_bytes", "100");
	CHECK(hits_while(FOUND, "plain.2", 2) == 0);
	CHECK(stat_of("refused_limit") == refused + 2);
	set("uid_limit_bytes", drivers_own);
}

/* The name that the manager reads as "plain", with more keys than the cache can hold. */
static void ask_by_many_keys(void)
{
	long fills = stat_of("fills"), refused = stat_of("refused_format");
	uint32_t round;

	for (round = 0; round < 400; round++) {
		struct parcel p;

		put_header(&p);
		put_string(&p, round % 2 ? "plain" : "even");
		/* after the string, and in its padding */
		if (round % 2)
			put_u32(&p, round);
		else
			p.data[p.size - 1] = 1 + round / 2 % 255;
		call(&client, 0, CODE_CHECK, 0, &p);
		free_reply(&client);
	}
	CHECK(stat_of("fills") == fills);
	CHECK(stat_of("refused_format") == refused + 400);
}

static void ask_for_many_services(void)
{
	char name[32];
	int i;

	for (i = 0; i < 60; i++) {
		snprintf(name, sizeof(name), "flood.%d", i);
		add_service(&client, name, 0xa0000 + 16 * i, CODE_ADD, 0);
	}
	open_binder(&client, DEVICE, MAP);
	for (i = 0; i < 600; i++) {
		snprintf(name, sizeof(name), "flood.%d", i % 60);
		lookup(&client, name);
		free_reply(&client);
	}
}

/* Answers for all users are charged to the user who requested them. */
void one_client_does_not_end_shared_learning(void)
{
	char drivers_own[32];

	if (!cooperative)
		return;
	get("uid_limit_bytes", drivers_own, sizeof(drivers_own));
	add_service(&client, "even", 0x90000, CODE_ADD, 0);
	set("uid_limit_bytes", "4000");
	as_user(10001, ask_by_many_keys);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	as_user(10001, ask_for_many_services);
	CHECK(hits_while(FOUND, "plain.2", 3) == 2);
	CHECK(stat_of("bytes") <= 2 * 4000);
	set("uid_limit_bytes", drivers_own);
}

#define REAL_SERVICES	300

static void look_all_up(void)
{
	char name[64];
	uint32_t code;
	int i;

	for (code = CODE_GET; code <= CODE_CHECK; code++) {
		for (i = 0; i < REAL_SERVICES; i++) {
			real_name(i, name, sizeof(name));
			CHECK(lookup_by(&client, code, name) == FOUND);
			free_reply(&client);
		}
	}
}

/* As many as on a phone, by both calls, for the system's users and an application. */
void honest_use_is_within_the_limits(void)
{
	static const uid_t users[] = { 1000, 10001, 1041, 2000 };
	long refused = stat_of("refused_limit"), evictions = stat_of("evictions"), hits;
	size_t i, count = cooperative ? ARRAY_SIZE(users) : 2;
	pid_t owner = start_services(DEVICE, 0x100000, REAL_SERVICES);

	look_all_up();
	for (i = 0; i < count; i++)
		as_user(users[i], look_all_up);
	hits = stat_of("hits");
	look_all_up();
	for (i = 0; i < count; i++)
		as_user(users[i], look_all_up);
	CHECK(stat_of("hits") == hits + 2 * REAL_SERVICES * (long)(1 + count));
	CHECK(stat_of("refused_limit") == refused && stat_of("evictions") == evictions);
	end(owner);
}

void only_the_manager_opts_in(void)
{
	struct binder_cache_profile profile = { .lookup_codes = 2 };
	struct binder_cache_flush flush = { 0 };

	CHECK(ioctl(client.fd, BINDER_CACHE_OPT_IN, &profile) == -1 && errno == EPERM);
	CHECK(ioctl(client.fd, BINDER_CACHE_FLUSH, &flush) == -1 && errno == EPERM);
	profile.header_size = BINDER_CACHE_HEADER_MAX + 1;
	CHECK(ioctl(client.fd, BINDER_CACHE_OPT_IN, &profile) == -1 && errno == EINVAL);
}

static void set_enforce(const char *value)
{
	int fd = open("/sys/fs/selinux/enforce", O_WRONLY);

	CHECK(write(fd, value, 1) == 1);
	close(fd);
}

/* Where SELinux is on; leaving enforcing mode is a policy change for all callers. */
void a_new_policy_is_heard_of(void)
{
	if (access("/sys/fs/selinux", F_OK))
		return;
	mount("selinuxfs", "/sys/fs/selinux", "selinuxfs", 0, NULL);
	if (access("/sys/fs/selinux/enforce", F_OK)) {
		CHECK(!"selinuxfs can be mounted");
		return;
	}
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	set_enforce("1");
	set_enforce("0");
	CHECK(stat_of("entries") == 0);
	/* a manager with its own policy cache may not be notified yet */
	CHECK(hits_while(FOUND, "plain", 3) == 0);
	usleep(2200000);
	CHECK(hits_while(FOUND, "plain", 3) == 2);
}
