// SPDX-License-Identifier: GPL-2.0
/* The hazards' context manager: it answers as Android 11's does.  See wire.h. */

#define _GNU_SOURCE
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "../binder_cache.h"
#include "wire.h"

#define SERVICES	512
#define NAME		64
#define WHILE_US	60000

static struct {
	char name[NAME];
	uint32_t handle;
} services[SERVICES];

static int service_count;
static pthread_mutex_t services_lock = PTHREAD_MUTEX_INITIALIZER;
/* Held for reading while a handle may be in a reply; for writing to drop one. */
static pthread_rwlock_t handles_lock = PTHREAD_RWLOCK_INITIALIZER;
static struct client manager;
static bool cooperates;

static bool begins(const char *name, const char *start)
{
	return !strncmp(name, start, strlen(start));
}

static uint32_t handle_for(const char *name)
{
	uint32_t handle = 0;
	int i;

	pthread_mutex_lock(&services_lock);
	for (i = 0; i < service_count && !handle; i++)
		if (!strcmp(services[i].name, name))
			handle = services[i].handle;
	pthread_mutex_unlock(&services_lock);
	return handle;
}

static void forget(const uint8_t *key, size_t size)
{
	struct binder_cache_flush flush = { .key = (uintptr_t)key, .key_size = size };

	if (cooperates && ioctl(manager.fd, BINDER_CACHE_FLUSH, &flush))
		die("BINDER_CACHE_FLUSH");
}

static void set_service(struct client *c, const char *name, uint32_t handle)
{
	uint32_t before = 0;
	int i;

	queue_u32(c, BC_ACQUIRE);
	queue_u32(c, handle);
	exchange(c, 0);
	pthread_mutex_lock(&services_lock);
	for (i = 0; i < service_count && strcmp(services[i].name, name); i++)
		;
	if (i == service_count)
		strcpy(services[service_count++].name, name);
	else
		before = services[i].handle;
	services[i].handle = handle;
	pthread_mutex_unlock(&services_lock);
	forget(NULL, 0);
	/* A manager may keep handles that it no longer returns. */
	if (before && !begins(name, "slow.") && !begins(name, "held.")) {
		queue_u32(c, BC_RELEASE);
		queue_u32(c, before);
		pthread_rwlock_wrlock(&handles_lock);
		exchange(c, 0);
		pthread_rwlock_unlock(&handles_lock);
	}
}

static uint32_t mark_of(const char *name)
{
	if (!cooperates || begins(name, "unmarked.") || begins(name, "accessor.") ||
	    begins(name, "starts."))
		return 0;
	if (begins(name, "exact.") || begins(name, "secret."))
		return BINDER_CACHE_EXACT;
	return begins(name, "label.") ? BINDER_CACHE_SECURITY : BINDER_CACHE_ANY;
}

static void answer_lookup(const char *name, uint32_t uid, struct parcel *reply, uint32_t *flags)
{
	uint32_t handle = handle_for(name);

	if (begins(name, "slow."))
		usleep(WHILE_US);
	*flags |= mark_of(name);
	if (begins(name, "status.")) {
		*flags |= TF_STATUS_CODE;
		return;
	}
	if (!handle || begins(name, "null.") || (begins(name, "secret.") && uid != 0))
		return;
	if (begins(name, "fd."))
		put_object(reply, BINDER_TYPE_FD, 0);
	else
		put_object(reply, BINDER_TYPE_HANDLE, handle);
	if (begins(name, "two."))
		put_object(reply, BINDER_TYPE_HANDLE, handle);
	put_u32(reply, 12);
	/* so that the answer does not end at a word boundary */
	if (begins(name, "ragged."))
		put_u32(reply, 0);
}

/* A service with its metadata, or an accessor that makes connections to one. */
static void answer_with_union(const char *name, struct parcel *reply, uint32_t *flags)
{
	uint32_t handle = handle_for(name);
	bool is_accessor = begins(name, "accessor.");

	if (!handle)
		return;
	*flags |= mark_of(name);
	/* not null, and which of the two it is */
	put_u32(reply, 1);
	put_u32(reply, is_accessor);
	if (!is_accessor) {
		/* not null either, and its length */
		put_u32(reply, 1);
		put_u32(reply, 36);
	}
	put_object(reply, BINDER_TYPE_HANDLE, handle);
	put_u32(reply, 12);
	/* whether it is lazy, that is started on demand */
	if (!is_accessor)
		put_u32(reply, begins(name, "starts."));
}

