// SPDX-License-Identifier: GPL-2.0
/*
 * What the driver does with the cache.  Included by binder.c, whose own static
 * functions it needs.
 *
 * An entry names a node without a reference.  It may, because an entry exists
 * only while the manager itself holds a strong reference: entries are made
 * under the manager's outer lock with that reference seen, and dropped under
 * the same lock before it goes.
 */

#include <linux/cred.h>

#include "cache.h"

#define BINDER_CACHE_REQUEST_MAX \
	(BINDER_CACHE_VOLATILE_MAX + BINDER_CACHE_HEADER_MAX + BC_KEY_MAX)

#define BINDER_CACHE_CHANGE	1ul

/* The driver's own macros trace every lock, which is a third of a hit. */
#define inner_lock(proc)	spin_lock(&(proc)->inner_lock)
#define inner_unlock(proc)	spin_unlock(&(proc)->inner_lock)
#define outer_lock(proc)	spin_lock(&(proc)->outer_lock)
#define outer_unlock(proc)	spin_unlock(&(proc)->outer_lock)

static inline bool binder_cache_is_active(struct binder_context *context)
{
	return context->cache && READ_ONCE(context->cache->active);
}

static struct bc_entry *binder_cache_entry(unsigned long note)
{
	return note & BINDER_CACHE_CHANGE ? NULL : (struct bc_entry *)note;
}

static noinline void binder_cache_drop_note(unsigned long note)
{
	if (note & BINDER_CACHE_CHANGE)
		binder_cache_end_change((struct binder_cache *)(note & ~BINDER_CACHE_CHANGE));
	else
		kfree(binder_cache_entry(note));
}

/*
 * The manager gets a call, whose buffer it cannot have freed yet.  A one-way
 * call is over when it does.
 */
static noinline void binder_cache_delivered(struct binder_transaction *t)
{
	struct binder_cache *cache = (void *)(t->cache_note & ~BINDER_CACHE_CHANGE);

	if (!(t->cache_note & BINDER_CACHE_CHANGE) || !(t->flags & TF_ONE_WAY))
		return;
	t->cache_note = 0;
	t->buffer->cache_change = true;
	spin_lock(&cache->lock);
	cache->oneway_changes++;
	spin_unlock(&cache->lock);
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

/* Its user is told about its clients, who must then all be the manager's. */
static noinline void binder_cache_exclude(struct binder_context *context, struct binder_node *node)
{
	node->cache_never = true;
	if (node->cached)
		binder_cache_forget_object(context->cache, node);
}

/* The manager lets the node go, or its owner died. */
static noinline void binder_cache_lost(struct binder_context *context, struct binder_node *node)
{
	if (node->cached)
		binder_cache_forget_object(context->cache, node);
}

static noinline void binder_cache_ref_gone(struct binder_ref *ref)
{
	struct binder_context *context = ref->proc->context;

	if (READ_ONCE(context->cache->manager) == ref->proc)
		binder_cache_lost(context, ref->node);
}

/* The security identifier that the manager sees; false: not a plain caller. */
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

/* What a real transaction would be refused for is left to a real one. */
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

/*
 * The last answer's buffer is kept for the next one.  Whoever finds no room
 * takes it away; true: it may find some now.
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

/* The client has done with an answer: what binder_free_buf() does, for one handle. */
static noinline void binder_cache_free_answer(struct binder_proc *proc,
					      struct binder_thread *thread,
					      struct binder_buffer *buffer)
{
	struct binder_cache_slot *slot = &thread->cache;
	struct binder_ref *ref;

	buffer->cache_answer = false;
	outer_lock(proc);
	ref = binder_get_ref_olocked(proc, buffer->cache_desc, true);
	if (ref && !binder_dec_ref_olocked(ref, true))
		ref = NULL;
	outer_unlock(proc);
	if (ref && !slot->spare_ref && binder_cache_is_bare_ref(ref)) {
		memset(ref, 0, sizeof(*ref));
		slot->spare_ref = ref;
	} else if (ref) {
		binder_free_ref(ref);
	}
	binder_cache_put_buffer(proc, buffer);
}

/* Everything that a caller must be or have before it may be given an answer. */
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
		slot->spare_ref = kzalloc(sizeof(*slot->spare_ref), GFP_KERNEL);
	if (!slot->spare_ref)
		return BINDER_CACHE_REFUSED_MEMORY;
	*buffer = binder_cache_get_buffer(proc, size);
	return *buffer ? BINDER_CACHE_HITS : BINDER_CACHE_REFUSED_BUFFER;
}

