// SPDX-License-Identifier: GPL-2.0
/* See wire.h.  The wire format is Android 11's. */

#define _GNU_SOURCE
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mman.h>
#include <unistd.h>

#include "wire.h"

void die(const char *what)
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

	/* the handle, or descriptor, is in the same place as the binder */
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

/* Answers binder's query about a node of ours, if @command is one. */
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

enum found lookup_by(struct client *c, uint32_t code, const char *name)
{
	struct parcel p;

	put_header(&p);
	put_string(&p, name);
	return call(c, 0, code, 0, &p);
}

enum found lookup(struct client *c, const char *name)
{
	return lookup_by(c, CODE_CHECK, name);
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
	int handle = lookup(c, name) == FOUND ? (int)object(c)->handle : -1;

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
	/* sends take()'s answers about the node */
	exchange(c, 0);
	return found;
}
