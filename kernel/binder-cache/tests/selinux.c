// SPDX-License-Identifier: GPL-2.0
/*
 * Lookups under an enforcing SELinux policy, policy.conf.  The results of clients are
 * printed, so that two drivers can be compared; the cache's counters are checked
 * here.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

#define SELINUX	"/sys/fs/selinux/"

static void write_file(const char *path, const void *bytes, size_t size)
{
	int fd = open(path, O_WRONLY);

	if (fd < 0 || write(fd, bytes, size) != (ssize_t)size) {
		printf("not ok: cannot write %s: %m\n", path);
		exit(2);
	}
	close(fd);
}

static void load_policy(const char *path)
{
	static char policy[1 << 20];
	int fd = open(path, O_RDONLY);
	ssize_t size = read(fd, policy, sizeof(policy));

	close(fd);
	write_file(SELINUX "load", policy, size);
}

static void set_boolean(const char *name, const char *value)
{
	char path[128];

	snprintf(path, sizeof(path), SELINUX "booleans/%s", name);
	write_file(path, value, 1);
	write_file(SELINUX "commit_pending_bools", "1", 1);
}

/* From now on this process acts, and opens files, as @type. */
static void become(const char *type)
{
	char context[64];
	int size = snprintf(context, sizeof(context), "tester:guest:%s", type);

	write_file("/proc/self/attr/current", context, size);
}

static const char *error_of(struct client *c)
{
	static char text[64];
	struct binder_extended_error error = { 0 };

	ioctl(c->fd, BINDER_GET_EXTENDED_ERROR, &error);
	snprintf(text, sizeof(text), "%s %d",
		 c->error == BR_FAILED_REPLY ? "refused" :
		 c->error == BR_DEAD_REPLY ? "dead" : "?", error.param);
	return text;
}

/* Three lookups, and a call to the service that was found. */
static void look(struct client *c, const char *step)
{
	int round;

	for (round = 0; round < 3; round++) {
		enum found found = lookup(c, "plain");
		struct parcel p = { 0 };
		uint32_t handle;

		if (found != FOUND) {
			printf("%s %d: %s\n", step, round,
			       found == FAILED ? error_of(c) : "nothing");
			free_reply(c);
			continue;
		}
		handle = object(c)->handle;
		queue_u32(c, BC_ACQUIRE);
		queue_u32(c, handle);
		free_reply(c);
		printf("%s %d: found, call %s\n", step, round,
		       call(c, handle, 1, 0, &p) == FAILED ? error_of(c) : "answered");
		free_reply(c);
		queue_u32(c, BC_RELEASE);
		queue_u32(c, handle);
		exchange(c, 0);
	}
}

static void as(const char *type, const char *step)
{
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		struct client c;

		become(type);
		open_binder(&c, DEVICE, MAP);
		look(&c, step);
		fflush(stdout);
		_exit(0);
	}
	waitpid(pid, NULL, 0);
}

/* With a cache: repeats until the client is answered from it. */
static void warm(void)
{
	int wait_ms;

	if (!has_cache())
		return;
	for (wait_ms = 0; wait_ms < 30000; wait_ms += 100) {
		if (hits_while(FOUND, "plain", 1))
			return;
		usleep(100000);
	}
	CHECK(!"a lookup is answered from the cache");
}

static void answer_nothing(struct client *c, const struct binder_transaction_data *t)
{
	struct parcel nothing = { 0 };

	reply_to(c, t, 0, &nothing);
}

static void be_service(const void *type, int ready)
{
	struct client c;

	become(type);
	open_binder(&c, DEVICE, MAP);
	add_service(&c, "plain", 0x50000, CODE_ADD, 0);
	say_ready(ready);
	queue_u32(&c, BC_ENTER_LOOPER);
	serve(&c, answer_nothing);
}

/* A right is revoked and granted again while the answer is cached. */
static void toggle(const char *boolean)
{
	char step[64];

	warm();
	set_boolean(boolean, "0");
	snprintf(step, sizeof(step), "client without %s", boolean);
	look(&client, step);
	set_boolean(boolean, "1");
	snprintf(step, sizeof(step), "client with %s again", boolean);
	look(&client, step);
}

/* An answer for everyone is cached, and callers without the right ask. */
static void refuse_strangers(void)
{
	long refused, hits;

	warm();
	refused = has_cache() ? stat_of("refused_lsm") : 0;
	hits = has_cache() ? stat_of("hits") : 0;
	as("stranger_t", "stranger");
	as("outsider_t", "outsider");
	if (!has_cache())
		return;
	CHECK(stat_of("hits") == hits);
	/* transparent: no other caller gets the client's answer */
	CHECK(stat_of("refused_lsm") - refused == (cooperative ? 6 : 0));
	CHECK(hits_while(FOUND, "plain", 1) == 1);
}

static void change_rights(void)
{
	toggle("client_may_call");
	toggle("client_may_receive");
	toggle("client_may_use");
	warm();
	load_policy("/policy.2");
	look(&client, "client with the second policy");
	load_policy("/policy");
	look(&client, "client with the first policy again");
	warm();
	write_file(SELINUX "enforce", "0", 1);
	as("stranger_t", "stranger, permissive");
	write_file(SELINUX "enforce", "1", 1);
	as("stranger_t", "stranger, enforcing again");
	/* hooks see the process that opened the device, and that another one uses it */
	warm();
	become("stranger_t");
	look(&client, "client turned stranger");
	become("client_t");
	look(&client, "client turned back");
}

void under_a_policy(void)
{
	static bool is_loaded;

	check_name = "under_a_policy";
	if (!is_loaded) {
		if (mount("selinuxfs", "/sys/fs/selinux", "selinuxfs", 0, NULL) && errno != EBUSY) {
			printf("not ok: no SELinux: %m\n");
			exit(2);
		}
		load_policy("/policy");
		write_file(SELINUX "enforce", "1", 1);
		is_loaded = true;
	}
	if (has_cache()) {
		set_profile("binder");
		set("mode", cooperative ? "cooperative" : "transparent");
	}
	become("manager_t");
	manager_pid = start_manager(DEVICE);
	become("kernel_t");
	server_pid = start(be_service, "server_t");
	as("stranger_t", "stranger, cold");
	as("outsider_t", "outsider, cold");
	become("client_t");
	open_binder(&client, DEVICE, MAP);
	look(&client, "client");
	refuse_strangers();
	change_rights();
	close_binder(&client);
	become("kernel_t");
	end(server_pid);
	end(manager_pid);
}
