// SPDX-License-Identifier: GPL-2.0
/* Answers from the cache: buffer and reference, made, delivered, read and freed. */

/*
 * The last answer's buffer is kept for the next one.  A call that finds no space
 * frees it; true: the call may find space now.
 */
static bool binder_cache_unpark(struct binder_proc *proc)
{
	struct binder_buffer *parked = xchg(&proc->cache_parked, NULL);

	if (!parked)
		return false;
	binder_alloc_free_buf(&proc->alloc, parked);
	return true;
}

static struct binder_buffer *binder_cache_get_buffer(struct binder_proc *proc, size_t size)
{
	struct binder_buffer *buffer = xchg(&proc->cache_parked, NULL);

	if (buffer) {
		if (buffer->data_size == size)
			return buffer;
		binder_alloc_free_buf(&proc->alloc, buffer);
	}
	buffer = binder_cache_new_buffer(&proc->alloc, size);
	return IS_ERR(buffer) ? NULL : buffer;
}

static void binder_cache_put_buffer(struct binder_proc *proc, struct binder_buffer *buffer)
{
	if (buffer->clear_on_free || cmpxchg(&proc->cache_parked, NULL, buffer))
		binder_alloc_free_buf(&proc->alloc, buffer);
}

/*
 * A reference that is freed is kept for the process's next answer, zeroed as
 * kzalloc() returns it.  True: it must not be freed.
 */
static noinline bool binder_cache_keep_ref(struct binder_ref *ref)
{
	struct binder_proc *proc = ref->proc;

	if (!binder_cache_is_bare_ref(ref) || READ_ONCE(proc->cache_spare_ref))
		return false;
	memset(ref, 0, sizeof(*ref));
	return !cmpxchg(&proc->cache_spare_ref, NULL, ref);
}

/* True if dropping the last strong reference frees @ref without further notifications. */
static bool binder_cache_is_last(struct binder_proc *proc, const struct binder_ref *ref)
{
	return !ref->data.weak && READ_ONCE(proc->context->cache->manager) != proc;
}

/* The client frees an answer: does what binder_free_buf() does, for one handle. */
static noinline void binder_cache_free_answer(struct binder_proc *proc,
					      struct binder_buffer *buffer)
{
	struct binder_ref *ref;

	buffer->cache_answer = false;
	outer_lock(proc);
	ref = binder_get_ref_olocked(proc, buffer->cache_desc, true);
	if (ref && ref->data.strong > 1) {
		ref->data.strong--;
		outer_unlock(proc);
		binder_cache_put_buffer(proc, buffer);
		return;
	}
	if (!ref || !binder_cache_is_last(proc, ref)) {
		outer_unlock(proc);
		if (ref)
			binder_update_ref_for_handle(proc, buffer->cache_desc, false, true, NULL);
		binder_cache_put_buffer(proc, buffer);
		return;
	}
	binder_cleanup_ref_olocked(ref);
	outer_unlock(proc);
	binder_free_ref(ref);
	binder_cache_put_buffer(proc, buffer);
}

static bool binder_cache_node_is_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct binder_ref, rb_node_node)->node <
	       rb_entry(b, struct binder_ref, rb_node_node)->node;
}

static bool binder_cache_desc_is_less(struct rb_node *a, const struct rb_node *b)
{
	return rb_entry(a, struct binder_ref, rb_node_desc)->data.desc <
	       rb_entry(b, struct binder_ref, rb_node_desc)->data.desc;
}

/*
 * Takes @ref's first strong reference to its node, which the manager holds one of;
 * the node's lock is held.
 */
static void binder_cache_acquire_first(struct binder_ref *ref)
{
	struct binder_node *node = ref->node;
	struct binder_proc *owner = node->proc;

	ref->data.strong = 1;
	if (owner)
		inner_lock(owner);
	WARN_ON_ONCE(!node->internal_strong_refs);
	node->internal_strong_refs++;
	if (owner)
		inner_unlock(owner);
}

