// SPDX-License-Identifier: GPL-2.0
/* The manager's side: which of its answers are learnt, and forgotten. */

static struct bc_entry *binder_cache_entry(unsigned long note)
{
	return note & BINDER_CACHE_CHANGE ? NULL : (struct bc_entry *)note;
}

static void binder_cache_drop_question(struct bc_entry *entry)
{
	atomic_dec(&binder_cache_questions);
	binder_cache_free_entry(entry);
}

static noinline void binder_cache_drop_note(unsigned long note)
{
	if (note & BINDER_CACHE_CHANGE)
		binder_cache_end_change((struct binder_cache *)(note & ~BINDER_CACHE_CHANGE));
	else
		binder_cache_drop_question(binder_cache_entry(note));
}

/*
 * The manager receives a one-way change, whose buffer it cannot have freed yet: the
 * change ends when it does.
 */
static noinline void binder_cache_change_delivered(struct binder_transaction *t)
{
	struct binder_cache *cache = (void *)(t->cache_note & ~BINDER_CACHE_CHANGE);

	t->cache_note = 0;
	t->buffer->cache_change = true;
	spin_lock(&cache->lock);
	cache->oneway_changes++;
	spin_unlock(&cache->lock);
}

static inline void binder_cache_delivered(struct binder_transaction *t)
{
	if (t->cache_note & BINDER_CACHE_CHANGE && t->flags & TF_ONE_WAY)
		binder_cache_change_delivered(t);
}

static noinline void binder_cache_buffer_freed(struct binder_proc *proc,
					       struct binder_buffer *buffer)
{
	struct binder_cache *cache = proc->context->cache;

	buffer->cache_change = false;
	spin_lock(&cache->lock);
	if (cache->manager == proc) {
		cache->oneway_changes--;
		bc_change_end(&cache->core);
	}
	spin_unlock(&cache->lock);
}

/* Under the lock, so that binder_cache_insert() runs before, or sees that it must not learn. */
static void binder_cache_forget_node(struct binder_cache *cache, struct binder_node *node,
				     bool never)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	if (READ_ONCE(node->cached) && !node->cache_never)
		bc_forget_object(&cache->core, node, &gone);
	node->cache_never |= never;
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
}

/* A lazy service is notified about its clients, so all of them must be the manager's. */
static noinline void binder_cache_exclude(struct binder_context *context, struct binder_node *node)
{
	if (context->cache)
		binder_cache_forget_node(context->cache, node, true);
}

/* The node's process has exited, and node->proc is NULL. */
static noinline void binder_cache_node_gone(struct binder_context *context,
					    struct binder_node *node)
{
	if (context->cache)
		binder_cache_forget_node(context->cache, node, false);
}

/* The thread sends its own binder. */
static noinline void binder_cache_sends_node(struct binder_thread *thread, struct binder_node *node)
{
	thread->cache.node = NULL;
	if (thread->cache.announces_clients)
		binder_cache_exclude(thread->proc->context, node);
}

/* @proc, whose outer lock is held and which has a strong reference, sends the handle. */
static noinline void binder_cache_sends_handle(struct binder_proc *proc, struct binder_node *node)
{
	struct binder_cache *cache = proc->context->cache;

	if (cache && READ_ONCE(cache->manager) == proc)
		WRITE_ONCE(node->cached, true);
}

/*
 * The manager may drop the node, under the outer lock that is held: answers to
 * earlier questions are not learnt either.
 */
static noinline void binder_cache_ref_gone(struct binder_ref *ref)
{
	struct binder_cache *cache = ref->proc->context->cache;

	if (READ_ONCE(cache->manager) == ref->proc)
		binder_cache_forget_object(cache, ref->node);
}

/* A call that may change registrations: nothing is known until it has ended. */
static void binder_cache_change(struct binder_cache *cache, struct binder_thread *thread)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	bc_change_begin(&cache->core, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	thread->cache.note = (unsigned long)cache | BINDER_CACHE_CHANGE;
}

/*
 * Attaches the note to the transaction that is being made.  A question whose answer
 * is to be learnt is sent as it was looked up, because the caller may have
 * overwritten it since.  True: it was copied, and nothing is left to copy.
 */
static noinline bool binder_cache_send(struct binder_thread *thread, struct binder_proc *manager,
				       struct binder_transaction *t)
{
	struct binder_cache_slot *slot = &thread->cache;

	t->cache_note = slot->note;
	slot->note = 0;
	if (!binder_cache_entry(t->cache_note))
		return false;
	/* cannot fail: the buffer has just been allocated for it */
	return !WARN_ON_ONCE(binder_alloc_copy_to_buffer(&manager->alloc, t->buffer, 0,
							 slot->request, t->buffer->data_size));
}

/* Fills in the answer from the reply @t; false: it must not be kept. */
static bool binder_cache_read_reply(struct binder_cache *cache, struct binder_proc *client,
				    struct binder_transaction *t, struct bc_answer *answer)
{
	struct binder_buffer *buffer = t->buffer;
	size_t size = buffer->data_size;

	if (t->flags & TF_STATUS_CODE || size > BC_ANSWER_MAX ||
	    buffer->offsets_size != sizeof(binder_size_t) || buffer->extra_buffers_size)
		return false;
	if (binder_alloc_copy_from_buffer(&client->alloc, answer->data, buffer, 0,
					  ALIGN(size, sizeof(u64)) + sizeof(binder_size_t)))
		return false;
	answer->code = t->code;
	answer->flags = t->flags;
	answer->uid = __kuid_val(t->sender_euid);
	return binder_cache_read_answer(cache->format, answer, size);
}

