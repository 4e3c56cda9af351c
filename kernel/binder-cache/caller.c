// SPDX-License-Identifier: GPL-2.0
/* The caller's side: whether it may be answered, and the answer. */

/* The security identifier that the manager sees; false: not an ordinary caller. */
static bool binder_cache_security_id(struct binder_proc *proc, struct binder_thread *thread,
				     u32 *security_id)
{
	struct binder_cache_slot *slot = &thread->cache;

	if (!slot->knows_security_id) {
		security_cred_getsecid(proc->cred, &slot->security_id);
		slot->knows_security_id = true;
	}
	*security_id = slot->security_id;
	/* A manager may ask for the context that the process has now. */
	if (current_cred() != proc->cred) {
		u32 now;

		security_cred_getsecid(current_cred(), &now);
		if (now != *security_id)
			return false;
	}
	return true;
}

/* Refusals of a real transaction are left to the real transaction. */
static bool binder_cache_may_call(struct binder_proc *proc, struct binder_thread *thread)
{
	struct binder_transaction *stack;
	struct binder_work *w;
	bool may;

	if (thread->cache.buffer)
		return false;
	inner_lock(proc);
	w = list_first_entry_or_null(&thread->todo, struct binder_work, entry);
	stack = thread->transaction_stack;
	may = !(w && w->type == BINDER_WORK_TRANSACTION) &&
	      !(stack && stack->to_thread != thread);
	inner_unlock(proc);
	return may;
}

/* All conditions that a caller must meet before it may get an answer. */
static enum binder_cache_count binder_cache_admit(struct binder_proc *proc,
						  struct binder_thread *thread,
						  const struct cred *manager_cred, size_t size,
						  struct binder_buffer **buffer)
{
	struct binder_cache_slot *slot = &thread->cache;

	if (!binder_cache_may_call(proc, thread))
		return BINDER_CACHE_REFUSED_CALLER;
	if (security_binder_transaction(proc->cred, manager_cred) < 0 ||
	    security_binder_transfer_binder(manager_cred, proc->cred))
		return BINDER_CACHE_REFUSED_LSM;
	if (!slot->spare_ref)
		slot->spare_ref = xchg(&proc->cache_spare_ref, NULL);
	if (!slot->spare_ref)
		slot->spare_ref = kzalloc(sizeof(*slot->spare_ref), GFP_KERNEL);
	if (!slot->spare_ref)
		return BINDER_CACHE_REFUSED_MEMORY;
	*buffer = binder_cache_get_buffer(proc, size);
	return *buffer ? BINDER_CACHE_HITS : BINDER_CACHE_REFUSED_BUFFER;
}

/*
 * Gives the caller its reference, if the entry that was found still exists.  The
 * cache's lock keeps the entry, and the entry keeps the node; see hooks.c.  Until
 * then @node is only a number, which no other node has while the entry exists.
 *
 * The descriptor is chosen under the process's own lock alone: this may walk all
 * references of the process, and the cache's lock is shared by the context.
 */
static enum binder_cache_count binder_cache_take(struct binder_proc *proc,
						 struct binder_thread *thread,
						 struct binder_node *node,
						 const struct bc_entry *entry, u64 removals,
						 struct bc_answer *answer)
{
	struct binder_cache *cache = proc->context->cache;
	struct binder_cache_slot *slot = &thread->cache;
	enum binder_cache_count result = BINDER_CACHE_REFUSED_STALE;
	struct flat_binder_object *object;
	struct binder_proc *owner;
	struct binder_ref *ref;
	u32 desc = 0;

	outer_lock(proc);
	ref = binder_cache_find_ref(proc, node);
	if (!ref)
		desc = binder_cache_choose_desc(proc);
	spin_lock(&cache->lock);
	if (cache->core.removals != removals)
		goto out;
	*answer = entry->answer;
	result = BINDER_CACHE_REFUSED_SERVICE;
	owner = READ_ONCE(node->proc);
	if (!owner)
		goto out;
	result = BINDER_CACHE_REFUSED_CALLER;
	if (owner == proc)
		goto out;
	result = BINDER_CACHE_REFUSED_MEMORY;
	if (!ref && !desc)
		goto out;
	if (!ref) {
		ref = slot->spare_ref;
		slot->spare_ref = NULL;
		binder_cache_add_ref(proc, node, ref, desc);
	} else {
		binder_cache_acquire(ref);
	}
	object = (void *)answer->data + answer->offset;
	object->handle = ref->data.desc;
	result = BINDER_CACHE_HITS;
out:
	spin_unlock(&cache->lock);
	outer_unlock(proc);
	return result;
}