/*
 * Gives the caller its reference, if the entry that was found is still there.
 * The cache's lock keeps the entry, and that the node; see above.
 */
static enum binder_cache_count binder_cache_take(struct binder_proc *proc,
						 struct binder_thread *thread,
						 const struct bc_entry *entry, u64 removals,
						 struct bc_answer *answer)
{
	struct binder_cache *cache = proc->context->cache;
	struct binder_cache_slot *slot = &thread->cache;
	enum binder_cache_count result = BINDER_CACHE_REFUSED_STALE;
	struct flat_binder_object *object;
	struct binder_node *node;
	struct binder_ref *ref;

	outer_lock(proc);
	spin_lock(&cache->lock);
	if (cache->core.removals != removals)
		goto out;
	*answer = entry->answer;
	node = answer->object;
	result = BINDER_CACHE_REFUSED_SERVICE;
	if (!READ_ONCE(node->proc))
		goto out;
	result = BINDER_CACHE_REFUSED_CALLER;
	if (node->proc == proc)
		goto out;
	ref = binder_get_ref_for_node_olocked(proc, node, NULL);
	if (!ref && binder_cache_may_add_ref(proc)) {
		ref = binder_get_ref_for_node_olocked(proc, node, slot->spare_ref);
		slot->spare_ref = NULL;
	}
	if (!ref)
		goto out;
	/* cannot fail: the manager's reference is strong */
	WARN_ON_ONCE(binder_inc_ref_olocked(ref, true, NULL));
	object = (void *)answer->data + answer->offset;
	object->handle = ref->data.desc;
	result = BINDER_CACHE_HITS;
out:
	spin_unlock(&cache->lock);
	outer_unlock(proc);
	return result;
}

/* As if the manager had replied. */
static void binder_cache_deliver(struct binder_proc *proc, struct binder_thread *thread,
				 struct binder_buffer *buffer, struct bc_answer *answer)
{
	struct binder_cache_slot *slot = &thread->cache;
	struct flat_binder_object *object = (void *)answer->data + answer->offset;
	int debug_id = atomic_inc_return(&binder_last_id);

	binder_alloc_copy_to_buffer(&proc->alloc, buffer, 0, answer->data,
				    ALIGN(answer->size, sizeof(u64)) + sizeof(binder_size_t));
	buffer->debug_id = debug_id;
	buffer->transaction = NULL;
	buffer->target_node = NULL;
	buffer->clear_on_free = !!(answer->flags & TF_CLEAR_BUF);
	buffer->cache_answer = true;
	buffer->cache_desc = object->handle;

	slot->buffer = buffer;
	slot->code = answer->code;
	slot->flags = answer->flags;
	slot->euid = KUIDT_INIT(answer->uid);
	slot->work.type = BINDER_WORK_CACHED_REPLY;
	inner_lock(proc);
	binder_set_extended_error(&thread->ee, debug_id, BR_OK, 0);
	binder_enqueue_thread_work_ilocked(thread, &slot->work);
	proc->outstanding_txns++;
	inner_unlock(proc);
}

/* A call that may change registrations: nothing is known until it is over. */
static void binder_cache_change(struct binder_cache *cache, struct binder_thread *thread)
{
	LIST_HEAD(gone);

	spin_lock(&cache->lock);
	bc_change_begin(&cache->core, &gone);
	spin_unlock(&cache->lock);
	binder_cache_free_entries(&gone);
	thread->cache.note = (unsigned long)cache | BINDER_CACHE_CHANGE;
}

/* Whatever it is, it is no look-up: it may change registrations as well. */
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

/* Leaves a note for the transaction: its answer is to be learnt. */
static void binder_cache_miss(struct binder_cache *cache, struct binder_thread *thread,
			      const struct bc_question *question, const struct bc_caller *caller,
			      u64 generation)
{
	struct bc_entry *entry;

	binder_cache_count(cache, BINDER_CACHE_MISSES);
	entry = kmalloc(bc_entry_bytes(question),
			GFP_KERNEL_ACCOUNT | __GFP_NOWARN | __GFP_NORETRY);
	if (!entry) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_MEMORY);
		return;
	}
	bc_ask(entry, question, caller, generation);
	thread->cache.note = (unsigned long)entry;
}

