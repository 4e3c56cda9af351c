/* SPDX-License-Identifier: GPL-2.0 */
/* A guest's cache as a person sets and reads it, and processes to look up in. */
#ifndef _GUEST_H
#define _GUEST_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

#define DEVICE	"/dev/binder"
#define MAP	(64 << 10)

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))

/* The mode that is being tested. */
extern bool cooperative;

/* False with a stock driver. */
bool has_cache(void);

/* /sys/kernel/binder_cache/CONTEXT of /dev/CONTEXT. */
void folder_of(const char *context, char *path, size_t size);

/* A file in it; without a context: of DEVICE. */
void set_in(const char *context, const char *file, const char *text);
void set(const char *file, const char *text);
bool try_set(const char *file, const char *text);
void get(const char *file, char *text, size_t size);
long stat_in(const char *context, const char *name);
long stat_of(const char *name);

/* For a process that is about to be no longer root. */
void keep_stats(void);

/* The profile of manager.c. */
void set_profile(const char *context);
bool try_set_profile(const char *context);

/* A process that does @body, which never returns; comes back once that called say_ready(). */
pid_t start(void (*body)(const void *what, int ready), const void *what);

pid_t start_manager(const char *device);

/* With the services that guest.c names, their binders from @first on. */
pid_t start_server(const char *device, uint64_t first);

/* With @count services whose names are as long as a phone's. */
void real_name(int number, char *name, size_t size);
pid_t start_services(const char *device, uint64_t first, int count);

/* Makes a device in the binderfs at @folder. */
bool make_device(const char *folder, const char *name);

/* Kills, and waits until the driver has cleaned up. */
void end(pid_t pid);

/* race.c: true when no lookup got what had been replaced before it began. */
bool no_stale_answer(uint64_t lookups);

/* After that one: true when no caller got one service by the name of another. */
bool no_forged_answer(uint64_t rounds);

/* True when no service whose references were counted meanwhile was kept. */
bool no_lazy_service_is_kept(uint64_t rounds);

/* references.c: prints what a hit takes. */
void beside_many_references(void);

/* selinux.c: prints what callers see. */
void under_a_policy(void);

/* exhaust.c: where the kernel can make allocations fail. */
void without_memory(void);

#endif
