// SPDX-License-Identifier: GPL-2.0
/* See core.h: the cache itself, without driver types and without locks. */

#include <linux/bitops.h>
#include <linux/list.h>
#include <linux/string.h>
#include <linux/types.h>

#include "core.h"

void bc_init(struct bc_core *core, u64 seed)
{
	memset(core, 0, sizeof(*core));
	INIT_LIST_HEAD(&core->order);
	core->seed = seed;
	core->policy = BC_POLICY_LRU;
}

void bc_set_tables(struct bc_core *core, struct bc_tables *tables)
{
	int i;

	for (i = 0; i < 1 << BC_BUCKET_BITS; i++)
		INIT_HLIST_HEAD(&tables->buckets[i]);
	for (i = 0; i < 1 << BC_ACCOUNT_BITS; i++) {
		INIT_LIST_HEAD(&tables->accounts[i].entries);
		tables->accounts[i].bytes = 0;
	}
	core->tables = tables;
}

static size_t bc_bytes(const struct bc_entry *entry)
{
	return sizeof(*entry) + 8 * bc_words(entry->size);
}

/* The hash of a question from one class of callers. */
static u64 bc_class_hash(u64 hash, enum bc_scope scope, u32 uid, u32 security_id)
{
	u64 class = scope == BC_SCOPE_ANY ? 0 : (u64)security_id << 32;

	if (scope == BC_SCOPE_EXACT)
		class |= uid;
	return bc_mix(hash + scope, class);
}

static struct hlist_head *bc_bucket(struct bc_core *core, u64 hash)
{
	return &core->tables->buckets[hash & ((1 << BC_BUCKET_BITS) - 1)];
}

static struct bc_account *bc_account(struct bc_core *core, u32 uid)
{
	u64 slot = bc_mix(core->seed, uid);

	return &core->tables->accounts[slot & ((1 << BC_ACCOUNT_BITS) - 1)];
}

/* Sets three bits of the filter, each selected by nine and a half bits of the hash. */
static void bc_bloom_add(struct bc_core *core, u64 hash)
{
	int i;

	for (i = 0; i < 3; i++, hash >>= 16)
		core->bloom[hash / 64 % BC_BLOOM_WORDS] |= 1ull << hash % 64;
}

static bool bc_bloom_may_hold(const struct bc_core *core, u64 hash)
{
	int i;

	for (i = 0; i < 3; i++, hash >>= 16)
		if (!(core->bloom[hash / 64 % BC_BLOOM_WORDS] >> hash % 64 & 1))
			return false;
	return true;
}

static bool bc_is_for(const struct bc_entry *entry, enum bc_scope scope,
		      u32 uid, u32 security_id)
{
	return entry->scope == scope &&
	       (scope == BC_SCOPE_ANY || entry->security_id == security_id) &&
	       (scope != BC_SCOPE_EXACT || entry->uid == uid);
}

static bool bc_asks(const struct bc_entry *entry, u32 code, u32 size,
		    const u64 *key)
{
	u32 words = bc_words(size);
	u32 i;

	if (entry->code != code || entry->size != size)
		return false;
	for (i = 0; i < words; i++)
		if (entry->key[i] != key[i])
			return false;
	return true;
}

/* @hash is that of the class of callers. */
static __always_inline struct bc_entry *bc_lookup(struct bc_core *core, u64 hash,
						  enum bc_scope scope, u32 uid, u32 security_id,
						  u32 code, u32 size, const u64 *key)
{
	struct bc_entry *entry;

	if (core->policy == BC_POLICY_PAPER) {
		if (!bc_bloom_may_hold(core, hash))
			return NULL;
		list_for_each_entry(entry, &core->order, order)
			if (bc_is_for(entry, scope, uid, security_id) &&
			    bc_asks(entry, code, size, key))
				return entry;
		return NULL;
	}
	hlist_for_each_entry(entry, bc_bucket(core, hash), bucket)
		if (entry->hash == hash &&
		    bc_is_for(entry, scope, uid, security_id) &&
		    bc_asks(entry, code, size, key))
			return entry;
	return NULL;
}

/*
 * Moving a hit entry would take longer than finding it: it is moved when it is
 * considered for eviction.  But the paper's list is scanned in this order.
 */
struct bc_entry *bc_find_in(struct bc_core *core, u32 scopes,
			    const struct bc_question *question,
			    const struct bc_caller *caller)
{
	for (; scopes; scopes &= scopes - 1) {
		enum bc_scope scope = __ffs(scopes);
		struct bc_entry *entry;
		u64 hash;

		hash = bc_class_hash(question->hash, scope, caller->uid, caller->security_id);
		entry = bc_lookup(core, hash, scope, caller->uid,
				  caller->security_id, question->code,
				  question->size, question->key);
		if (!entry)
			continue;
		entry->hits++;
		entry->is_used = true;
		if (core->policy != BC_POLICY_LRU)
			list_move(&entry->order, &core->order);
		return entry;
	}
	return NULL;
}

static void bc_remove(struct bc_core *core, struct bc_entry *entry,
		      struct list_head *gone)
{
	u32 bytes = bc_bytes(entry);

