// SPDX-License-Identifier: GPL-2.0
/*
 * Two CPUs that operate on one service at a time, in every order of their memory
 * accesses with at most two switches.  A race in a guest hits a window of some
 * instructions once in millions of runs; this hits it every time.
 */

#include <stdio.h>

#include "driver.h"

static noinline void binder_cache_drop_note(unsigned long note);
static noinline void binder_cache_sends_node(struct binder_thread *thread,
					     struct binder_node *node);
static noinline void binder_cache_ref_gone(struct binder_ref *ref);
static void binder_cache_change(struct binder_cache *cache, struct binder_thread *thread);

#include "../hooks.c"

unsigned long jiffies = 1000;
atomic_t binder_last_id, binder_cache_questions;
bool binder_cache_key = true;

static struct cred cred;
static struct binder_cache cache;
static struct binder_cache_tables tables;
static struct binder_context binder = { .cache = &cache };
static struct binder_proc manager, owner, client;
static struct binder_thread caller, other_caller, replier;
static struct binder_node node;
static int nodes_users;
static struct binder_ref managers_ref, spare_ref;
/* Two that the client has dropped; which of them was freed; and new ones. */
static struct binder_ref dropped_refs[2], *freed_ref, new_refs[2];
static int new_ref_count;
static struct binder_buffer answered_in;
static struct flat_binder_object sent = { .hdr.type = BINDER_TYPE_HANDLE, .handle = 1 };
static struct binder_buffer sent_in = {
	.data_size = sizeof(sent), .offsets_size = sizeof(binder_size_t),
};
static struct binder_transaction reply = { .buffer = &sent_in };
static struct bc_answer answer;
static struct bc_entry *entry;
static enum binder_cache_count result;
static u64 removals;

void binder_cache_free_entries(struct list_head *gone)
{
	must_not_hold(OUTER + 1, "entries are freed under the cache's lock");
	/* each order begins with everything that it needs */
}

void binder_cache_free_entry(struct bc_entry *it)
{
	must_not_hold(OUTER + 1, "an entry is freed under the cache's lock");
}

/* The one object and its offset, 0. */
int binder_alloc_copy_from_buffer(struct binder_alloc *alloc, void *to,
				  struct binder_buffer *buffer, u64 offset, size_t size)
{
	memset(to, 0, size);
	memcpy(to, &sent, sizeof(sent));
	return 0;
}

void binder_cache_forget_object(struct binder_cache *it, const void *object)
{
	LIST_HEAD(gone);

	spin_lock(&it->lock);
	bc_forget_object(&it->core, object, &gone);
	spin_unlock(&it->lock);
	binder_cache_free_entries(&gone);
}

void binder_stats_created(int type) { }

/* The driver walks all references, or a map of them: too long for the cache's lock. */
u32 binder_cache_choose_desc(struct binder_proc *proc)
{
	must_not_hold(OUTER + 1, "a descriptor is chosen under the cache's lock");
	return 1;
}

void binder_cache_claim_desc(struct binder_proc *proc, u32 desc) { }

/* Not instrumented: no thread continues within it. */
__attribute__((__no_sanitize__("thread")))
void *kzalloc(size_t size, int flags)
{
	must_not_hold(OUTER, "memory is allocated under a lock");
	return memset(&new_refs[new_ref_count++], 0, size);
}

int security_binder_transaction(const struct cred *from, const struct cred *to)
{
	return 0;
}

int security_binder_transfer_binder(const struct cred *from, const struct cred *to)
{
	return 0;
}

struct binder_buffer *binder_cache_new_buffer(struct binder_alloc *alloc, size_t size)
{
	return &answered_in;
}

void binder_alloc_free_buf(struct binder_alloc *alloc, struct binder_buffer *buffer) { }

bool binder_cache_is_bare_ref(struct binder_ref *ref)
{
	return !ref->node;
}

/* Like the patches. */
void binder_free_ref(struct binder_ref *ref)
{
	if (binder_cache_in_use() && binder_cache_keep_ref(ref))
		return;
	freed_ref = ref;
	free_memory(ref, sizeof(*ref));
}

