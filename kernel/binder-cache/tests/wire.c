// SPDX-License-Identifier: GPL-2.0
/* See wire.h.  The wire format is Android 11's. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "../binder_cache.h"
#include "wire.h"

#define SERVICES	512
#define NAME		64
#define WHILE_US	60000

static void die(const char *what)
{
	perror(what);
	exit(2);
}

void open_binder(struct client *c, const char *device, size_t map_size)
{
	memset(c, 0, sizeof(*c));
	c->fd = open(device, O_RDWR | O_CLOEXEC);
	if (c->fd < 0)
		die(device);
	c->map_size = map_size;
	c->map = mmap(NULL, map_size, PROT_READ, MAP_PRIVATE, c->fd, 0);
	if (c->map == MAP_FAILED)
		die("mmap");
}

void close_binder(struct client *c)
{
	munmap(c->map, c->map_size);
	close(c->fd);
}

void put_u32(struct parcel *p, uint32_t value)
{
	memcpy(p->data + p->size, &value, sizeof(value));
	p->size += sizeof(value);
}

void put_string(struct parcel *p, const char *text)
{
	put_u32(p, strlen(text));
	do {
		p->data[p->size++] = *text;
		p->data[p->size++] = 0;
	} while (*text++);
	while (p->size % 4)
		p->data[p->size++] = 0;
}

void put_object(struct parcel *p, uint32_t type, uint64_t binder_or_handle)
{
	struct flat_binder_object fbo = { .hdr.type = type, .flags = 0x17f };

	/* the handle, or descriptor, lies where the binder does */
	fbo.binder = binder_or_handle;
	if (type == BINDER_TYPE_BINDER)
		fbo.cookie = binder_or_handle;
	p->objects[p->object_count++] = p->size;
	memcpy(p->data + p->size, &fbo, sizeof(fbo));
	p->size += sizeof(fbo);
}

void put_header(struct parcel *p)
{
	memset(p, 0, sizeof(*p));
	put_u32(p, 0);
	put_u32(p, -1);
	put_u32(p, 0x53595354);
	put_string(p, "android.os.IServiceManager");
}

void queue(struct client *c, const void *bytes, size_t size)
{
	memcpy(c->out + c->out_size, bytes, size);
	c->out_size += size;
}

void queue_u32(struct client *c, uint32_t value)
{
	queue(c, &value, sizeof(value));
}

void queue_transaction(struct client *c, uint32_t command, uint32_t handle, uint32_t code,
		       uint32_t flags, const struct parcel *p)
{
	struct binder_transaction_data t = {
		.target.handle = handle, .code = code, .flags = flags,
		.data_size = p->size, .offsets_size = p->object_count * sizeof(binder_size_t),
		.data.ptr.buffer = (uintptr_t)p->data, .data.ptr.offsets = (uintptr_t)p->objects,
	};

	queue_u32(c, command);
	queue(c, &t, sizeof(t));
}

void queue_free(struct client *c, uint64_t buffer)
{
	queue_u32(c, BC_FREE_BUFFER);
	queue(c, &buffer, sizeof(buffer));
}

int exchange(struct client *c, size_t room)
{
	struct binder_write_read bwr = {
		.write_size = c->out_size, .write_buffer = (uintptr_t)c->out,
		.read_size = room, .read_buffer = (uintptr_t)c->in,
	};
	int result = ioctl(c->fd, BINDER_WRITE_READ, &bwr);

	c->out_size = 0;
	return result < 0 ? -errno : (int)bwr.read_consumed;
}

/* Answers binder's question about a node of ours, if @command is one. */
static void take_reference(struct client *c, uint32_t command, const uint8_t *at)
{
	if (command != BR_INCREFS && command != BR_ACQUIRE)
		return;
	queue_u32(c, command == BR_INCREFS ? BC_INCREFS_DONE : BC_ACQUIRE_DONE);
	queue(c, at, sizeof(struct binder_ptr_cookie));
}

bool take(struct client *c, int size)
{
	const uint8_t *at = c->in, *end = c->in + size;
	bool over = false;

	while (at < end) {
		uint32_t command;

		memcpy(&command, at, sizeof(command));
		at += sizeof(command);
		switch (command) {
		case BR_REPLY:
			memcpy(&c->reply, at, sizeof(c->reply));
			over = true;
			break;
		case BR_TRANSACTION_COMPLETE:
			c->completed = true;
			break;
		case BR_DEAD_REPLY:
		case BR_FAILED_REPLY:
		case BR_FROZEN_REPLY:
			c->error = command;
			over = true;
			break;
		default:
			take_reference(c, command, at);
		}
		at += _IOC_SIZE(command);
	}
	return over;
}