static bool binder_cache_look_up(struct binder_proc *proc, struct binder_thread *thread,
				 struct binder_transaction_data *tr)
{
	struct binder_cache *cache = proc->context->cache;
	u32 prefix = READ_ONCE(cache->format.volatile_size) + READ_ONCE(cache->format.header_size);
	u64 aligned[BINDER_CACHE_REQUEST_MAX / 8 + 2];
	u8 *request = (u8 *)aligned + (-prefix & 7);
	size_t size = tr->data_size;
	const struct cred *manager_cred;
	enum binder_cache_count result;
	struct binder_buffer *buffer;
	struct bc_question question;
	struct bc_caller caller;
	struct bc_answer answer;
	struct bc_entry *entry;
	u64 generation, removals;
	u32 security_id;

	if (size > BINDER_CACHE_REQUEST_MAX ||
	    copy_from_user(request, (void __user *)(uintptr_t)tr->data.ptr.buffer, size)) {
		/* too long to be a name, or not there: stock tells */
		binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		return false;
	}
	if (!binder_cache_security_id(proc, thread, &security_id)) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		return false;
	}
	question.code = tr->code;
	question.size = size - prefix;
	question.key = (u64 *)(request + prefix);

	spin_lock(&cache->lock);
	if (!cache->active || READ_ONCE(*cache->is_frozen)) {
		spin_unlock(&cache->lock);
		return false;
	}
	if (!binder_cache_recognise(cache, prefix, request, size) ||
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
		spin_unlock(&cache->lock);
		binder_cache_miss(cache, thread, &question, &caller, generation);
		return false;
	}
	size = entry->answer.size;
	removals = cache->core.removals;
	manager_cred = get_cred(cache->manager_cred);
	spin_unlock(&cache->lock);

	result = binder_cache_admit(proc, thread, manager_cred, size, &buffer);
	put_cred(manager_cred);
	if (result == BINDER_CACHE_HITS) {
		result = binder_cache_take(proc, thread, entry, removals, &answer);
		if (result == BINDER_CACHE_HITS)
			binder_cache_deliver(proc, thread, buffer, &answer);
		else
			binder_cache_put_buffer(proc, buffer);
	}
	binder_cache_count(cache, result);
	return result == BINDER_CACHE_HITS;
}

/* True: it was answered. */
static bool binder_cache_answers(struct binder_proc *proc, struct binder_thread *thread,
				 struct binder_transaction_data *tr, bool has_extra)
{
	struct binder_cache *cache = proc->context->cache;
	u64 bit = tr->code < 64 ? 1ull << tr->code : 0;

	if (READ_ONCE(cache->manager_pid) == proc->pid)
		return false;
	if (bit & READ_ONCE(cache->format.lookup)) {
		if (has_extra || tr->offsets_size || tr->flags & TF_ONE_WAY)
			binder_cache_refuse_format(cache, thread);
		else if (tr->flags & ~TF_ACCEPT_FDS)
			/* managers copy some flags to their answers */
			binder_cache_count(cache, BINDER_CACHE_REFUSED_CALLER);
		else
			return binder_cache_look_up(proc, thread, tr);
		return false;
	}
	thread->cache.announces_clients = bit & READ_ONCE(cache->format.clients);
	/* Who sends a binder registers something, whatever the profile says. */
	if (!binder_cache_is_readonly(cache, tr->code) ||
	    (cache->mode == BINDER_CACHE_TRANSPARENT && (has_extra || tr->offsets_size)))
		binder_cache_change(cache, thread);
	return false;
}

/* A transaction to the context manager, of which @extra bytes are other buffers. */
static noinline void binder_cache_transaction(struct binder_proc *proc,
					      struct binder_thread *thread,
					      struct binder_transaction_data *tr,
					      bool has_extra, binder_size_t extra)
{
	struct binder_cache_slot *slot = &thread->cache;

	if (binder_cache_answers(proc, thread, tr, has_extra))
		return;
	binder_transaction(proc, thread, tr, false, extra);
	/* What a failed transaction did not take with it. */
	if (slot->note)
		binder_cache_drop_note(slot->note);
	slot->note = 0;
	slot->announces_clients = false;
}