static void make_entry(void)
{
	static u64 key[1], room[sizeof(struct bc_entry) / 8 + 2];
	struct bc_question question = { .code = 1, .size = 8, .key = key };
	struct bc_caller who = { 0 };

	bc_seal(&cache.core, &question);
	entry = (struct bc_entry *)room;
	memset(room, 0, sizeof(room));
	bc_ask(entry, &question, &who, cache.core.generation);
}

/* A service of @owner, which the manager has a reference to, was asked for. */
static void prepare(void)
{
	memset(&cache, 0, sizeof(cache));
	cache.lock.rank = CACHE;
	bc_init(&cache.core, 1);
	bc_set_tables(&cache.core, &tables.core);
	cache.format = &tables.format;
	cache.core.capacity = 16;
	cache.core.user_limit = 65536;
	cache.mode = BINDER_CACHE_COOPERATIVE;
	cache.active = true;
	cache.manager = &manager;
	cache.manager_cred = &cred;

	manager = owner = client = (struct binder_proc){
		.context = &binder, .outer_lock.rank = OUTER, .inner_lock.rank = INNER,
	};
	node = (struct binder_node){ .lock.rank = NODE, .proc = &owner, .internal_strong_refs = 1 };
	nodes_users = 0;
	managers_ref = (struct binder_ref){ .proc = &manager, .node = &node, .data.strong = 1 };
	manager.refs_by_node.rb_node = &managers_ref.rb_node_node;
	manager.refs_by_desc.rb_node = &managers_ref.rb_node_desc;
	memset(&spare_ref, 0, sizeof(spare_ref));
	caller = (struct binder_thread){ .proc = &client, .cache.spare_ref = &spare_ref };
	replier = (struct binder_thread){ .proc = &manager };
	result = BINDER_CACHE_COUNTS;
	make_entry();
}

/* Like the driver: @users are all other uses of the node. */
static void release_node(int strong_refs, int users)
{
	bool is_unused;

	spin_lock(&node.lock);
	node.internal_strong_refs -= strong_refs;
	nodes_users -= users;
	is_unused = !node.internal_strong_refs && !nodes_users;
	spin_unlock(&node.lock);
	if (is_unused)
		free_memory(&node, sizeof(node));
}

/* Like the patches, where the manager's reply is translated. */
static bool send_handle(void)
{
	outer_lock(&manager);
	if (!managers_ref.data.strong) {
		outer_unlock(&manager);
		return false;
	}
	spin_lock(&node.lock);
	nodes_users++;
	spin_unlock(&node.lock);
	binder_cache_sends_handle(&manager, &node);
	outer_unlock(&manager);
	replier.cache.node = &node;
	release_node(0, 1);
	return true;
}

static void prepare_sent(void)
{
	prepare();
	if (!send_handle())
		fail("the manager has no reference");
}

static void learn(void)
{
	binder_cache_learn(&cache, &replier, &client, &reply, entry, BC_SCOPE_ANY);
}

static void send_and_learn(void)
{
	if (send_handle())
		learn();
}

static void prepare_learnt(void)
{
	prepare_sent();
	learn();
	if (cache.core.entries != 1)
		fail("nothing was learnt");
	removals = cache.core.removals;
}

static void take(void)
{
	result = binder_cache_take(&client, &caller, &node, entry, removals, &answer);
}

/* BINDER_GET_NODE_INFO_FOR_REF, or the service requests notifications about clients. */
static void exclude(void)
{
	binder_cache_exclude(&binder, &node);
}

/* Like the patches, where the manager drops the service. */
static void let_go(void)
{
	outer_lock(&manager);
	managers_ref.data.strong--;
	if (node.cached)
		binder_cache_ref_gone(&managers_ref);
	release_node(1, 0);
	outer_unlock(&manager);
}

/* Like the patches, where the service's process exits. */
static void die(void)
{
	spin_lock(&node.lock);
	inner_lock(&owner);
	node.proc = NULL;
	inner_unlock(&owner);
	spin_unlock(&node.lock);
	binder_cache_node_gone(&binder, &node);
}

