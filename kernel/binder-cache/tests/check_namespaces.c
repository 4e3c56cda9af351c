// SPDX-License-Identifier: GPL-2.0
/*
 * An unprivileged process can mount a binderfs in its own user namespace: the parts
 * of the cache that it can reach.
 */

#define _GNU_SOURCE
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../binder_cache.h"
#include "checks.h"

#define CACHES		"/sys/kernel/binder_cache"
#define FOLDER		"/tmp/unprivileged"
#define OWN		FOLDER "/own"
#define PARAMETER	"/sys/module/binder_linux/parameters/cache_user_namespaces"
#define ROUNDS		50
#define NAME		257

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY | O_CLOEXEC);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;

	close(fd);
	return written;
}

/* The value of "awake" or "switched" of the driver's hooks. */
static long hooks(const char *what)
{
	FILE *file = fopen("/sys/kernel/debug/binder_cache/hooks", "r");
	char name[32];
	long value, found = -1;

	while (file && fscanf(file, "%31s %ld", name, &value) == 2)
		if (!strcmp(name, what))
			found = value;
	if (file)
		fclose(file);
	CHECK(found >= 0);
	return found;
}

static int count_caches(char own[NAME])
{
	DIR *folder = opendir(CACHES);
	struct dirent *entry;
	int count = 0;

	while (folder && (entry = readdir(folder))) {
		if (entry->d_name[0] == '.')
			continue;
		count++;
		if (!strncmp(entry->d_name, "own.", 4))
			snprintf(own, NAME, "%s", entry->d_name);
	}
	if (folder)
		closedir(folder);
	return count;
}

/* A kernel like Android's has no user namespaces. */
static bool can_mount_binderfs(void)
{
	return !access("/dev/binderfs/binder-control", F_OK) &&
	       !access("/proc/self/uid_map", F_OK);
}

/* An ordinary user, and root in its own namespace, with a binderfs there. */
static void become_unprivileged(void)
{
	CHECK(!setresgid(10001, 10001, 10001) && !setresuid(10001, 10001, 10001));
	/* otherwise its own files in /proc would be root's */
	CHECK(!prctl(PR_SET_DUMPABLE, 1));
	CHECK(!unshare(CLONE_NEWUSER | CLONE_NEWNS | CLONE_NEWIPC));
	CHECK(write_text("/proc/self/setgroups", "deny"));
	CHECK(write_text("/proc/self/uid_map", "0 10001 1"));
	CHECK(write_text("/proc/self/gid_map", "0 10001 1"));
	CHECK(!mount("binder", FOLDER, "binder", 0, NULL));
}

/* The result of its manager's opt-in: 0 or an errno. */
static int opt_in(struct client *own)
{
	struct binder_cache_profile profile = { .lookup_codes = 1 << CODE_CHECK };

	CHECK(!ioctl(own->fd, BINDER_SET_CONTEXT_MGR, 0));
	return ioctl(own->fd, BINDER_CACHE_OPT_IN, &profile) ? errno : 0;
}

/* Makes a device, opts in and removes it, @rounds times; each must return @expected. */
static void make_and_remove(int rounds, int expected)
{
	while (rounds--) {
		struct client own;

		CHECK(make_device(FOLDER, "own"));
		open_binder(&own, OWN, MAP);
		CHECK(opt_in(&own) == expected);
		close_binder(&own);
		CHECK(!unlink(OWN));
	}
}

static void cannot_open(const char *path, int how)
{
	int fd = open(path, how | O_CLOEXEC);

	if (fd >= 0 || errno != EACCES)
		printf("%s: %m\n", path);
	CHECK(fd < 0 && errno == EACCES);
	close(fd);
}

static void cannot_reach_the_cache(void)
{
	static const struct {
		const char *file;
		int how;
	} rows[] = {
		{ "stats", O_RDONLY }, { "profile", O_RDONLY }, { "mode", O_WRONLY },
		{ "profile", O_WRONLY }, { "policy", O_WRONLY }, { "capacity", O_WRONLY },
		{ "uid_limit_bytes", O_WRONLY }, { "flush", O_WRONLY },
	};
	char path[128];
	size_t i, end;

	folder_of("binder", path, sizeof(path) / 2);
	end = strlen(path);
	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		snprintf(path + end, sizeof(path) - end, "/%s", rows[i].file);
		cannot_open(path, rows[i].how);
	}
	cannot_open(PARAMETER, O_WRONLY);
}