/*
 * The caller may have written another question over the one that was looked
 * up: what the manager will read is what its answer is learnt for.
 */
static noinline void binder_cache_sent(struct binder_proc *manager, struct binder_transaction *t)
{
	struct bc_entry *entry = binder_cache_entry(t->cache_note);
	struct binder_cache *cache = manager->context->cache;
	size_t size = t->buffer->data_size;
	u8 request[BINDER_CACHE_REQUEST_MAX];
	bool same = false;

	if (!entry)
		return;
	if (size >= entry->size && size <= sizeof(request) &&
	    !binder_alloc_copy_from_buffer(&manager->alloc, request, t->buffer, 0, size)) {
		u32 prefix = size - entry->size;

		spin_lock(&cache->lock);
		same = binder_cache_recognise(cache, prefix, request, size) &&
		       !memcmp(request + prefix, entry->key, entry->size);
		spin_unlock(&cache->lock);
	}
	if (same)
		return;
	binder_cache_count(cache, BINDER_CACHE_REFUSED_STALE);
	t->cache_note = 0;
	kfree(entry);
}

/* Fills in the answer from the reply @t; false: it is none to be kept. */
static bool binder_cache_read_reply(struct binder_cache *cache, struct binder_proc *client,
				    struct binder_transaction *t, struct bc_answer *answer)
{
	struct binder_buffer *buffer = t->buffer;
	struct flat_binder_object *object;
	size_t size = buffer->data_size;
	binder_size_t offset;

	if (t->flags & TF_STATUS_CODE || size > BC_ANSWER_MAX ||
	    buffer->offsets_size != sizeof(offset) || buffer->extra_buffers_size)
		return false;
	if (binder_alloc_copy_from_buffer(&client->alloc, answer->data, buffer, 0,
					  ALIGN(size, sizeof(u64)) + sizeof(offset)))
		return false;
	/* what lies between is the client's, from calls before */
	memset((u8 *)answer->data + size, 0, ALIGN(size, sizeof(u64)) - size);
	/* checked when the reply was translated: within the data */
	offset = answer->data[ALIGN(size, sizeof(u64)) / sizeof(u64)];
	object = (void *)answer->data + offset;
	if (object->hdr.type != BINDER_TYPE_HANDLE)
		return false;
	answer->size = size;
	answer->offset = offset;
	answer->code = t->code;
	answer->flags = t->flags;
	answer->uid = __kuid_val(t->sender_euid);
	return binder_cache_is_answer(cache, answer, sizeof(*object));
}

/*
 * The manager's reference keeps the node; without one there is no entry.  Until
 * it is found, @node is a number: that it is no other node's by now follows
 * from the generation.
 */
static enum binder_cache_count binder_cache_insert(struct binder_cache *cache,
						   struct binder_proc *manager,
						   struct binder_node *node, struct bc_entry *entry,
						   enum bc_scope scope, struct list_head *gone)
{
	enum binder_cache_count result = BINDER_CACHE_REFUSED_SERVICE;
	struct binder_ref *ref;

	outer_lock(manager);
	ref = node ? binder_get_ref_for_node_olocked(manager, node, NULL) : NULL;
	spin_lock(&cache->lock);
	if (!cache->active || cache->manager != manager || !ref || !ref->data.strong ||
	    !READ_ONCE(node->proc) || node->cache_never) {
		list_add(&entry->order, gone);
	} else {
		node->cached = true;
		entry->answer.object = node;
		switch (binder_cache_learn_locked(cache, entry, scope, gone)) {
		case BC_KEPT:
			result = BINDER_CACHE_FILLS;
			break;
		case BC_STALE:
			result = BINDER_CACHE_REFUSED_STALE;
			break;
		case BC_OVER_LIMIT:
			result = BINDER_CACHE_REFUSED_LIMIT;
			break;
		}
	}
	spin_unlock(&cache->lock);
	outer_unlock(manager);
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
		kfree(entry);
		return;
	}
	if (!binder_cache_read_reply(cache, client, t, &entry->answer)) {
		binder_cache_count(cache, BINDER_CACHE_REFUSED_REPLY);
		kfree(entry);
		return;
	}
	result = binder_cache_insert(cache, manager->proc, manager->cache.node, entry, scope,
				     &gone);
	binder_cache_count(cache, result);
	binder_cache_free_entries(&gone);
}