/* The call is not a lookup, so it may change registrations. */
static void binder_cache_refuse_format(struct binder_cache *cache, struct binder_thread *thread)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	if (cache->active)
		binder_cache_refuse_format_locked(cache, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	if (cache->mode == BINDER_CACHE_TRANSPARENT)
		binder_cache_change(cache, thread);
}

static void binder_cache_identify(const struct binder_cache *cache, kuid_t euid,
				  u32 security_id, struct bc_caller *caller)
{
	const struct binder_cache_format *format = cache->format;

	caller->uid = __kuid_val(euid);
	caller->security_id = security_id;
	caller->isolated = false;
	if (format->uid_span && cache->manager_cred) {
		/* in the manager's user namespace */
		u32 uid = from_kuid(cache->manager_cred->user_ns, euid);

		uid %= format->uid_span;
		caller->isolated = uid >= format->isolated_first && uid <= format->isolated_last;
	}
}

/* Leaves a note for the transaction, so that its answer is learnt. */
static void binder_cache_miss(struct binder_cache *cache, struct binder_thread *thread,
			      const struct bc_question *question, const struct bc_caller *caller,
			      u64 generation)
{
	struct bc_entry *entry;

	binder_cache_count(cache, BINDER_CACHE_MISSES);
	entry = binder_cache_new_entry();
	if (!entry) {
		atomic_dec(&binder_cache_questions);
		binder_cache_count(cache, BINDER_CACHE_REFUSED_MEMORY);
		return;
	}
	bc_ask(entry, question, caller, generation);
	thread->cache.note = (unsigned long)entry;
}

/*
 * copy_from_user() also checks whether @size bytes of @request are within one
 * kernel object, which takes longer than the copy: the caller has checked it.
 */
static bool binder_cache_read_request(u8 *request, const u8 __user *user, size_t size)
{
	u64 word, next;
	u32 half;
	size_t i;

	if (!user_access_begin(user, size))
		return false;
	for (i = 0; i + 2 * sizeof(u64) <= size; i += 2 * sizeof(u64)) {
		unsafe_get_user(word, (const u64 __user *)(user + i), fault);
		unsafe_get_user(next, (const u64 __user *)(user + i + sizeof(u64)), fault);
		memcpy(request + i, &word, sizeof(u64));
		memcpy(request + i + sizeof(u64), &next, sizeof(u64));
	}
	if (i + sizeof(u64) <= size) {
		unsafe_get_user(word, (const u64 __user *)(user + i), fault);
		memcpy(request + i, &word, sizeof(u64));
		i += sizeof(u64);
	}
	if (i + sizeof(u32) <= size) {
		unsafe_get_user(half, (const u32 __user *)(user + i), fault);
		memcpy(request + i, &half, sizeof(u32));
		i += sizeof(u32);
	}
	for (; i < size; i++)
		unsafe_get_user(request[i], user + i, fault);
	user_access_end();
	return true;
fault:
	user_access_end();
	return false;
}

/* @room holds the request, which a note refers to. */
static bool binder_cache_lookup(struct binder_proc *proc, struct binder_thread *thread,
				struct binder_transaction_data *tr, u64 *room)
{
	struct binder_cache *cache = proc->context->cache;
	const struct binder_cache_format *format = cache->format;
	u32 prefix = READ_ONCE(format->volatile_size) + READ_ONCE(format->header_size);
	u8 *request = (u8 *)room + (-prefix & 7);
	size_t size = tr->data_size;
	const struct cred *manager_cred;
	enum binder_cache_count result;
	struct binder_buffer *buffer;
	struct bc_question question BINDER_CACHE_UNSET;
	struct bc_caller caller BINDER_CACHE_UNSET;
	struct bc_answer answer BINDER_CACHE_UNSET;
	struct binder_node *node;
	struct bc_entry *entry;
	u64 generation, removals;
	u32 security_id;

