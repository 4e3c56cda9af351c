// SPDX-License-Identifier: GPL-2.0
/* See guest.h. */

#define _GNU_SOURCE
#include <fcntl.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "guest.h"
#include "wire.h"

#define CACHE	"/sys/kernel/binder_cache/"

bool cooperative;

void set_in(const char *context, const char *file, const char *text)
{
	char path[128];
	int fd;

	snprintf(path, sizeof(path), CACHE "%s/%s", context, file);
	fd = open(path, O_WRONLY);
	if (fd < 0 || write(fd, text, strlen(text)) < 0) {
		printf("not ok: cannot write %s to %s: %m\n", text, path);
		exit(2);
	}
	close(fd);
}

void set(const char *file, const char *text)
{
	set_in("binder", file, text);
}

void get(const char *file, char *text, size_t size)
{
	char path[128];
	int fd;
	ssize_t got;

	snprintf(path, sizeof(path), CACHE "binder/%s", file);
	fd = open(path, O_RDONLY);
	got = read(fd, text, size - 1);
	text[got < 0 ? 0 : got] = 0;
	close(fd);
}

long stat_of(const char *name)
{
	char text[4096], wanted[64];
	const char *line;

	get("stats", text, sizeof(text));
	snprintf(wanted, sizeof(wanted), "%s ", name);
	for (line = text; *line; line = strchr(line, '\n') + 1)
		if (!strncmp(line, wanted, strlen(wanted)))
			return atol(line + strlen(wanted));
	printf("not ok: no %s in stats\n", name);
	exit(2);
}

void set_profile(const char *context)
{
	char text[1024], *at = text;
	struct parcel header;
	size_t i;

	put_header(&header);
	at += sprintf(at, "lookup=1,2 readonly=4,6,1599098439 clients=7 volatile=8 header=");
	for (i = 8; i < header.size; i++)
		at += sprintf(at, "%02x", header.data[i]);
	sprintf(at, " reply=00000000 tail=0c000000,0c00000000000000");
	set_in(context, "profile", text);
}

pid_t start_manager(const char *device)
{
	int ready[2];
	char byte;
	pid_t pid;

	if (pipe(ready))
		exit(2);
	pid = fork();
	if (!pid)
		be_manager(device, cooperative, ready[1]);
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(2);
	close(ready[0]);
	return pid;
}

static const char * const names[] = {
	"plain", "plain.2", "secret.key", "exact.one", "label.one", "unmarked.one", "null.one",
	"status.one", "fd.one", "two.one", "slow.one", "held.one", "ragged.one",
};

pid_t start_server(const char *device, uint64_t first)
{
	int ready[2];
	char byte;
	pid_t pid;
	size_t i;

	if (pipe(ready))
		exit(2);
	pid = fork();
	if (!pid) {
		struct client c;

		open_binder(&c, device, MAP);
		for (i = 0; i < ARRAY_SIZE(names); i++)
			add_service(&c, names[i], first + 16 * i, CODE_ADD, 0);
		if (write(ready[1], "r", 1) != 1)
			exit(2);
		for (;;)
			pause();
	}
	close(ready[1]);
	if (read(ready[0], &byte, 1) != 1)
		exit(2);
	close(ready[0]);
	return pid;
}

void end(pid_t pid)
{
	kill(pid, SIGKILL);
	waitpid(pid, NULL, 0);
	/* the driver cleans up a little later */
	usleep(20000);
}