static void read_name(const struct binder_transaction_data *t, char *name, size_t *offset)
{
	const uint8_t *data = (const void *)(uintptr_t)t->data.ptr.buffer;
	struct parcel header;
	uint32_t length, i;

	put_header(&header);
	*offset = header.size;
	memcpy(&length, data + header.size, sizeof(length));
	for (i = 0; i < length && i < NAME - 1; i++)
		name[i] = data[header.size + 4 + 2 * i];
	name[i] = 0;
}

static void serve_call(struct client *c, const struct binder_transaction_data *t)
{
	const uint8_t *data = (const void *)(uintptr_t)t->data.ptr.buffer;
	const binder_size_t *objects = (const void *)(uintptr_t)t->data.ptr.offsets;
	static __thread struct parcel reply;
	struct flat_binder_object sent = { 0 };
	bool is_lookup = false;
	uint32_t flags = 0;
	char name[NAME];
	size_t offset;

	memset(&reply, 0, sizeof(reply));
	put_u32(&reply, 0);
	read_name(t, name, &offset);
	if (t->offsets_size)
		memcpy(&sent, data + objects[0], sizeof(sent));
	switch (t->code) {
	case CODE_GET:
	case CODE_CHECK:
		is_lookup = !begins(name, "slow.");
		if (is_lookup)
			pthread_rwlock_rdlock(&handles_lock);
		answer_lookup(name, t->sender_euid, &reply, &flags);
		break;
	case CODE_CHECK_UNION:
		is_lookup = true;
		pthread_rwlock_rdlock(&handles_lock);
		answer_with_union(name, &reply, &flags);
		break;
	case CODE_ADD_LATER:
		usleep(WHILE_US);
		set_service(c, name, sent.handle);
		break;
	case CODE_ADD:
		set_service(c, name, sent.handle);
		break;
	case CODE_COUNT: {
		struct binder_node_info_for_ref info = { .handle = handle_for(name) };

		if (ioctl(c->fd, BINDER_GET_NODE_INFO_FOR_REF, &info))
			info.strong_count = -1;
		put_u32(&reply, info.strong_count);
		break;
	}
	case CODE_FLUSH:
		forget(data + offset, t->data_size - offset);
		break;
	}
	/* as libbinder does */
	reply_to(c, t, flags | (t->flags & TF_CLEAR_BUF), &reply);
	if (is_lookup) {
		exchange(c, 0);
		pthread_rwlock_unlock(&handles_lock);
	}
}

static void *serve_as_manager(void *unused)
{
	struct client c = { .fd = manager.fd };

	queue_u32(&c, BC_ENTER_LOOPER);
	serve(&c, serve_call);
	return unused;
}

static void opt_in(void)
{
	struct binder_cache_profile profile = {
		.lookup_codes = 1 << CODE_GET | 1 << CODE_CHECK | 1 << CODE_CHECK_UNION,
		.volatile_size = 8,
		.uid_span = 100000, .isolated_first = 90000, .isolated_last = 99999,
	};
	struct parcel header;

	put_header(&header);
	profile.header_size = header.size - profile.volatile_size;
	memcpy(profile.header, header.data + profile.volatile_size, profile.header_size);
	if (ioctl(manager.fd, BINDER_CACHE_OPT_IN, &profile))
		die("BINDER_CACHE_OPT_IN");
}

void be_manager(const char *device, bool cooperative, int ready)
{
	uint32_t threads = 4;
	pthread_t thread;
	int i;

	open_binder(&manager, device, 1 << 20);
	if (ioctl(manager.fd, BINDER_SET_CONTEXT_MGR, 0))
		die("BINDER_SET_CONTEXT_MGR");
	ioctl(manager.fd, BINDER_SET_MAX_THREADS, &threads);
	cooperates = cooperative;
	if (cooperative)
		opt_in();
	for (i = 0; i < 3; i++)
		pthread_create(&thread, NULL, serve_as_manager, NULL);
	say_ready(ready);
	serve_as_manager(NULL);
}
