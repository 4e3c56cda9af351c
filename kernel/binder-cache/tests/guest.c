// SPDX-License-Identifier: GPL-2.0
/* See guest.h. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <linux/android/binderfs.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/stat.h>
#include <sys/sysmacros.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "wire.h"

#define CACHE	"/sys/kernel/binder_cache/"

bool cooperative;

/* The folder of a device in a binderfs includes its minor number. */
void folder_of(const char *context, char *path, size_t size)
{
	struct stat device;
	char name[64];

	snprintf(path, size, CACHE "%s", context);
	snprintf(name, sizeof(name), "/dev/%s", context);
	if (access(path, F_OK) && !stat(name, &device))
		snprintf(path, size, CACHE "%s.%u", context, minor(device.st_rdev));
}

static int open_in(const char *context, const char *file, int how)
{
	char path[128];

	folder_of(context, path, sizeof(path) / 2);
	strcat(path, "/");
	strcat(path, file);
	return open(path, how);
}

bool has_cache(void)
{
	return !access(CACHE, F_OK);
}

static bool try_set_in(const char *context, const char *file, const char *text)
{
	int fd = open_in(context, file, O_WRONLY);
	bool written = fd >= 0 && write(fd, text, strlen(text)) >= 0;

	close(fd);
	return written;
}

void set_in(const char *context, const char *file, const char *text)
{
	if (!try_set_in(context, file, text)) {
		printf("not ok: cannot write %s to %s of %s: %m\n", text, file, context);
		exit(2);
	}
}

bool try_set(const char *file, const char *text)
{
	return try_set_in("binder", file, text);
}

void set(const char *file, const char *text)
{
	set_in("binder", file, text);
}

/* Only root may open them; a process that was root may continue to read. */
static int kept_stats = -1;

void keep_stats(void)
{
	kept_stats = open_in("binder", "stats", O_RDONLY | O_CLOEXEC);
}

static int open_to_read(const char *context, const char *file)
{
	int fd = open_in(context, file, O_RDONLY);

	if (fd < 0 && errno == EACCES && !strcmp(context, "binder") && !strcmp(file, "stats"))
		fd = dup(kept_stats);
	return fd;
}

static void get_in(const char *context, const char *file, char *text, size_t size)
{
	int fd = open_to_read(context, file);
	ssize_t got = pread(fd, text, size - 1, 0);

	text[got < 0 ? 0 : got] = 0;
	close(fd);
}

void get(const char *file, char *text, size_t size)
{
	get_in("binder", file, text, size);
}

long stat_in(const char *context, const char *name)
{
	char text[4096], wanted[64];
	const char *line;

	get_in(context, "stats", text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "%s ", name);
	for (line = text; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, wanted, strlen(wanted)))
			return atol(line + strlen(wanted));
	printf("not ok: no %s in the stats of %s\n", name, context);
	exit(2);
}

long stat_of(const char *name)
{
	return stat_in("binder", name);
}

static void print_profile(char *at)
{
	struct parcel header;
	size_t i;

	put_header(&header);
	at += sprintf(at, "lookup=1,2,9 readonly=4,6,1599098439 clients=7 volatile=8 header=");
	for (i = 8; i < header.size; i++)
		at += sprintf(at, "%02x", header.data[i]);
	at += sprintf(at, " reply=00000000 tail=0c000000,0c00000000000000");
	sprintf(at, " reply=0000000001000000000000000100000024000000 tail=0c00000000000000");
}

bool try_set_profile(const char *context)
{
	char text[1024];

	print_profile(text);
	return try_set_in(context, "profile", text);
}

void set_profile(const char *context)
{
	char text[1024];

	print_profile(text);
	set_in(context, "profile", text);
}

pid_t start(void (*body)(const void *what, int ready), const void *what)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		exit(2);
	pid = fork();
	if (!pid)
		body(what, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(2);
	close(ready[0]);
	return pid;
}

static void manage(const void *device, int ready)
{
	be_manager(device, cooperative, ready);
}

pid_t start_manager(const char *device)
{
	return start(manage, device);
}

static const char * const names[] = {
	"plain", "plain.2", "secret.key", "exact.one", "label.one", "unmarked.one", "null.one",
	"status.one", "fd.one", "two.one", "slow.one", "held.one", "ragged.one", "accessor.one",
	"starts.one",
};

struct registration {
	const char *device;
	uint64_t first;
	int count;
};

static void register_all(const void *what, int ready)
{
	const struct registration *registration = what;
	struct client c;
	size_t i;

	open_binder(&c, registration->device, MAP);
	for (i = 0; i < ARRAY_SIZE(names); i++)
		add_service(&c, names[i], registration->first + 16 * i, CODE_ADD, 0);
	say_ready(ready);
	for (;;)
		pause();
}

pid_t start_server(const char *device, uint64_t first)
{
	return start(register_all, &(struct registration){ device, first, 0 });
}

static void register_many(const void *what, int ready)
{
	const struct registration *registration = what;
	char name[64];
	struct client c;
	int i;

	open_binder(&c, registration->device, MAP);
	for (i = 0; i < registration->count; i++) {
		real_name(i, name, sizeof(name));
		add_service(&c, name, registration->first + 16 * i, CODE_ADD, 0);
	}
	say_ready(ready);
	for (;;)
		pause();
}

void real_name(int number, char *name, size_t size)
{
	snprintf(name, size, "android.hardware.vendor.part%d.ISomeService/default", number);
}

pid_t start_services(const char *device, uint64_t first, int count)
{
	return start(register_many, &(struct registration){ device, first, count });
}

bool make_device(const char *folder, const char *name)
{
	struct binderfs_device device = { 0 };
	char path[128];
	bool made;
	int control;

	snprintf(path, sizeof(path), "%s/binder-control", folder);
	control = open(path, O_RDONLY | O_CLOEXEC);
	strcpy(device.name, name);
	made = control >= 0 && !ioctl(control, BINDER_CTL_ADD, &device);
	close(control);
	return made;
}

/* Processes that the driver knows; 0 where it does not report them. */
static long known_processes(void)
{
	FILE *stats = fopen("/sys/kernel/debug/binder/stats", "r");
	char line[256];
	long count = 0;

	while (stats && fgets(line, sizeof(line), stats))
		if (sscanf(line, "proc: active %ld", &count) == 1)
			break;
	if (stats)
		fclose(stats);
	return count;
}

void end(pid_t pid)
{
	long before = known_processes();
	int wait_ms;

	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* the driver cleans up a little later */
	for (wait_ms = 0; wait_ms < 10000 && before && known_processes() >= before; wait_ms++)
		usleep(1000);
}
