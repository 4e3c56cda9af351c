// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver does with the cache.  Included by binder.c, whose own static
 * functions it needs.
 *
 * An entry names a node without a reference.  It may, because an entry exists
 * only while the manager itself holds a strong reference.  The manager had one
 * when it sent the node's handle, and the cache hears of each that goes before
 * the node can: its entries are dropped, and what was asked before is not learnt.
 */

#include <linux/cred.h>

#include "cache.h"

#define BINDER_CACHE_CHANGE	1ul

/* Kernels that clear the stack at every call take long to clear what is filled anyway. */
#define BINDER_CACHE_UNSET	__attribute__((__uninitialized__))

/* The driver's own macros trace every lock, which is a third of a hit. */
#define inner_lock(proc)	spin_lock(&(proc)->inner_lock)
#define inner_unlock(proc)	spin_unlock(&(proc)->inner_lock)
#define outer_lock(proc)	spin_lock(&(proc)->outer_lock)
#define outer_unlock(proc)	spin_unlock(&(proc)->outer_lock)

static inline bool binder_cache_is_active(struct binder_context *context)
{
	/* with its format */
	return context->cache && smp_load_acquire(&context->cache->active);
}

/* What the driver's own search does when it has nothing to insert. */
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
