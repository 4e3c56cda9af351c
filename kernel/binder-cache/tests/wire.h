/* SPDX-License-Identifier: GPL-2.0 */
/*
 * A minimal binder client for the tests that run in a guest: one process or thread
 * with a descriptor, parcels, lookups, and a context manager whose behaviour
 * depends on the requested names.
 */
#ifndef _WIRE_H
#define _WIRE_H

#include <linux/android/binder.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum code {
	CODE_GET = 1,
	CODE_CHECK = 2,
	CODE_ADD = 3,
	CODE_LIST = 4,
	/* replaces a service after a delay that the manager chooses */
	CODE_ADD_LATER = 5,
	/* requests the strong references of a service, as for a lazy one */
	CODE_COUNT = 6,
	/* a service requests notifications about its clients */
	CODE_CLIENTS = 7,
	/* removes one name: BINDER_CACHE_FLUSH */
	CODE_FLUSH = 8,
	/* like CODE_CHECK; the answer is Android 16's union `Service` */
	CODE_CHECK_UNION = 9,
};

enum found {
	FOUND,
	NOTHING,
	FAILED,
};

struct parcel {
	uint8_t data[1024];
	size_t size;
	binder_size_t objects[16];
	int object_count;
};

struct client {
	int fd;
	void *map;
	size_t map_size;
	uint8_t out[2048];
	size_t out_size;
	uint8_t in[512];
	/* of the last call */
	struct binder_transaction_data reply;
	bool completed;
	uint32_t error;
};

void open_binder(struct client *c, const char *device, size_t map_size);
void close_binder(struct client *c);

void put_u32(struct parcel *p, uint32_t value);
void put_string(struct parcel *p, const char *text);
void put_object(struct parcel *p, uint32_t type, uint64_t binder_or_handle);
void put_header(struct parcel *p);

void queue_u32(struct client *c, uint32_t value);
void queue(struct client *c, const void *bytes, size_t size);
void queue_transaction(struct client *c, uint32_t command, uint32_t handle, uint32_t code,
		       uint32_t flags, const struct parcel *p);
void queue_free(struct client *c, uint64_t buffer);

/* Writes the queued commands and reads at most @room bytes; bytes read or -errno. */
int exchange(struct client *c, size_t room);

/* Answers binder's queries about nodes, keeps the reply; true: a reply arrived. */
bool take(struct client *c, int size);

/* A call and its answer, whose buffer stays in @c->reply. */
enum found call(struct client *c, uint32_t handle, uint32_t code, uint32_t flags,
		const struct parcel *p);
enum found lookup_by(struct client *c, uint32_t code, const char *name);
enum found lookup(struct client *c, const char *name);
void free_reply(struct client *c);

/* The object in the reply. */
const struct flat_binder_object *object(const struct client *c);

/* Looks up, frees, and returns the handle, or -1. */
int handle_of(struct client *c, const char *name);

enum found add_service(struct client *c, const char *name, uint64_t binder, uint32_t code,
		       uint32_t flags);

typedef void answer_fn(struct client *c, const struct binder_transaction_data *t);

/* Serves calls with @answer on this thread, as a looper; never returns. */
void serve(struct client *c, answer_fn *answer);

/* Frees a call's buffer; the answer is sent with the next exchange. */
void reply_to(struct client *c, const struct binder_transaction_data *t, uint32_t flags,
	      const struct parcel *reply);

/* Prints why @what failed, and ends the process. */
void die(const char *what);

/* Notifies the process at the other end of the pipe @ready. */
void say_ready(int ready);

/* Serves as the context manager of @device; never returns. */
void be_manager(const char *device, bool cooperative, int ready);

#endif
