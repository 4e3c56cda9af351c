/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The parts of the kernel and of its binder driver that hooks.c uses, in user space.
 * The parts that interleave.c runs are functional; the rest only compiles.
 */
#ifndef _TEST_DRIVER_H
#define _TEST_DRIVER_H

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/types.h>
#include <assert.h>
#include <stdlib.h>

#include "schedule.h"

#include <linux/android/binder.h>

#define __user
#define noinline		__attribute__((__noinline__))
#ifndef __always_inline
#define __always_inline		inline __attribute__((__always_inline__))
#endif
#define READ_ONCE(place)	(*(volatile __typeof__(place) *)&(place))
#define WRITE_ONCE(place, to)	(READ_ONCE(place) = (to))
#define data_race(expression)	(expression)
#define smp_load_acquire(place)	READ_ONCE(*(place))
#define WARN_ON_ONCE(condition)	({ bool _is = (condition); if (_is) fail(#condition); _is; })
#define IS_ERR(pointer)		((unsigned long)(pointer) > -4096ul)
#define u64_to_user_ptr(value)	((void *)(uintptr_t)(value))
#define xchg(place, to)		((__typeof__(*(place)))exchange((void **)(place), to))
#define cmpxchg(place, from, to) \
	((__typeof__(*(place)))exchange_if((void **)(place), from, to))
#define DECLARE_STATIC_KEY_FALSE(name)	extern bool name
#define static_branch_unlikely(key)	(*(key))
#define time_before(a, b)		((long)((a) - (b)) < 0)

/* Threads switch at locks and at memory accesses; these are neither. */
typedef struct { int counter; } atomic_t;
typedef struct { long counter; } atomic_long_t;
#define atomic_inc(atomic)		(++(atomic)->counter)
#define atomic_dec(atomic)		(--(atomic)->counter)
#define atomic_inc_return(atomic)	(++(atomic)->counter)
#define atomic_long_inc(atomic)		(++(atomic)->counter)

enum rank { OUTER = 1, CACHE, NODE, INNER };

typedef struct lock spinlock_t;
#define spin_lock(lock)		take_lock(lock)
#define spin_unlock(lock)	drop_lock(lock)

extern unsigned long jiffies;

#define GFP_KERNEL	0
#define __GFP_NOWARN	0
#define __GFP_NORETRY	0
struct kmem_cache;
void *kmem_cache_alloc(struct kmem_cache *cache, int flags);
void *kzalloc(size_t size, int flags);

typedef struct { u32 value; } kuid_t;
#define __kuid_val(uid)	((uid).value)
#define KUIDT_INIT(uid)	((kuid_t){ uid })
struct user_namespace;
struct cred {
	kuid_t euid;
	struct user_namespace *user_ns;
};
struct task_struct;
u32 from_kuid(const struct user_namespace *namespace, kuid_t uid);
kuid_t task_euid(const struct task_struct *task);
const struct cred *current_cred(void);
const struct user_namespace *current_user_ns(void);
const struct cred *get_cred(const struct cred *cred);
void put_cred(const struct cred *cred);
void security_cred_getsecid(const struct cred *cred, u32 *id);
int security_binder_transaction(const struct cred *from, const struct cred *to);
int security_binder_transfer_binder(const struct cred *from, const struct cred *to);

unsigned long copy_from_user(void *to, const void *from, unsigned long size);
bool user_access_begin(const void *at, size_t size);
void user_access_end(void);
#define put_user(value, at)				(*(at) = (value), 0)
#define unsafe_get_user(value, at, fault)		do { if (!(at)) goto fault; (value) = *(at); } while (0)
#define unsafe_put_user(value, at, fault)		do { if (!(at)) goto fault; *(at) = (value); } while (0)
#define unsafe_copy_to_user(to, from, size, fault) \
	do { if (!(to)) goto fault; memcpy(to, from, size); } while (0)

struct kobject { int unused; };
struct kobj_type { int unused; };

static inline void list_del_init(struct list_head *entry)
{
	list_del(entry);
	INIT_LIST_HEAD(entry);
}

#define list_first_entry_or_null(head, type, member) \
	(list_empty(head) ? NULL : list_first_entry(head, type, member))