	hlist_del(&entry->bucket);
	list_del(&entry->in_account);
	list_move_tail(&entry->order, gone);
	core->removals++;
	if (!--core->scoped[entry->scope])
		core->scopes &= ~(1u << entry->scope);
	core->entries--;
	core->bytes -= bytes;
	bc_account(core, entry->uid)->bytes -= bytes;
}

/* A Bloom filter cannot remove an entry, so it is rebuilt. */
static void bc_rebuild_bloom(struct bc_core *core)
{
	struct bc_entry *entry;

	if (core->policy != BC_POLICY_PAPER)
		return;
	memset(core->bloom, 0, sizeof(core->bloom));
	list_for_each_entry(entry, &core->order, order)
		bc_bloom_add(core, entry->hash);
}

/* As in page reclaim: an entry that was used since it was added moves to the head again. */
static bool bc_has_second_chance(struct bc_core *core, struct bc_entry *entry,
				 struct bc_account *account)
{
	if (core->policy != BC_POLICY_LRU || !entry->is_used)
		return false;
	entry->is_used = false;
	list_move(&entry->order, &core->order);
	list_move(&entry->in_account, &account->entries);
	return true;
}

/* Least recently used, or least frequently, with the least recent of equals. */
static struct bc_entry *bc_victim_of_all(struct bc_core *core)
{
	struct bc_entry *victim, *entry;

	do {
		victim = list_last_entry(&core->order, struct bc_entry, order);
	} while (bc_has_second_chance(core, victim, bc_account(core, victim->uid)));
	if (core->policy == BC_POLICY_LRU)
		return victim;
	list_for_each_entry_reverse(entry, &core->order, order)
		if (entry->hits < victim->hits)
			victim = entry;
	return victim;
}

static struct bc_entry *bc_victim_of(struct bc_core *core, struct bc_account *account)
{
	struct bc_entry *victim, *entry;

	do {
		victim = list_last_entry(&account->entries, struct bc_entry, in_account);
	} while (bc_has_second_chance(core, victim, account));
	if (core->policy == BC_POLICY_LRU)
		return victim;
	list_for_each_entry_reverse(entry, &account->entries, in_account)
		if (entry->hits < victim->hits)
			victim = entry;
	return victim;
}

static void bc_evict(struct bc_core *core, struct bc_entry *victim, struct list_head *gone)
{
	bc_remove(core, victim, gone);
	core->evictions++;
}

enum bc_verdict bc_learn(struct bc_core *core, struct bc_entry *entry,
			 enum bc_scope scope, struct list_head *gone)
{
	struct bc_account *account = bc_account(core, entry->uid);
	u32 bytes = bc_bytes(entry);
	struct bc_entry *known;

	if (bc_is_stale(core, entry)) {
		list_add(&entry->order, gone);
		return BC_STALE;
	}
	entry->hash = bc_class_hash(entry->hash, scope, entry->uid, entry->security_id);
	known = bc_lookup(core, entry->hash, scope, entry->uid,
			  entry->security_id, entry->code, entry->size,
			  entry->key);
	if (known)
		bc_remove(core, known, gone);
	if (!core->capacity || bytes > core->user_limit) {
		bc_rebuild_bloom(core);
		list_add(&entry->order, gone);
		return BC_OVER_LIMIT;
	}
	while (account->bytes > core->user_limit - bytes)
		bc_evict(core, bc_victim_of(core, account), gone);
	while (core->entries >= core->capacity)
		bc_evict(core, bc_victim_of_all(core), gone);
	entry->hits = known ? known->hits : 0;
	entry->is_used = false;
	entry->scope = scope;
	hlist_add_head(&entry->bucket, bc_bucket(core, entry->hash));
	list_add(&entry->order, &core->order);
	list_add(&entry->in_account, &account->entries);
	core->scoped[scope]++;
	core->scopes |= 1u << scope;
	core->entries++;
	core->bytes += bytes;
	account->bytes += bytes;
	bc_rebuild_bloom(core);
	return BC_KEPT;
}

void bc_forget_all(struct bc_core *core, struct list_head *gone)
{
	core->generation++;
	while (!list_empty(&core->order))
		bc_remove(core, list_first_entry(&core->order, struct bc_entry, order), gone);
	bc_rebuild_bloom(core);
}

void bc_forget_object(struct bc_core *core, const void *object,
		      struct list_head *gone)
{
	struct bc_entry *entry, *next;

	core->generation++;
	list_for_each_entry_safe(entry, next, &core->order, order)
		if (entry->answer.object == object)
			bc_remove(core, entry, gone);
	bc_rebuild_bloom(core);
}

void bc_forget_key(struct bc_core *core, const struct bc_question *question,
		   struct list_head *gone)
{
	struct bc_entry *entry, *next;

	core->generation++;
	list_for_each_entry_safe(entry, next, &core->order, order)
		if (bc_asks(entry, entry->code, question->size, question->key))
			bc_remove(core, entry, gone);
	bc_rebuild_bloom(core);
}

void bc_change_begin(struct bc_core *core, struct list_head *gone)
{
	core->changes++;
	bc_forget_all(core, gone);
}

void bc_change_end(struct bc_core *core)
{
	core->changes--;
	core->generation++;
}

void bc_set_policy(struct bc_core *core, enum bc_policy policy, u32 capacity,
		   struct list_head *gone)
{
	bc_forget_all(core, gone);
	core->policy = policy;
	core->capacity = capacity;
}