static void is_forgotten(void)
{
	if (cache.core.entries)
		fail("an answer was learnt that must not be");
}

static void has_a_reference_if_answered(void)
{
	bool has = client.refs_by_node.rb_node;

	if (has != (result == BINDER_CACHE_HITS) || spare_ref.data.strong != has)
		fail("a caller has what it was not given, or the other way");
	if (has && spare_ref.data.desc != 1)
		fail("a reference has another descriptor than was chosen");
	if (node.internal_strong_refs < has)
		fail("a reference does not count");
}

static void prepare_dropped(void)
{
	prepare();
	caller.cache.spare_ref = NULL;
	other_caller = caller;
	INIT_LIST_HEAD(&caller.todo);
	INIT_LIST_HEAD(&other_caller.todo);
	dropped_refs[0] = (struct binder_ref){ .proc = &client, .data.desc = 1 };
	dropped_refs[1] = dropped_refs[0];
	freed_ref = NULL;
	new_ref_count = 0;
}

static void prepare_kept(void)
{
	prepare_dropped();
	binder_free_ref(&dropped_refs[0]);
	if (client.cache_spare_ref != &dropped_refs[0])
		fail("a freed reference is not kept");
}

static void free_one(void)
{
	binder_free_ref(&dropped_refs[0]);
}

static void free_other(void)
{
	binder_free_ref(&dropped_refs[1]);
}

static void need_ref(struct binder_thread *thread)
{
	static const struct binder_ref zeroed;
	struct binder_buffer *buffer;

	if (binder_cache_admit(&client, thread, &cred, sizeof(sent), &buffer) != BINDER_CACHE_HITS)
		fail("a caller is refused");
	if (memcmp(thread->cache.spare_ref, &zeroed, sizeof(zeroed)))
		fail("a reference is not zeroed");
}

static void need_one(void)
{
	need_ref(&caller);
}

static void need_other(void)
{
	need_ref(&other_caller);
}

/* It is kept, or freed, or a thread has it. */
static void has_one_owner(const struct binder_ref *ref)
{
	int owners = (client.cache_spare_ref == ref) + (freed_ref == ref) +
		     (caller.cache.spare_ref == ref) + (other_caller.cache.spare_ref == ref);

	if (owners != 1)
		fail("a freed reference is lost, or has two owners");
}

static void one_has_an_owner(void)
{
	has_one_owner(&dropped_refs[0]);
}

static void both_have_an_owner(void)
{
	has_one_owner(&dropped_refs[0]);
	has_one_owner(&dropped_refs[1]);
}

static const struct {
	const char *what;
	void (*prepare)(void);
	void (*first)(void);
	void (*second)(void);
	void (*check)(void);
} races[] = {
	{ "learnt while its references are counted", prepare_sent, learn, exclude, is_forgotten },
	{ "learnt while the manager lets it go", prepare_sent, learn, let_go, is_forgotten },
	{ "sent and learnt while the manager lets it go", prepare, send_and_learn, let_go, is_forgotten },
	{ "learnt while its process ends", prepare_sent, learn, die, is_forgotten },
	{ "found while its references are counted", prepare_learnt, take, exclude, has_a_reference_if_answered },
	{ "found while the manager lets it go", prepare_learnt, take, let_go, has_a_reference_if_answered },
	{ "found while its process ends", prepare_learnt, take, die, has_a_reference_if_answered },
	{ "dropped while another one is", prepare_dropped, free_one, free_other, both_have_an_owner },
	{ "dropped while another thread needs a reference", prepare_dropped, free_one, need_one, one_has_an_owner },
	{ "dropped before two threads need a reference", prepare_kept, need_one, need_other, one_has_an_owner },
};

int main(void)
{
	size_t i;

	for (i = 0; i < ARRAY_SIZE(races); i++) {
		long orders;

		printf("a service is %s: ", races[i].what);
		orders = explore(races[i].prepare, races[i].first, races[i].second, races[i].check);
		printf("%ld orders\n", orders);
	}
	printf("ok\n");
	return 0;
}