void serve(struct client *c, answer_fn *answer)
{
	for (;;) {
		int size = exchange(c, sizeof(c->in));
		const uint8_t *at = c->in, *end = c->in + size;

		if (size < 0)
			exit(3);
		while (at < end) {
			struct binder_transaction_data t;
			uint32_t command;

			memcpy(&command, at, sizeof(command));
			at += sizeof(command);
			if (command == BR_TRANSACTION) {
				memcpy(&t, at, sizeof(t));
				answer(c, &t);
			} else {
				take_reference(c, command, at);
			}
			at += _IOC_SIZE(command);
		}
	}
}

void reply_to(struct client *c, const struct binder_transaction_data *t, uint32_t flags,
	      const struct parcel *reply)
{
	queue_free(c, t->data.ptr.buffer);
	if (!(t->flags & TF_ONE_WAY))
		queue_transaction(c, BC_REPLY, 0, 0, flags, reply);
}

void say_ready(int ready)
{
	if (write(ready, "r", 1) != 1)
		die("ready");
}

enum found call(struct client *c, uint32_t handle, uint32_t code, uint32_t flags,
		const struct parcel *p)
{
	c->error = 0;
	c->completed = false;
	memset(&c->reply, 0, sizeof(c->reply));
	queue_transaction(c, BC_TRANSACTION, handle, code, flags, p);
	for (;;) {
		int size = exchange(c, sizeof(c->in));

		if (size < 0)
			return FAILED;
		if (take(c, size))
			break;
		if (flags & TF_ONE_WAY && c->completed)
			return NOTHING;
	}
	if (c->error)
		return FAILED;
	return c->reply.offsets_size ? FOUND : NOTHING;
}

enum found look_up_by(struct client *c, uint32_t code, const char *name)
{
	struct parcel p;

	put_header(&p);
	put_string(&p, name);
	return call(c, 0, code, 0, &p);
}

enum found look_up(struct client *c, const char *name)
{
	return look_up_by(c, CODE_CHECK, name);
}

void free_reply(struct client *c)
{
	if (!c->reply.data.ptr.buffer)
		return;
	queue_free(c, c->reply.data.ptr.buffer);
	exchange(c, 0);
	c->reply.data.ptr.buffer = 0;
}

const struct flat_binder_object *object(const struct client *c)
{
	const binder_size_t *offset = (const void *)(uintptr_t)c->reply.data.ptr.offsets;

	return (const void *)(uintptr_t)(c->reply.data.ptr.buffer + *offset);
}

int handle_of(struct client *c, const char *name)
{
	int handle = look_up(c, name) == FOUND ? (int)object(c)->handle : -1;

	free_reply(c);
	return handle;
}

enum found add_service(struct client *c, const char *name, uint64_t binder, uint32_t code,
		       uint32_t flags)
{
	enum found found;
	struct parcel p;

	put_header(&p);
	put_string(&p, name);
	put_object(&p, BINDER_TYPE_BINDER, binder);
	found = call(c, 0, code, flags, &p);
	free_reply(c);
	/* what take() has answered about the node */
	exchange(c, 0);
	return found;
}

/* ---- the manager ---- */

static struct {
	char name[NAME];
	uint32_t handle;
} services[SERVICES];

static int service_count;
static pthread_mutex_t services_lock = PTHREAD_MUTEX_INITIALIZER;
/* Held while a handle may be on its way out; written to let one go. */
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
	/* A manager may hold what it no longer gives out. */
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

static void answer_look_up(const char *name, uint32_t uid, struct parcel *reply, uint32_t *flags)
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
	/* so that the answer does not end where a word does */
	if (begins(name, "ragged."))
		put_u32(reply, 0);
}

/* A service with its metadata, or an object that makes connections to one. */
static void answer_with_union(const char *name, struct parcel *reply, uint32_t *flags)
{
	uint32_t handle = handle_for(name);
	bool is_accessor = begins(name, "accessor.");

	if (!handle)
		return;
	*flags |= mark_of(name);
	/* it is not null, which of the two it is */
	put_u32(reply, 1);
	put_u32(reply, is_accessor);
	if (!is_accessor) {
		/* not null either, and how long it is */
		put_u32(reply, 1);
		put_u32(reply, 36);
	}
	put_object(reply, BINDER_TYPE_HANDLE, handle);
	put_u32(reply, 12);
	/* whether it is started when it is wanted */
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
	bool is_look_up = false;
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
		is_look_up = !begins(name, "slow.");
		if (is_look_up)
			pthread_rwlock_rdlock(&handles_lock);
		answer_look_up(name, t->sender_euid, &reply, &flags);
		break;
	case CODE_CHECK_UNION:
		is_look_up = true;
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
	if (is_look_up) {
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
