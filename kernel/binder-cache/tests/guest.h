/* SPDX-License-Identifier: GPL-2.0 */
/* A guest's cache as the administrator sets and reads it, and processes with services. */
#ifndef _GUEST_H
#define _GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DEVICE	"/dev/binder"
#define MAP	(64 << 10)

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* The mode under test. */
extern bool cooperative;

/* False with a stock driver. */
bool has_cache(void);

/* /sys/kernel/binder_cache/CONTEXT of /dev/CONTEXT. */
void folder_of(const char *context, char *path, size_t size);

/* Writes a file in it; without a context: of DEVICE. */
void set_in(const char *context, const char *file, const char *text);
void set(const char *file, const char *text);
bool try_set(const char *file, const char *text);
void get(const char *file, char *text, size_t size);
long stat_in(const char *context, const char *name);
long stat_of(const char *name);

/* For a process that is about to drop root. */
void keep_stats(void);

/* The profile of manager.c. */
void set_profile(const char *context);
bool try_set_profile(const char *context);

/* Starts a process in @body, which never returns; returns once that called say_ready(). */
pid_t start(void (*body)(const void *what, int ready), const void *what);

pid_t start_manager(const char *device);

/* A server with the services that guest.c names, with binders from @first on. */
pid_t start_server(const char *device, uint64_t first);

/* The name of service @number, as long as on a phone. */
void real_name(int number, char *name, size_t size);
pid_t start_services(const char *device, uint64_t first, int count);

/* Makes a device in the binderfs at @folder. */
bool make_device(const char *folder, const char *name);

/* Kills @pid, and waits until the driver has cleaned up. */
void end(pid_t pid);

/* race.c: true if no lookup got a service that had been replaced before it began. */
bool no_stale_answer(uint64_t lookups);

/* Run after that one: true if no caller got one service by the name of another. */
bool no_forged_answer(uint64_t rounds);

/* True if no service whose references were counted meanwhile was kept. */
bool no_lazy_service_is_kept(uint64_t rounds);

/* references.c: prints the cost of a hit. */
void beside_many_references(void);

/* selinux.c: prints the results of callers. */
void under_a_policy(void);

/* exhaust.c: for a kernel with fault injection. */
void without_memory(void);

#endif