/* Runs @body in a new namespace; its failures are the caller's. */
static void in_a_namespace(void (*body)(void))
{
	int status;
	pid_t pid;

	mkdir(FOLDER, 0755);
	CHECK(!chmod(FOLDER, 0777));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		failures = 0;
		become_unprivileged();
		body();
		fflush(stdout);
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
}

static void try_all(void)
{
	char name[NAME] = "";
	int count = count_caches(name);
	struct client own;

	cannot_reach_the_cache();
	make_and_remove(ROUNDS, EOPNOTSUPP);
	/* while it exists, too */
	CHECK(make_device(FOLDER, "own"));
	open_binder(&own, OWN, MAP);
	CHECK(opt_in(&own) == EOPNOTSUPP);
	CHECK(count_caches(name) == count && !*name);
	close_binder(&own);
}

void a_user_namespace_has_stock_devices(void)
{
	long switched, awake;

	if (!can_mount_binderfs())
		return;
	CHECK(hits_while(FOUND, "plain", 3) == 2);
	switched = hooks("switched");
	awake = hooks("awake");
	in_a_namespace(try_all);
	CHECK(hooks("switched") == switched && hooks("awake") == awake);
	CHECK(hits_while(FOUND, "plain", 2) == 2);
	/* without a cache in use nothing wakes them */
	set("mode", "off");
	CHECK(!hooks("awake"));
	switched = hooks("switched");
	in_a_namespace(try_all);
	CHECK(!hooks("awake") && hooks("switched") == switched);
	printf("a binderfs in a user namespace was tried\n");
}

static int to_child[2], to_parent[2];

static void say(int fd)
{
	CHECK(write(fd, "x", 1) == 1);
}

static void wait_for(int fd)
{
	char byte;

	CHECK(read(fd, &byte, 1) == 1);
}

static void try_when_allowed(void)
{
	struct client own;

	/* the device has a cache, and it is off */
	make_and_remove(ROUNDS, EOPNOTSUPP);
	CHECK(make_device(FOLDER, "own"));
	open_binder(&own, OWN, MAP);
	CHECK(opt_in(&own) == EOPNOTSUPP);
	close_binder(&own);
	say(to_parent[1]);
	wait_for(to_child[0]);
	open_binder(&own, OWN, MAP);
	CHECK(opt_in(&own) == 0);
	close_binder(&own);
	CHECK(!unlink(OWN));
	/* root has turned one on and it was removed; the next is off again */
	make_and_remove(ROUNDS, EOPNOTSUPP);
}

static void allow_one(void)
{
	char name[NAME] = "", mode[NAME + 64], text[32] = "";
	FILE *file;

	wait_for(to_parent[0]);
	count_caches(name);
	CHECK(*name);
	snprintf(mode, sizeof(mode), CACHES "/%s/mode", name);
	file = fopen(mode, "r");
	CHECK(file && fgets(text, sizeof(text), file) && !strcmp(text, "off\n"));
	if (file)
		fclose(file);
	CHECK(!hooks("awake"));
	CHECK(write_text(mode, "cooperative"));
	say(to_child[1]);
}

void a_user_namespace_has_caches_when_root_says_so(void)
{
	long switched;
	pid_t pid;
	int status;

	if (!can_mount_binderfs())
		return;
	set("mode", "off");
	CHECK(!hooks("awake"));
	switched = hooks("switched");
	CHECK(!pipe(to_child) && !pipe(to_parent));
	CHECK(write_text(PARAMETER, "Y"));
	fflush(stdout);
	pid = fork();
	if (!pid) {
		failures = 0;
		in_a_namespace(try_when_allowed);
		_exit(failures);
	}
	/* so that a child that exits early is noticed */
	close(to_parent[1]);
	allow_one();
	waitpid(pid, &status, 0);
	CHECK(WIFEXITED(status) && !WEXITSTATUS(status));
	close(to_parent[0]);
	close(to_child[0]);
	close(to_child[1]);
	CHECK(write_text(PARAMETER, "N"));
	/* root's device woke them, and nothing after it let them sleep */
	CHECK(hooks("switched") == switched + 1);
	set("mode", "off");
	CHECK(!hooks("awake") && hooks("switched") == switched + 2);
}
