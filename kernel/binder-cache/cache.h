/* SPDX-License-Identifier: GPL-2.0 */
/* One context's cache: the core with its lock, mode, format and counters. */
#ifndef _BINDER_CACHE_H
#define _BINDER_CACHE_H

#include <linux/atomic.h>
#include <linux/cred.h>
#include <linux/kobject.h>
#include <linux/list.h>
#include <linux/slab.h>
#include <linux/spinlock.h>
#include <linux/types.h>

#include "core.h"
#include "format.h"

struct dentry;
struct user_namespace;

enum binder_cache_mode {
	BINDER_CACHE_OFF,
	BINDER_CACHE_COOPERATIVE,
	BINDER_CACHE_TRANSPARENT,
};

enum binder_cache_count {
	BINDER_CACHE_HITS,
	BINDER_CACHE_MISSES,
	BINDER_CACHE_FILLS,
	BINDER_CACHE_FLUSHES,
	BINDER_CACHE_REFUSED_FORMAT,
	BINDER_CACHE_REFUSED_CALLER,
	BINDER_CACHE_REFUSED_LSM,
	BINDER_CACHE_REFUSED_BUFFER,
	BINDER_CACHE_REFUSED_REPLY,
	BINDER_CACHE_REFUSED_UNMARKED,
	BINDER_CACHE_REFUSED_STALE,
	BINDER_CACHE_REFUSED_SERVICE,
	BINDER_CACHE_REFUSED_LIMIT,
	BINDER_CACHE_REFUSED_MEMORY,
	BINDER_CACHE_COUNTS,
};

/**
 * struct binder_cache_tables - allocated when a cache gets its first format
 * @core:	tables of the entries
 * @profile:	the administrator's format
 * @offered:	the manager's format
 * @format:	the one of the two that is in use
 */
struct binder_cache_tables {
	struct bc_tables core;
	struct binder_cache_format profile;
	struct binder_cache_format offered;
	struct binder_cache_format format;
};

/**
 * struct binder_cache - the cache of one context
 * @active:		calls to the manager are inspected (a hint; exact under @lock)
 * @lock:		protects the fields below, except the counters.  Taken inside
 *			a proc's outer lock, outside node and inner locks
 * @core:		the entries
 * @mode:		set by the administrator
 * @refused:		the first lookup did not match the profile
 * @recognised:		a lookup matched the format
 * @is_awake:		this cache keeps the driver's hooks awake
 * @has_profile:		the profile was set
 * @opted_in:		the manager has offered a format
 * @tables:		NULL until a format is known; permanent then
 * @format:		the one in @tables that is in use; may be read after
 *			@active was read as true
 * @manager:		the manager's process, only compared; NULL: none
 * @manager_pid:	its PID: it may have other descriptors
 * @manager_cred:	its credentials, for the security modules
 * @is_frozen:		its state: a frozen manager answers no call
 * @oneway_changes:	changes that last until the manager frees their buffer
 * @quiet_until:	nothing is learnt before this time, in jiffies
 * @counts:		see README.md
 * @kobj:		/sys/kernel/binder_cache/CONTEXT
 * @debugfs:		its list of entries
 * @link:		in the list of all caches
 */
struct binder_cache {
	bool active;
	spinlock_t lock;	/* all but the counters; see above for its place */
	struct bc_core core;
	enum binder_cache_mode mode;
	bool refused;
	bool recognised;
	bool is_awake;
	bool has_profile;
	bool opted_in;
	struct binder_cache_tables *tables;
	struct binder_cache_format *format;
	const void *manager;
	int manager_pid;
	const struct cred *manager_cred;
	const bool *is_frozen;
	int oneway_changes;
	unsigned long quiet_until;
	atomic_long_t counts[BINDER_CACHE_COUNTS];
	struct kobject kobj;
	struct dentry *debugfs;
	struct list_head link;
};

static inline void binder_cache_count(struct binder_cache *cache,
				      enum binder_cache_count count)
{
	atomic_long_inc(&cache->counts[count]);
}

/* cache.c */

/* Whether the driver's hooks are awake, and how often their code was patched. */
extern bool binder_cache_hooks_awake;
extern unsigned long binder_cache_hooks_switched;

/*
 * Lookups in progress whose answers are to be learnt, in all contexts: counted
 * from under the lock of an active cache until their notes are dropped.
 */
extern atomic_t binder_cache_questions;

void binder_cache_free_entries(struct list_head *gone);
void binder_cache_forget_all(struct binder_cache *cache);
void binder_cache_forget_object(struct binder_cache *cache, const void *object);
void binder_cache_end_change(struct binder_cache *cache);
void binder_cache_set_mode(struct binder_cache *cache, enum binder_cache_mode mode);
int binder_cache_set_profile(struct binder_cache *cache,
			     const struct binder_cache_format *format);
void binder_cache_set_manager(struct binder_cache *cache, const void *manager, int pid,
			      const struct cred *cred, const bool *is_frozen);
int binder_cache_opt_in(struct binder_cache *cache, const void *manager,
			const struct binder_cache_profile *profile);
int binder_cache_flush(struct binder_cache *cache, const void *manager,
		       u64 *key, u32 size);

bool binder_cache_prepare_entries(void);
void binder_cache_leave_hooks(struct binder_cache *cache);
void binder_cache_free(struct binder_cache *cache);
void binder_cache_free_entry(struct bc_entry *entry);
bool binder_cache_is_readonly(const struct binder_cache *cache, u32 code);
void binder_cache_refuse_format_locked(struct binder_cache *cache, struct list_head *gone);

extern struct kmem_cache *binder_cache_entries;

static inline struct bc_entry *binder_cache_new_entry(void)
{
	return kmem_cache_alloc(binder_cache_entries, GFP_KERNEL | __GFP_NOWARN | __GFP_NORETRY);
}

/* sysfs.c */
extern struct kobj_type binder_cache_type;
void binder_cache_show_entries(struct binder_cache *cache, struct dentry *root,
			       const char *name);
void binder_cache_show_hooks(struct dentry *root);

/* contexts.c */
struct binder_cache *binder_cache_create(const char *name);
struct binder_cache *binder_cache_create_minor(const char *name, int minor,
					       const struct user_namespace *owner);
void binder_cache_hide(struct binder_cache *cache);
void binder_cache_destroy(struct binder_cache *cache);

#endif /* _BINDER_CACHE_H */
