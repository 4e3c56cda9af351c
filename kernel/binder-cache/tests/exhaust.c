// SPDX-License-Identifier: GPL-2.0
/*
 * The first allocation of a call fails, or its first access to the caller's memory,
 * then the second, and so on until none is left to fail: every error path is
 * taken once.  Needs CONFIG_FAULT_INJECTION.
 */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <unistd.h>

#include "checks.h"

#define DEBUG	"/sys/kernel/debug/"
#define SPARE	"/dev/binderfs/spare"

static struct client fresh;
static int fail_nth;

static bool write_text(const char *path, const char *text)
{
	int fd = open(path, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, strlen(text)) == (ssize_t)strlen(text);

	close(fd);
	return written;
}

static bool can_fail(void)
{
	static const char * const kinds[] = { "failslab", "fail_page_alloc", "fail_usercopy" };
	char path[128];
	size_t i;

	fail_nth = open("/proc/thread-self/fail-nth", O_RDWR);
	if (fail_nth < 0)
		return false;
	for (i = 0; i < ARRAY_SIZE(kinds); i++) {
		snprintf(path, sizeof(path), DEBUG "%s/verbose", kinds[i]);
		write_text(path, "0");
	}
	write_text(DEBUG "fail_page_alloc/min-order", "0");
	return write_text(DEBUG "failslab/ignore-gfp-wait", "N") &&
	       write_text(DEBUG "fail_page_alloc/ignore-gfp-wait", "N");
}

static void let_fail(int nth)
{
	char text[16];
	int size = snprintf(text, sizeof(text), "%d", nth);

	CHECK(pwrite(fail_nth, text, size, 0) == size);
}

/* True if no fault was injected: reading the number accesses memory, too. */
static bool nothing_failed(void)
{
	char text[16] = "";
	bool nothing = pread(fail_nth, text, sizeof(text) - 1, 0) < 0 || atoi(text);

	/* the first of the two may be the one that fails */
	if (pwrite(fail_nth, "0", 1, 0) < 0)
		CHECK(pwrite(fail_nth, "0", 1, 0) == 1);
	return nothing;
}

static void nothing_to_do(void)
{
}

static void forget(void)
{
	set("flush", "1");
	open_binder(&fresh, DEVICE, MAP);
}

static void know(void)
{
	hits_while(FOUND, "plain", 1);
	open_binder(&fresh, DEVICE, MAP);
}

static void lookup_fresh(void)
{
	lookup(&fresh, "plain");
	free_reply(&fresh);
}

/*
 * Found each time, and from the cache after a few lookups: while the driver cleans
 * up a closed process, no answer is learnt.
 */
static void is_found(const char *name)
{
	int tries = 0;

	while (!hits_while(FOUND, name, 1) && tries++ < 1000)
		usleep(1000);
	CHECK(tries < 1000);
}

static void all_is_well(void)
{
	close_binder(&fresh);
	is_found("plain");
}

static void open_fresh(void)
{
	open_binder(&fresh, DEVICE, MAP);
}

static void register_fresh(void)
{
	add_service(&fresh, "plain.2", 0x90000, CODE_ADD, 0);
}

static void it_can_be_registered(void)
{
	close_binder(&fresh);
	open_binder(&fresh, DEVICE, MAP);
	add_service(&fresh, "plain.2", 0xa0000, CODE_ADD, 0);
	is_found("plain.2");
	all_is_well();
}

static void open_and_close(void)
{
	int fd = open(DEVICE, O_RDWR | O_CLOEXEC);
	void *map = fd < 0 ? MAP_FAILED : mmap(NULL, MAP, PROT_READ, MAP_PRIVATE, fd, 0);

	if (map != MAP_FAILED)
		munmap(map, MAP);
	close(fd);
}

static void client_finds(void)
{
	is_found("plain");
}

static void write_settings(void)
{
	try_set("policy", "lru");
	try_set("uid_limit_bytes", "262144");
	try_set_profile("binder");
	try_set("flush", "1");
}

