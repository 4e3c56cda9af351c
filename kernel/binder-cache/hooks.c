// SPDX-License-Identifier: GPL-2.0
/*
 * The driver's hooks.  Included by binder.c, because they need its static
 * functions.
 *
 * An entry points to a node without a reference.  This is safe, because an entry
 * exists only while the manager itself holds a strong reference: the manager had
 * one when it sent the node's handle, and the cache is called before each such
 * reference is dropped.  It then removes the entries and invalidates open questions.
 */

#include <linux/cred.h>

#include "cache.h"

#define BINDER_CACHE_CHANGE	1ul

/* Kernels that clear the stack at every call would clear what is filled anyway. */
#define BINDER_CACHE_UNSET	__attribute__((__uninitialized__))

/* The driver's own macros trace every lock, which takes a third of a hit. */
#define inner_lock(proc)	spin_lock(&(proc)->inner_lock)
#define inner_unlock(proc)	spin_unlock(&(proc)->inner_lock)
#define outer_lock(proc)	spin_lock(&(proc)->outer_lock)
#define outer_unlock(proc)	spin_unlock(&(proc)->outer_lock)

static inline bool binder_cache_is_active(struct binder_context *context)
{
	/* pairs with the release in settle_locked(): @format is valid */
	return context->cache && smp_load_acquire(&context->cache->active);
}

/* The driver's own search without an insertion. */
static struct binder_ref *binder_cache_find_ref(struct binder_proc *proc,
						const struct binder_node *node)
{
	struct rb_node *n = proc->refs_by_node.rb_node;

	while (n) {
		struct binder_ref *ref = rb_entry(n, struct binder_ref, rb_node_node);

		if (node < ref->node)
			n = n->rb_left;
		else if (node > ref->node)
			n = n->rb_right;
		else
			return ref;
	}
	return NULL;
}

#include "manager.c"
#include "answer.c"
#include "caller.c"