/*
 * The manager had a strong reference to @node when it sent the handle, after the
 * question was asked.  It still has it if the generation is the question's, and
 * cannot drop it while the cache's lock is held; otherwise @node is only a number.
 */
static enum binder_cache_count binder_cache_insert(struct binder_cache *cache,
						   struct binder_proc *manager,
						   struct binder_node *node, struct bc_entry *entry,
						   enum bc_scope scope, struct list_head *gone)
{
	enum binder_cache_count result = BINDER_CACHE_REFUSED_SERVICE;

	spin_lock(&cache->lock);
	if (!cache->active || cache->manager != manager || !node) {
		list_add(&entry->order, gone);
	} else if (bc_is_stale(&cache->core, entry) || time_before(jiffies, cache->quiet_until)) {
		result = BINDER_CACHE_REFUSED_STALE;
		list_add(&entry->order, gone);
	} else if (!READ_ONCE(node->proc) || node->cache_never) {
		list_add(&entry->order, gone);
	} else {
		entry->answer.object = node;
		/* not stale: checked above */
		result = bc_learn(&cache->core, entry, scope, gone) == BC_KEPT ?
			 BINDER_CACHE_FILLS : BINDER_CACHE_REFUSED_LIMIT;
	}
	spin_unlock(&cache->lock);
	return result;
}

static void binder_cache_learn(struct binder_cache *cache, struct binder_thread *manager,
			       struct binder_proc *client, struct binder_transaction *t,
			       struct bc_entry *entry, enum bc_scope scope)
{
	enum binder_cache_count result;
	LIST_HEAD(gone);

	if (scope == BC_SCOPE_NONE) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_UNMARKED);
		binder_cache_drop_question(entry);
		return;
	}
	if (!binder_cache_read_reply(cache, client, t, &entry->answer)) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_REPLY);
		binder_cache_drop_question(entry);
		return;
	}
	result = binder_cache_insert(cache, manager->proc, manager->cache.node, entry, scope,
				     &gone);
	atomic_dec(&binder_cache_questions);
	binder_cache_count(cache, result);
	if (!list_empty(&gone))
		binder_cache_free_entries(&gone);
}

/*
 * Called with a reply that is ready and not yet visible to the client: a change
 * ends before its caller can know.
 */
static noinline void binder_cache_replied(struct binder_thread *thread,
					  struct binder_proc *client,
					  struct binder_transaction *t,
					  struct binder_transaction *in_reply_to)
{
	struct binder_proc *proc = thread->proc;
	struct binder_cache *cache = proc->context->cache;
	unsigned long note = in_reply_to->cache_note;
	enum bc_scope scope = BC_SHARED_BY_ALL ? BC_SCOPE_ANY : BC_SCOPE_EXACT;
	struct bc_entry *entry;

	if (cache && READ_ONCE(cache->opted_in) && READ_ONCE(cache->manager) == proc) {
		scope = (t->flags & BINDER_CACHE_SCOPE) / BINDER_CACHE_EXACT;
		t->flags &= ~BINDER_CACHE_SCOPE;
	}
	if (!note) {
		/* The call began before the cache was on: a change without a beginning. */
		if (binder_cache_is_active(proc->context) && READ_ONCE(cache->manager) == proc &&
		    !binder_cache_is_readonly(cache, in_reply_to->code))
			binder_cache_forget_all(cache);
		return;
	}
	in_reply_to->cache_note = 0;
	entry = binder_cache_entry(note);
	/* The process may have changed its user before the call reached the manager. */
	if (!entry || entry->uid != __kuid_val(in_reply_to->sender_euid))
		binder_cache_drop_note(note);
	else
		binder_cache_learn(cache, thread, client, t, entry, scope);
}

/* True when the reply @t must go through binder_cache_replied(). */
static inline bool binder_cache_hears(struct binder_proc *proc, struct binder_transaction *t,
				      struct binder_transaction *in_reply_to)
{
	struct binder_cache *cache = proc->context->cache;

	return in_reply_to->cache_note || t->flags & BINDER_CACHE_SCOPE ||
	       (cache && READ_ONCE(cache->manager) == proc);
}

static int binder_cache_ioctl_opt_in(struct binder_proc *proc, void __user *user)
{
	struct binder_cache_profile profile;

	if (!proc->context->cache)
		return -EOPNOTSUPP;
	if (copy_from_user(&profile, user, sizeof(profile)))
		return -EFAULT;
	return binder_cache_opt_in(proc->context->cache, proc, &profile);
}

static int binder_cache_ioctl_flush(struct binder_proc *proc, void __user *user)
{
	struct binder_cache_flush flush;
	u64 key[BC_KEY_MAX / 8];

	if (!proc->context->cache)
		return -EOPNOTSUPP;
	if (copy_from_user(&flush, user, sizeof(flush)))
		return -EFAULT;
	if (flush.key_size > BC_KEY_MAX || flush.reserved)
		return -EINVAL;
	if (copy_from_user(key, u64_to_user_ptr(flush.key), flush.key_size))
		return -EFAULT;
	return binder_cache_flush(proc->context->cache, proc, key, flush.key_size);
}
