/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The cache itself: maps questions to answers for classes of callers.  It knows
 * no driver types and takes no locks: the caller holds one.
 */
#ifndef _BINDER_CACHE_CORE_H
#define _BINDER_CACHE_CORE_H

#include <linux/list.h>
#include <linux/string.h>
#include <linux/types.h>

#define BC_KEY_MAX		256
#define BC_ANSWER_MAX		96
#define BC_BUCKET_BITS		9
#define BC_ACCOUNT_BITS		8
#define BC_BLOOM_WORDS		16
#define BC_MULTIPLIER		0x9e3779b97f4a7c15ull

/*
 * The paper's cache has one table for all callers: it gives an answer also to a
 * caller whom the manager would refuse.  Only experiments are built with it.
 */
#ifdef BINDER_CACHE_INSECURE
#define BC_SHARED_BY_ALL	1
#else
#define BC_SHARED_BY_ALL	0
#endif

/* Which callers may get an answer.  The values match the marks in binder_cache.h. */
enum bc_scope {
	BC_SCOPE_NONE,
	BC_SCOPE_EXACT,
	BC_SCOPE_SECURITY,
	BC_SCOPE_ANY,
};

enum bc_policy {
	BC_POLICY_LRU,
	BC_POLICY_LFU,
	BC_POLICY_PAPER,
};

enum bc_verdict {
	BC_KEPT,
	BC_STALE,
	BC_OVER_LIMIT,
};

struct bc_caller {
	u32 uid;
	u32 security_id;
	bool isolated;
};

/*
 * A lookup: the call's code and the bytes that follow the header.  @key has room
 * for whole words; bc_seal() zeroes the bytes after the last one.
 */
struct bc_question {
	u64 hash;
	u32 code;
	u32 size;
	u64 *key;
};

/*
 * An answer: the bytes of the reply, then, aligned, the one offset of the binder
 * in them.  @object identifies the service and is only compared.
 */
struct bc_answer {
	void *object;
	u32 code;
	u32 flags;
	u32 uid;
	u16 size;
	u16 offset;
	u64 data[BC_ANSWER_MAX / 8 + 1];
};

/*
 * @uid is the user who asked first; the entry is charged to this user, whichever
 * other users may get the answer.
 */
struct bc_entry {
	struct hlist_node bucket;
	struct list_head order;
	struct list_head in_account;
	u64 hash;
	u64 generation;
	u64 hits;
	u32 scope;
	u32 uid;
	u32 security_id;
	u32 code;
	u32 size;
	bool is_used;
	struct bc_answer answer;
	u64 key[];
};

/* The entries of one user, in the order of the whole list, and their size in bytes. */
struct bc_account {
	struct list_head entries;
	u32 bytes;
};

/* Needed for learning, and allocated only then. */
struct bc_tables {
	struct hlist_head buckets[1 << BC_BUCKET_BITS];
	struct bc_account accounts[1 << BC_ACCOUNT_BITS];
};

/**
 * struct bc_core - the entries of one context
 * @tables:	entries by question and class of callers, and by user; users
 *		that share an account share its limit
 * @order:	entries, the newest first; one that was used since it was
 *		added gets a second chance before it is evicted
 * @bloom:	filter before the entries, for the paper's policy
 * @seed:	makes hash slots unpredictable
 * @generation:	incremented by every change; answers to earlier questions are
 *		not learnt
 * @removals:	incremented when an entry is removed
 * @changes:	changes in progress; nothing is learnt meanwhile
 * @scoped:	number of entries of each scope
 * @scopes:	bit mask of the scopes that have entries
 * @entries:	number of entries
 * @bytes:	their size
 * @capacity:	maximal number of entries
 * @user_limit:	maximal number of bytes of one account
 * @evictions:	entries evicted for space
 * @policy:	selects the entry to evict
 */
struct bc_core {
	struct bc_tables *tables;
	struct list_head order;
	u64 bloom[BC_BLOOM_WORDS];
	u64 seed;
	u64 generation;
	u64 removals;
	u32 changes;
	u32 scoped[BC_SCOPE_ANY + 1];
	u32 scopes;
	u32 entries;
	u32 bytes;
	u32 capacity;
	u32 user_limit;
	u64 evictions;
	enum bc_policy policy;
};

/* The core learns and finds nothing until it has @tables. */
void bc_init(struct bc_core *core, u64 seed);
void bc_set_tables(struct bc_core *core, struct bc_tables *tables);

static inline u64 bc_mix(u64 hash, u64 word)
{
	hash = (hash ^ word) * BC_MULTIPLIER;
	return hash ^ (hash >> 32);
}

static inline u32 bc_words(u32 size)
{
	return (size + 7) / 8;
}

/* Completes @question; false if its key is empty or too long. */
static inline bool bc_seal(const struct bc_core *core, struct bc_question *question)
{
	u64 hash = core->seed ^ question->code;
	u32 words = bc_words(question->size);
	u32 i;

	if (!question->size || question->size > BC_KEY_MAX)
		return false;
	if (question->size % 8)
		question->key[words - 1] &= (1ull << question->size % 8 * 8) - 1;
	for (i = 0; i < words; i++)
		hash = bc_mix(hash, question->key[i]);
	question->hash = bc_mix(hash, question->size);
	return true;
}

/* Prepares @entry, which has room for the key, for an answer to @question. */
static inline void bc_ask(struct bc_entry *entry, const struct bc_question *question,
			  const struct bc_caller *caller, u64 generation)
{
	entry->hash = question->hash;
	entry->generation = generation;
	entry->uid = caller->uid;
	entry->security_id = caller->security_id;
	entry->code = question->code;
	entry->size = question->size;
	memcpy(entry->key, question->key, 8 * bc_words(question->size));
}

/* True if something changed since @entry's question was asked, or is changing. */
static inline bool bc_is_stale(const struct bc_core *core, const struct bc_entry *entry)
{
	return entry->generation != core->generation || core->changes;
}

/* The answer for this caller among those of @scopes, which is not empty. */
struct bc_entry *bc_find_in(struct bc_core *core, u32 scopes,
			    const struct bc_question *question,
			    const struct bc_caller *caller);

/* The answer for this caller, or NULL. */
static inline struct bc_entry *bc_find(struct bc_core *core, const struct bc_question *question,
				       const struct bc_caller *caller)
{
	u32 scopes = core->scopes;

	if (caller->isolated && !BC_SHARED_BY_ALL)
		scopes &= ~(1u << BC_SCOPE_ANY);
	return scopes ? bc_find_in(core, scopes, question, caller) : NULL;
}

/*
 * Adds @entry, with its answer filled in, for the callers of @scope.  If its user's
 * account is full, that user's own least recently used entries are evicted.
 * Replaced and evicted entries go to @gone; so does @entry unless BC_KEPT.
 */
enum bc_verdict bc_learn(struct bc_core *core, struct bc_entry *entry,
			 enum bc_scope scope, struct list_head *gone);

/* Remove entries; they go to @gone, linked by order. */
void bc_forget_all(struct bc_core *core, struct list_head *gone);
void bc_forget_object(struct bc_core *core, const void *object,
		      struct list_head *gone);
void bc_forget_key(struct bc_core *core, const struct bc_question *question,
		   struct list_head *gone);

/* Between these two calls nothing is learnt, nor are answers to questions asked meanwhile. */
void bc_change_begin(struct bc_core *core, struct list_head *gone);
void bc_change_end(struct bc_core *core);

/* Also removes all entries. */
void bc_set_policy(struct bc_core *core, enum bc_policy policy, u32 capacity,
		   struct list_head *gone);

#endif /* _BINDER_CACHE_CORE_H */
