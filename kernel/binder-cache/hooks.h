/* SPDX-License-Identifier: GPL-2.0 */
/* The cache's fields in the driver's structures. */
#ifndef _BINDER_CACHE_HOOKS_H
#define _BINDER_CACHE_HOOKS_H

#include <linux/jump_label.h>

struct binder_buffer;
struct binder_cache;
struct binder_node;
struct binder_ref;

/**
 * struct binder_cache_slot - the cache's part of a thread
 * @note:		of the transaction that is being made: 0, the entry that
 *			waits for its answer, or, tagged, the cache that must not
 *			learn until a change has ended
 * @request:		the lookup that @note, if it is an entry, belongs to; valid
 *			only during the call
 * @work:		the answer on the thread's list
 * @buffer:		the answer that was not read yet; NULL: @work is unused
 * @code:		the reply's code
 * @flags:		the reply's flags
 * @euid:		the manager's user when it answered
 * @security_id:	the process's identifier, once known
 * @knows_security_id:	@security_id is valid
 * @announces_clients:	binders in this transaction are lazy services
 * @node:		the node of the last handle that the thread sent, only
 *			compared; NULL if it has sent its own binder since
 * @spare_ref:		preallocated reference, zeroed; those that the process frees
 *			are kept for it in the process
 *
 * All except @work, which is on the thread's list, are accessed only by the thread.
 */
struct binder_cache_slot {
	unsigned long note;
	void *request;
	struct binder_work work;
	struct binder_buffer *buffer;
	u32 code;
	u32 flags;
	kuid_t euid;
	u32 security_id;
	bool knows_security_id;
	bool announces_clients;
	struct binder_node *node;
	struct binder_ref *spare_ref;
};

/* True once a cache is in use: until then hooks are no-operations. */
DECLARE_STATIC_KEY_FALSE(binder_cache_key);
#define binder_cache_in_use()	static_branch_unlikely(&binder_cache_key)

#endif /* _BINDER_CACHE_HOOKS_H */