/*
 * Called with a reply that is ready and not yet visible to the client: a
 * change is over before its caller can know.
 */
static noinline void binder_cache_replied(struct binder_thread *thread,
					  struct binder_proc *client,
					  struct binder_transaction *t,
					  struct binder_transaction *in_reply_to)
{
	struct binder_proc *proc = thread->proc;
	struct binder_cache *cache = proc->context->cache;
	unsigned long note = in_reply_to->cache_note;
	enum bc_scope scope = BC_SCOPE_EXACT;
	struct bc_entry *entry;

	if (READ_ONCE(cache->opted_in) && READ_ONCE(cache->manager) == proc) {
		scope = (t->flags & BINDER_CACHE_SCOPE) / BINDER_CACHE_EXACT;
		t->flags &= ~BINDER_CACHE_SCOPE;
	}
	if (!note)
		return;
	in_reply_to->cache_note = 0;
	entry = binder_cache_entry(note);
	/* The process may have changed its user before the manager was told. */
	if (!entry || entry->uid != __kuid_val(in_reply_to->sender_euid))
		binder_cache_drop_note(note);
	else
		binder_cache_learn(cache, thread, client, t, entry, scope);
}

/* Back at the head of the list, its BR_TRANSACTION_COMPLETE delivered. */
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
 * Hands the answer to its thread, which reads: called with the inner lock
 * held, which it gives back.  1: the read is over, 0: it goes on, or an error.
 */
static noinline int binder_cache_read(struct binder_proc *proc, struct binder_thread *thread,
				      void __user **ptr, void __user *end)
{
	struct binder_cache_slot *slot = &thread->cache;
	struct binder_buffer *buffer = slot->buffer;
	bool completes = slot->work.type == BINDER_WORK_CACHED_REPLY;
	struct {
		u32 commands[2];
		struct binder_transaction_data data;
	} answer = { { BR_TRANSACTION_COMPLETE, BR_REPLY } };
	size_t skipped = completes ? 0 : sizeof(u32);

	/* Room is kept for the largest thing there is, as everywhere. */
	if (completes &&
	    end - *ptr < 2 * sizeof(u32) + sizeof(struct binder_transaction_data_secctx)) {
		inner_unlock(proc);
		return binder_cache_read_complete(proc, thread, ptr);
	}
	slot->buffer = NULL;
	binder_cache_reply_gone(proc);
	inner_unlock(proc);

	answer.data.code = slot->code;
	answer.data.flags = slot->flags;
	answer.data.sender_euid = from_kuid(current_user_ns(), slot->euid);
	answer.data.data_size = buffer->data_size;
	answer.data.offsets_size = buffer->offsets_size;
	answer.data.data.ptr.buffer = (uintptr_t)buffer->user_data;
	answer.data.data.ptr.offsets = answer.data.data.ptr.buffer +
				       ALIGN(buffer->data_size, sizeof(void *));
	if (copy_to_user(*ptr, (u8 *)&answer + skipped, sizeof(answer) - skipped))
		return -EFAULT;
	*ptr += sizeof(answer) - skipped;
	if (completes)
		binder_stat_br(proc, thread, BR_TRANSACTION_COMPLETE);
	binder_stat_br(proc, thread, BR_REPLY);
	buffer->allow_user_free = 1;
	return 1;
}

/* The same where nothing else is to be read first: no need to wait. */
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
	return binder_cache_read(proc, thread, ptr, end);
}

/* The thread ends without having read: the buffer goes with the process. */
static void binder_cache_unread(struct binder_proc *proc, struct binder_work *w)
{
	struct binder_thread *thread = container_of(w, struct binder_thread, cache.work);

	thread->cache.buffer = NULL;
	inner_lock(proc);
	binder_cache_reply_gone(proc);
	inner_unlock(proc);
}

/* True when a reply must go through binder_cache_replied(). */
static inline bool binder_cache_hears(struct binder_proc *proc,
				      struct binder_transaction *in_reply_to)
{
	struct binder_cache *cache = proc->context->cache;

	return in_reply_to->cache_note || (cache && READ_ONCE(cache->opted_in));
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