/* Not balanced. */
struct rb_node {
	struct rb_node *rb_left, *rb_right;
};

struct rb_root {
	struct rb_node *rb_node;
};

#define rb_entry(ptr, type, member)	container_of(ptr, type, member)

static inline void rb_add(struct rb_node *node, struct rb_root *tree,
			  bool (*less)(struct rb_node *, const struct rb_node *))
{
	struct rb_node **link = &tree->rb_node;

	while (*link)
		link = less(node, *link) ? &(*link)->rb_left : &(*link)->rb_right;
	*link = node;
}

/* ---- drivers/android/binder_internal.h ---- */

struct binder_work {
	struct list_head entry;
	enum {
		BINDER_WORK_TRANSACTION,
		BINDER_WORK_CACHED_REPLY,
		BINDER_WORK_CACHED_REPLY_ONLY,
	} type;
};

#include "../hooks.h"

struct binder_context {
	struct binder_cache *cache;
};

struct binder_alloc { int unused; };
struct wait_queue { int unused; };

struct binder_proc {
	struct binder_context *context;
	struct rb_root refs_by_desc, refs_by_node;
	spinlock_t inner_lock, outer_lock;
	struct binder_alloc alloc;
	const struct cred *cred;
	struct task_struct *tsk;
	int pid, outstanding_txns;
	bool is_frozen;
	struct wait_queue freeze_wait;
	struct binder_buffer *cache_parked;
	struct binder_ref *cache_spare_ref;
};

struct binder_node {
	spinlock_t lock;
	struct binder_proc *proc;
	struct hlist_head refs;
	int internal_strong_refs;
	bool cached, cache_never;
};

struct binder_ref {
	struct {
		int debug_id;
		u32 desc;
		int strong, weak;
	} data;
	struct rb_node rb_node_desc, rb_node_node;
	struct hlist_node node_entry;
	struct binder_proc *proc;
	struct binder_node *node;
};

struct binder_transaction;

struct binder_thread {
	struct binder_proc *proc;
	struct list_head todo;
	struct binder_transaction *transaction_stack;
	bool process_todo;
	struct binder_extended_error ee;
	struct binder_cache_slot cache;
};

struct binder_buffer {
	bool cache_change, cache_answer, clear_on_free, allow_user_free;
	u32 cache_desc;
	int debug_id;
	size_t data_size, offsets_size, extra_buffers_size;
	unsigned long user_data;
	struct binder_transaction *transaction;
	struct binder_node *target_node;
};

struct binder_transaction {
	struct binder_thread *to_thread;
	struct binder_buffer *buffer;
	unsigned long cache_note;
	u32 code, flags;
	kuid_t sender_euid;
};

enum { BINDER_STAT_REF };

extern atomic_t binder_last_id;
void binder_set_extended_error(struct binder_extended_error *error, u32 id, u32 command, int param);
void binder_stats_created(int type);
void binder_stat_br(struct binder_proc *proc, struct binder_thread *thread, u32 command);
void wake_up_interruptible_all(struct wait_queue *queue);
void binder_alloc_free_buf(struct binder_alloc *alloc, struct binder_buffer *buffer);
int binder_alloc_copy_to_buffer(struct binder_alloc *alloc, struct binder_buffer *buffer,
				u64 offset, void *from, size_t size);
int binder_alloc_copy_from_buffer(struct binder_alloc *alloc, void *to,
				  struct binder_buffer *buffer, u64 offset, size_t size);
struct binder_buffer *binder_cache_new_buffer(struct binder_alloc *alloc, size_t size);
struct binder_ref *binder_get_ref_olocked(struct binder_proc *proc, u32 desc, bool strong);
int binder_update_ref_for_handle(struct binder_proc *proc, u32 desc, bool increment,
				 bool strong, void *data);
void binder_cleanup_ref_olocked(struct binder_ref *ref);
void binder_free_ref(struct binder_ref *ref);
bool binder_cache_is_bare_ref(struct binder_ref *ref);
u32 binder_cache_choose_desc(struct binder_proc *proc);
void binder_cache_claim_desc(struct binder_proc *proc, u32 desc);
void binder_transaction(struct binder_proc *proc, struct binder_thread *thread,
			struct binder_transaction_data *data, int reply, u64 extra);

#endif