/* Takes another strong reference, like binder_inc_ref_olocked(). */
static void binder_cache_acquire(struct binder_ref *ref)
{
	if (ref->data.strong) {
		ref->data.strong++;
		return;
	}
	spin_lock(&ref->node->lock);
	binder_cache_acquire_first(ref);
	spin_unlock(&ref->node->lock);
}

/*
 * Does what binder_get_ref_for_node_olocked() does with @ref after it has chosen
 * @desc, and acquires it.  It neither sleeps nor drops a lock, because the cache's
 * lock is held.
 */
static void binder_cache_add_ref(struct binder_proc *proc, struct binder_node *node,
				 struct binder_ref *ref, u32 desc)
{
	binder_stats_created(BINDER_STAT_REF);
	ref->data.debug_id = atomic_inc_return(&binder_last_id);
	ref->data.desc = desc;
	ref->proc = proc;
	ref->node = node;
	binder_cache_claim_desc(proc, desc);
	rb_add(&ref->rb_node_node, &proc->refs_by_node, binder_cache_node_is_less);
	rb_add(&ref->rb_node_desc, &proc->refs_by_desc, binder_cache_desc_is_less);
	spin_lock(&node->lock);
	hlist_add_head(&ref->node_entry, &node->refs);
	binder_cache_acquire_first(ref);
	spin_unlock(&node->lock);
}

/* Delivers @answer as if the manager had replied. */
static void binder_cache_deliver(struct binder_proc *proc, struct binder_thread *thread,
				 struct binder_buffer *buffer, struct bc_answer *answer)
{
	struct binder_cache_slot *slot = &thread->cache;
	struct flat_binder_object *object = (void *)answer->data + answer->offset;
	int debug_id = atomic_inc_return(&binder_last_id);

	binder_alloc_copy_to_buffer(&proc->alloc, buffer, 0, answer->data,
				    ALIGN(answer->size, sizeof(u64)) + sizeof(binder_size_t));
	/*
	 * These fields share a word with @free, which the allocator reads of each buffer
	 * that it passes.  Nothing else writes to the word of a buffer that is in use.
	 */
	data_race(buffer->debug_id = debug_id);
	data_race(buffer->clear_on_free = !!(answer->flags & TF_CLEAR_BUF)); /* the same */
	buffer->transaction = NULL;
	buffer->target_node = NULL;
	buffer->cache_answer = true;
	buffer->cache_desc = object->handle;

	slot->buffer = buffer;
	slot->code = answer->code;
	slot->flags = answer->flags;
	slot->euid = KUIDT_INIT(answer->uid);
	slot->work.type = BINDER_WORK_CACHED_REPLY;
	inner_lock(proc);
	binder_set_extended_error(&thread->ee, debug_id, BR_OK, 0);
	list_add_tail(&slot->work.entry, &thread->todo);
	thread->process_todo = true;
	proc->outstanding_txns++;
	inner_unlock(proc);
}

/* Puts the reply back at the head of the list, after its BR_TRANSACTION_COMPLETE. */
static void binder_cache_keep_reply(struct binder_thread *thread)
{
	thread->cache.work.type = BINDER_WORK_CACHED_REPLY_ONLY;
	list_add(&thread->cache.work.entry, &thread->todo);
	thread->process_todo = true;
}

static void binder_cache_reply_gone(struct binder_proc *proc)
{
	proc->outstanding_txns--;
	if (!proc->outstanding_txns && proc->is_frozen)
		wake_up_interruptible_all(&proc->freeze_wait);
}

static int binder_cache_read_complete(struct binder_proc *proc, struct binder_thread *thread,
				      void __user **ptr)
{
	inner_lock(proc);
	binder_cache_keep_reply(thread);
	inner_unlock(proc);
	if (put_user(BR_TRANSACTION_COMPLETE, (u32 __user *)*ptr))
		return -EFAULT;
	*ptr += sizeof(u32);
	binder_stat_br(proc, thread, BR_TRANSACTION_COMPLETE);
	return 0;
}

