// SPDX-License-Identifier: GPL-2.0
/* See core.h: the cache itself, without driver types and without locks. */

#include <linux/list.h>
#include <linux/string.h>
#include <linux/types.h>

#include "core.h"

void bc_init(struct bc_core *core, u64 seed)
{
	int i;

	memset(core, 0, sizeof(*core));
	for (i = 0; i < 1 << BC_BUCKET_BITS; i++)
		INIT_HLIST_HEAD(&core->buckets[i]);
	INIT_LIST_HEAD(&core->order);
	core->seed = seed;
	core->policy = BC_POLICY_LRU;
}

static size_t bc_bytes(const struct bc_entry *entry)
{
	return sizeof(*entry) + 8 * bc_words(entry->size);
}

/* The hash of a question from one class of callers. */
static u64 bc_class_hash(u64 hash, enum bc_scope scope, u32 uid, u32 security_id)
{
	switch (scope) {
	case BC_SCOPE_EXACT:
		hash = bc_mix(hash, uid);
		fallthrough;
	case BC_SCOPE_SECURITY:
		return bc_mix(hash, (u64)security_id << 8 | scope);
	default:
		return bc_mix(hash, scope);
	}
}

static struct hlist_head *bc_bucket(struct bc_core *core, u64 hash)
{
	return &core->buckets[hash & ((1 << BC_BUCKET_BITS) - 1)];
}

static u32 *bc_user(struct bc_core *core, u32 uid)
{
	u64 slot = bc_mix(core->seed, uid);

	return &core->users[slot & ((1 << BC_USER_BITS) - 1)];
}

/* Three bits of the filter, from nine bits of the hash each and a half. */
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
 * A hit moves its entry to the front, but not again before a quarter of the
 * capacity was hit: by then it cannot have come near the end.
 */
struct bc_entry *bc_find(struct bc_core *core,
			 const struct bc_question *question,
			 const struct bc_caller *caller)
{
	enum bc_scope scope;

	for (scope = BC_SCOPE_EXACT; scope <= BC_SCOPE_ANY; scope++) {
		struct bc_entry *entry;
		u64 hash;

		if (!core->scoped[scope] ||
		    (scope == BC_SCOPE_ANY && caller->isolated))
			continue;
		hash = bc_class_hash(question->hash, scope, caller->uid, caller->security_id);
		entry = bc_lookup(core, hash, scope, caller->uid,
				  caller->security_id, question->code,
				  question->size, question->key);
		if (!entry)
			continue;
		entry->hits++;
		core->clock++;
		if (core->clock - entry->moved > core->capacity / 4) {
			entry->moved = core->clock;
			list_move(&entry->order, &core->order);
		}
		return entry;
	}
	return NULL;
}

static void bc_remove(struct bc_core *core, struct bc_entry *entry,
		      struct list_head *gone)
{
	u32 bytes = bc_bytes(entry);

	hlist_del(&entry->bucket);
	list_move_tail(&entry->order, gone);
	core->removals++;
	core->scoped[entry->scope]--;
	core->entries--;
	core->bytes -= bytes;
	*bc_user(core, entry->charged_uid) -= bytes;
}

/* A filter forgets nothing by itself: it is made anew. */
static void bc_rebuild_bloom(struct bc_core *core)
{
	struct bc_entry *entry;

	if (core->policy != BC_POLICY_PAPER)
		return;
	memset(core->bloom, 0, sizeof(core->bloom));
	list_for_each_entry(entry, &core->order, order)
		bc_bloom_add(core, entry->hash);
}

/* Least recently used, or least frequently with the least recent of equals. */
static struct bc_entry *bc_victim(struct bc_core *core)
{
	struct bc_entry *victim = list_last_entry(&core->order, struct bc_entry, order);
	struct bc_entry *entry;

	if (core->policy == BC_POLICY_LRU)
		return victim;
	list_for_each_entry_reverse(entry, &core->order, order)
		if (entry->hits < victim->hits)
			victim = entry;
	return victim;
}

enum bc_verdict bc_learn(struct bc_core *core, struct bc_entry *entry,
			 enum bc_scope scope, u32 charged_uid,
			 struct list_head *gone)
{
	u32 *user = bc_user(core, charged_uid);
	u32 bytes = bc_bytes(entry);
	struct bc_entry *known;

	if (entry->generation != core->generation || core->changes) {
		list_add(&entry->order, gone);
		return BC_STALE;
	}
	entry->hash = bc_class_hash(entry->hash, scope, entry->uid, entry->security_id);
	known = bc_lookup(core, entry->hash, scope, entry->uid,
			  entry->security_id, entry->code, entry->size,
			  entry->key);
	if (known)
		bc_remove(core, known, gone);
	if (!core->capacity || bytes > core->user_limit ||
	    *user > core->user_limit - bytes) {
		bc_rebuild_bloom(core);
		list_add(&entry->order, gone);
		return BC_OVER_LIMIT;
	}
	while (core->entries >= core->capacity) {
		bc_remove(core, bc_victim(core), gone);
		core->evictions++;
	}
	entry->hits = known ? known->hits : 0;
	entry->moved = core->clock;
	entry->scope = scope;
	entry->charged_uid = charged_uid;
	hlist_add_head(&entry->bucket, bc_bucket(core, entry->hash));
	list_add(&entry->order, &core->order);
	core->scoped[scope]++;
	core->entries++;
	core->bytes += bytes;
	*user += bytes;
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