/* And the first allocation of its cache when it is turned on. */
static void make_spare(void)
{
	if (make_device("/dev/binderfs", "spare"))
		try_set_profile("spare");
}

static bool has_cache_of(const struct stat *device)
{
	char path[128];

	snprintf(path, sizeof(path), "/sys/kernel/binder_cache/spare.%u/mode",
		 minor(device->st_rdev));
	return !access(path, F_OK);
}

/* A context without memory for a cache is a stock one. */
static void device_works(void)
{
	bool cooperates = cooperative;
	struct stat device;
	pid_t manager;

	if (stat(SPARE, &device))
		return;
	if (!has_cache_of(&device)) {
		cooperative = false;
		manager = start_manager(SPARE);
		open_binder(&fresh, SPARE, MAP);
		CHECK(lookup(&fresh, "plain") == NOTHING);
		free_reply(&fresh);
		add_service(&fresh, "plain", 0x90000, CODE_ADD, 0);
		CHECK(lookup(&fresh, "plain") == FOUND);
		free_reply(&fresh);
		close_binder(&fresh);
		end(manager);
		cooperative = cooperates;
	}
	CHECK(!unlink(SPARE));
	CHECK(!has_cache_of(&device));
}

static void mount_another(void)
{
	mount("binder", "/tmp/binderfs", "binder", 0, NULL);
}

static void unmount_it(void)
{
	umount("/tmp/binderfs");
	client_finds();
}

static const struct {
	const char *name;
	void (*prepare)(void);
	void (*step)(void);
	void (*verify)(void);
} steps[] = {
	{ "a lookup that misses", forget, lookup_fresh, all_is_well },
	{ "a lookup that hits", know, lookup_fresh, all_is_well },
	{ "a registration", open_fresh, register_fresh, it_can_be_registered },
	{ "opening and closing", nothing_to_do, open_and_close, client_finds },
	{ "writing settings", nothing_to_do, write_settings, client_finds },
	{ "making a device", nothing_to_do, make_spare, device_works },
	{ "mounting a binderfs", nothing_to_do, mount_another, unmount_it },
};

static int faults_in(size_t step)
{
	int nth;

	for (nth = 1;; nth++) {
		bool none;

		steps[step].prepare();
		let_fail(nth);
		steps[step].step();
		none = nothing_failed();
		steps[step].verify();
		if (none)
			return nth - 1;
	}
}

/* Checks for leaks of ours, where the kernel has kmemleak. */
static void nothing_leaked(void)
{
	char line[256];
	FILE *leaks;

	/* kmemleak reports objects older than five seconds, and only in a second scan */
	sleep(6);
	if (!write_text(DEBUG "kmemleak", "scan") || !write_text(DEBUG "kmemleak", "scan"))
		return;
	leaks = fopen(DEBUG "kmemleak", "r");
	while (leaks && fgets(line, sizeof(line), leaks)) {
		printf("leak: %s", line);
		CHECK(!strstr(line, "binder"));
	}
	if (leaks)
		fclose(leaks);
	printf("looked for leaks\n");
}

void without_memory(void)
{
	size_t i;

	check_name = "without_memory";
	if (!can_fail()) {
		printf("not ok: this kernel cannot make allocations fail\n");
		exit(2);
	}
	mkdir("/tmp/binderfs", 0755);
	/* in the second mode it exists, and has no target yet */
	CHECK(!symlink(SPARE, "/dev/spare") || errno == EEXIST);
	set_profile("binder");
	set("mode", cooperative ? "cooperative" : "transparent");
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x10000);
	open_binder(&client, DEVICE, MAP);
	write_text(DEBUG "kmemleak", "clear");
	for (i = 0; i < ARRAY_SIZE(steps); i++) {
		int faults = faults_in(i);

		printf("%s: %d faults\n", steps[i].name, faults);
		CHECK(faults > 0);
	}
	close_binder(&client);
	end(server_pid);
	end(manager_pid);
	close(fail_nth);
	nothing_leaked();
}