/*
 * Copies the answer to its thread's read buffer: called with the inner lock held,
 * which it releases.  1: the read is over, 0: it continues, or an error.
 */
static __always_inline int binder_cache_read_ilocked(struct binder_proc *proc,
						     struct binder_thread *thread,
						     void __user **ptr, void __user *end)
{
	struct binder_cache_slot *slot = &thread->cache;
	struct binder_buffer *buffer = slot->buffer;
	bool completes = slot->work.type == BINDER_WORK_CACHED_REPLY;
	/* each field is set below, and there is no padding: it is copied as it is */
	struct binder_transaction_data data BINDER_CACHE_UNSET;
	u32 __user *command = *ptr;

	static_assert(sizeof(data) == 64, "a field that is not set would leak the stack");

	/* Space is reserved for the largest command, as in the rest of the driver. */
	if (completes &&
	    end - *ptr < 2 * sizeof(u32) + sizeof(struct binder_transaction_data_secctx)) {
		inner_unlock(proc);
		return binder_cache_read_complete(proc, thread, ptr);
	}
	slot->buffer = NULL;
	binder_cache_reply_gone(proc);
	inner_unlock(proc);

	data.target.ptr = 0;
	data.cookie = 0;
	data.code = slot->code;
	data.flags = slot->flags;
	data.sender_pid = 0;
	data.sender_euid = from_kuid(current_user_ns(), slot->euid);
	data.data_size = buffer->data_size;
	data.offsets_size = buffer->offsets_size;
	data.data.ptr.buffer = (uintptr_t)buffer->user_data;
	data.data.ptr.offsets = data.data.ptr.buffer + ALIGN(buffer->data_size, sizeof(void *));
	if (!user_access_begin(command, 2 * sizeof(u32) + sizeof(data)))
		return -EFAULT;
	if (completes)
		unsafe_put_user(BR_TRANSACTION_COMPLETE, command++, fault);
	unsafe_put_user(BR_REPLY, command++, fault);
	unsafe_copy_to_user((char __user *)command, (char *)&data, sizeof(data), fault);
	user_access_end();
	*ptr = (void __user *)command + sizeof(data);
	if (completes)
		binder_stat_br(proc, thread, BR_TRANSACTION_COMPLETE);
	binder_stat_br(proc, thread, BR_REPLY);
	data_race(buffer->allow_user_free = 1); /* as in binder_cache_deliver() */
	return 1;
fault:
	user_access_end();
	return -EFAULT;
}

static noinline int binder_cache_read(struct binder_proc *proc, struct binder_thread *thread,
				      void __user **ptr, void __user *end)
{
	return binder_cache_read_ilocked(proc, thread, ptr, end);
}

/* The same if nothing else is to be read first: no need to wait. */
static noinline int binder_cache_read_first(struct binder_proc *proc,
					    struct binder_thread *thread,
					    void __user **ptr, void __user *end)
{
	struct binder_work *work = &thread->cache.work;

	inner_lock(proc);
	if (thread->todo.next != &work->entry ||
	    end - *ptr < sizeof(u32) + sizeof(struct binder_transaction_data_secctx)) {
		inner_unlock(proc);
		return 0;
	}
	list_del_init(&work->entry);
	if (list_empty(&thread->todo))
		thread->process_todo = false;
	return binder_cache_read_ilocked(proc, thread, ptr, end);
}

/* The thread exits without having read: the buffer is freed with the process. */
static void binder_cache_unread(struct binder_proc *proc, struct binder_work *w)
{
	struct binder_thread *thread = container_of(w, struct binder_thread, cache.work);

	thread->cache.buffer = NULL;
	inner_lock(proc);
	binder_cache_reply_gone(proc);
	inner_unlock(proc);
}