	if (size > BINDER_CACHE_REQUEST_MAX ||
	    !binder_cache_read_request(request, u64_to_user_ptr(tr->data.ptr.buffer), size)) {
		/* too long for a name, or not mapped: the stock path reports it */
		binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		return false;
	}
	if (!binder_cache_security_id(proc, thread, &security_id)) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		return false;
	}
	/* managers copy this flag to their answers */
	question.code = tr->code | (tr->flags & TF_CLEAR_BUF) << 8;
	question.size = size - prefix;
	question.key = (u64 *)(request + prefix);

	spin_lock(&cache->lock);
	if (!cache->active || READ_ONCE(*cache->is_frozen)) {
		spin_unlock(&cache->lock);
		return false;
	}
	if (!binder_cache_recognise(format, prefix, room, request, size) ||
	    !bc_seal(&cache->core, &question)) {
		spin_unlock(&cache->lock);
		binder_cache_refuse_format(cache, thread);
		return false;
	}
	cache->recognised = true;
	binder_cache_identify(cache, task_euid(proc->tsk), security_id, &caller);
	entry = bc_find(&cache->core, &question, &caller);
	if (!entry) {
		generation = cache->core.generation;
		atomic_inc(&binder_cache_questions);
		spin_unlock(&cache->lock);
		thread->cache.request = request;
		binder_cache_miss(cache, thread, &question, &caller, generation);
		return false;
	}
	size = entry->answer.size;
	node = entry->answer.object;
	removals = cache->core.removals;
	manager_cred = get_cred(cache->manager_cred);
	spin_unlock(&cache->lock);

	result = binder_cache_admit(proc, thread, manager_cred, size, &buffer);
	put_cred(manager_cred);
	if (result == BINDER_CACHE_HITS) {
		result = binder_cache_take(proc, thread, node, entry, removals, &answer);
		if (result == BINDER_CACHE_HITS)
			binder_cache_deliver(proc, thread, buffer, &answer);
		else
			binder_cache_put_buffer(proc, buffer);
	}
	binder_cache_count(cache, result);
	return result == BINDER_CACHE_HITS;
}

/* True if the call was answered. */
static bool binder_cache_answers(struct binder_proc *proc, struct binder_thread *thread,
				 struct binder_transaction_data *tr, bool has_extra, u64 *room)
{
	struct binder_cache *cache = proc->context->cache;
	u64 bit = tr->code < 64 ? 1ull << tr->code : 0;

	if (READ_ONCE(cache->manager_pid) == proc->pid)
		return false;
	if (bit & READ_ONCE(cache->format->lookup)) {
		if (has_extra || tr->offsets_size || tr->flags & TF_ONE_WAY)
			binder_cache_refuse_format(cache, thread);
		else if (tr->flags & ~(TF_ACCEPT_FDS | TF_CLEAR_BUF))
			binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		else
			return binder_cache_lookup(proc, thread, tr, room);
		return false;
	}
	thread->cache.announces_clients = bit & READ_ONCE(cache->format->clients);
	/* A call that sends a binder registers something, whatever the profile says. */
	if (!binder_cache_is_readonly(cache, tr->code) ||
	    (cache->mode == BINDER_CACHE_TRANSPARENT && (has_extra || tr->offsets_size)))
		binder_cache_change(cache, thread);
	return false;
}

/* A transaction to the context manager with @extra bytes of extra buffers. */
static noinline void binder_cache_transaction(struct binder_proc *proc,
					      struct binder_thread *thread,
					      struct binder_transaction_data *tr,
					      bool has_extra, binder_size_t extra)
{
	u64 room[BINDER_CACHE_REQUEST_MAX / 8 + 2] BINDER_CACHE_UNSET;
	struct binder_cache_slot *slot = &thread->cache;

	if (binder_cache_answers(proc, thread, tr, has_extra, room))
		return;
	binder_transaction(proc, thread, tr, false, extra);
	/* A failed transaction leaves the note. */
	if (slot->note)
		binder_cache_drop_note(slot->note);
	slot->note = 0;
	slot->announces_clients = false;
}
