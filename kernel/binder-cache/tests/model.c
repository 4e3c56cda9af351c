// SPDX-License-Identifier: GPL-2.0
/* See model.h. */

#include <linux/kernel.h>
#include <string.h>

#include "model.h"

#define ENTRIES		256
#define PENDING		8
#define NAMES		12
#define OBJECTS		5

static const u32 uids[] = { 0, 1000, 10001, 99001 };

#define USERS ARRAY_SIZE(uids)

struct plain_entry {
	bool used, was_hit;
	u32 scope, uid, security_id, name, code;
	/* higher is later: among all entries, and among those of its user */
	u64 object, hits, place, place_in_account, bytes;
};

struct plain {
	struct plain_entry entries[ENTRIES];
	u64 generation, changes, place, evictions;
	u64 capacity, limit;
	enum bc_policy policy;
};

struct asked {
	struct bc_entry *entry;
	u64 generation;
	u32 name, code, uid, security_id;
};

struct state {
	struct bc_core core;
	struct bc_tables tables;
	struct plain plain;
	struct asked pending[PENDING];
	const u8 *at, *end;
	struct coverage *coverage;
};

static u32 next(struct state *s, u32 below)
{
	return s->at < s->end ? *s->at++ % below : 0;
}

/* Names of 1 to 45 bytes, some a prefix of others. */
static void make_question(struct state *s, u32 name, u32 code, u64 *key,
			  struct bc_question *question)
{
	u8 *bytes = (u8 *)key;
	u32 size = 1 + name * 4;

	/* bytes after the name must not matter */
	memset(key, 0xa5 + name, 64);
	memset(bytes, 'n', size);
	*question = (struct bc_question){ .code = code, .size = size, .key = key };
	MUST(bc_seal(&s->core, question));
}

static void free_gone(struct state *s, struct list_head *gone)
{
	struct bc_entry *entry, *following;

	list_for_each_entry_safe(entry, following, gone, order) {
		s->coverage->forgotten++;
		free(entry);
	}
}

static bool is_for(const struct plain_entry *e, u32 scope, u32 uid, u32 security_id)
{
	if (!e->used || e->scope != scope)
		return false;
	if (scope == BC_SCOPE_ANY)
		return true;
	return e->security_id == security_id && (scope == BC_SCOPE_SECURITY || e->uid == uid);
}

static struct plain_entry *plain_lookup(struct plain *p, u32 scope, u32 uid, u32 security_id,
					u32 name, u32 code)
{
	int i;

	for (i = 0; i < ENTRIES; i++)
		if (is_for(&p->entries[i], scope, uid, security_id) &&
		    p->entries[i].name == name && p->entries[i].code == code)
			return &p->entries[i];
	return NULL;
}

static u64 plain_count(const struct plain *p)
{
	u64 count = 0;
	int i;

	for (i = 0; i < ENTRIES; i++)
		count += p->entries[i].used;
	return count;
}

#define ALL	-1

static bool is_of(const struct plain_entry *e, s64 uid)
{
	return e->used && (uid == ALL || e->uid == uid);
}

static u64 plain_bytes(const struct plain *p, s64 uid)
{
	u64 bytes = 0;
	int i;

	for (i = 0; i < ENTRIES; i++)
		if (is_of(&p->entries[i], uid))
			bytes += p->entries[i].bytes;
	return bytes;
}

static bool is_worse(const struct plain *p, const struct plain_entry *a,
		     const struct plain_entry *b, bool all)
{
	if (p->policy != BC_POLICY_LRU && a->hits != b->hits)
		return a->hits < b->hits;
	return all ? a->place < b->place : a->place_in_account < b->place_in_account;
}

/* The entry to evict, of one user or all; hit entries get a second chance. */
static struct plain_entry *plain_victim(struct plain *p, s64 uid)
{
	struct plain_entry *victim;

	for (;;) {
		int i;

		victim = NULL;
		for (i = 0; i < ENTRIES; i++)
			if (is_of(&p->entries[i], uid) &&
			    (!victim || is_worse(p, &p->entries[i], victim, uid == ALL)))
				victim = &p->entries[i];
		if (p->policy != BC_POLICY_LRU || !victim->was_hit)
			return victim;
		victim->was_hit = false;
		victim->place = ++p->place;
		victim->place_in_account = p->place;
	}
}

static void plain_evict(struct plain *p, s64 uid)
{
	plain_victim(p, uid)->used = false;
	p->evictions++;
}

static enum bc_verdict plain_learn(struct plain *p, const struct asked *asked, u32 scope,
				   u64 object, u64 bytes)
{
	struct plain_entry *known, *free_one;
	u64 hits = 0;

	if (asked->generation != p->generation || p->changes)
		return BC_STALE;
	known = plain_lookup(p, scope, asked->uid, asked->security_id, asked->name, asked->code);
	if (known) {
		hits = known->hits;
		known->used = false;
	}
	if (bytes > p->limit)
		return BC_OVER_LIMIT;
	while (plain_bytes(p, asked->uid) + bytes > p->limit)
		plain_evict(p, asked->uid);
	while (plain_count(p) >= p->capacity)
		plain_evict(p, ALL);
	for (free_one = p->entries; free_one->used; free_one++)
		;
	*free_one = (struct plain_entry){
		.used = true, .scope = scope, .uid = asked->uid,
		.security_id = asked->security_id, .name = asked->name, .code = asked->code,
		.object = object, .hits = hits, .bytes = bytes,
		.place = ++p->place, .place_in_account = p->place,
	};
	return BC_KEPT;
}

static void op_ask(struct state *s)
{
	struct asked *asked = &s->pending[next(s, PENDING)];
	struct bc_question question;
	struct bc_caller caller;
	u64 key[8];

	free(asked->entry);
	*asked = (struct asked){
		.generation = s->plain.generation, .name = next(s, NAMES), .code = next(s, 2),
		.uid = uids[next(s, USERS)], .security_id = next(s, 3),
	};
	caller = (struct bc_caller){ .uid = asked->uid, .security_id = asked->security_id };
	make_question(s, asked->name, asked->code, key, &question);
	asked->entry = malloc(entry_bytes(&question));
	bc_ask(asked->entry, &question, &caller, s->core.generation);
}

static void op_learn(struct state *s)
{
	struct asked *asked = &s->pending[next(s, PENDING)];
	u32 scope = BC_SCOPE_EXACT + next(s, 3);
	u64 object = 1 + next(s, OBJECTS);
	enum bc_verdict verdict, expected;
	struct bc_question question;
	LIST_HEAD(gone);
	u64 key[8];

	if (!asked->entry)
		return;
	make_question(s, asked->name, asked->code, key, &question);
	expected = plain_learn(&s->plain, asked, scope, object, entry_bytes(&question));
	asked->entry->answer.object = (void *)(uintptr_t)object;
	verdict = bc_learn(&s->core, asked->entry, scope, &gone);
	MUST(verdict == expected);
	s->coverage->kept += verdict == BC_KEPT;
	s->coverage->stale += verdict == BC_STALE;
	s->coverage->over_limit += verdict == BC_OVER_LIMIT;
	asked->entry = NULL;
	free_gone(s, &gone);
}

static void op_find(struct state *s)
{
	u32 name = next(s, NAMES), code = next(s, 2);
	struct bc_caller caller = {
		.uid = uids[next(s, USERS)], .security_id = next(s, 3), .isolated = next(s, 2),
	};
	struct plain_entry *expected = NULL;
	struct bc_question question;
	struct bc_entry *entry;
	u64 key[8];
	u32 scope;

	make_question(s, name, code, key, &question);
	for (scope = BC_SCOPE_EXACT; scope <= BC_SCOPE_ANY && !expected; scope++)
		if (scope != BC_SCOPE_ANY || !caller.isolated)
			expected = plain_lookup(&s->plain, scope, caller.uid, caller.security_id,
						name, code);
	entry = bc_find(&s->core, &question, &caller);
	MUST(!entry == !expected);
	s->coverage->hits += !!entry;
	s->coverage->misses += !entry;
	if (!entry)
		return;
	MUST(entry->answer.object == (void *)(uintptr_t)expected->object);
	expected->hits++;
	expected->was_hit = true;
	if (s->plain.policy != BC_POLICY_LRU)
		expected->place = ++s->plain.place;
}

static void op_forget(struct state *s, u32 what)
{
	u64 object = 1 + next(s, OBJECTS);
	u32 name = next(s, NAMES);
	struct bc_question question;
	LIST_HEAD(gone);
	u64 key[8];
	int i;

	make_question(s, name, 0, key, &question);
	switch (what) {
	case 0:
		bc_forget_all(&s->core, &gone);
		break;
	case 1:
		bc_forget_object(&s->core, (void *)(uintptr_t)object, &gone);
		break;
	default:
		bc_forget_key(&s->core, &question, &gone);
	}
	for (i = 0; i < ENTRIES; i++) {
		struct plain_entry *e = &s->plain.entries[i];

		if (what == 0 || (what == 1 && e->object == object) ||
		    (what == 2 && e->name == name))
			e->used = false;
	}
	s->plain.generation++;
	free_gone(s, &gone);
}

static void op_change(struct state *s)
{
	LIST_HEAD(gone);

	if (s->plain.changes && next(s, 4)) {
		bc_change_end(&s->core);
		s->plain.changes--;
	} else if (next(s, 8)) {
		return;
	} else {
		bc_change_begin(&s->core, &gone);
		memset(s->plain.entries, 0, sizeof(s->plain.entries));
		s->plain.changes++;
	}
	s->plain.generation++;
	free_gone(s, &gone);
}

static void op_policy(struct state *s)
{
	/* too small for one entry, full after a few entries, or out of reach */
	static const u32 limits[] = { 200, 1000, 1500, 2500, 65536, 65536 };
	u32 capacity = 1 + next(s, 40);
	enum bc_policy policy = next(s, 3);
	LIST_HEAD(gone);

	bc_set_policy(&s->core, policy, capacity, &gone);
	memset(s->plain.entries, 0, sizeof(s->plain.entries));
	s->plain.policy = policy;
	s->plain.capacity = capacity;
	s->plain.generation++;
	free_gone(s, &gone);
	s->plain.limit = limits[next(s, ARRAY_SIZE(limits))];
	s->core.user_limit = s->plain.limit;
}

static void compare(struct state *s)
{
	MUST(s->core.entries == plain_count(&s->plain));
	MUST(s->core.bytes == plain_bytes(&s->plain, ALL));
	MUST(s->core.evictions == s->plain.evictions);
	MUST(s->core.entries <= s->core.capacity);
}

void run_program(const u8 *program, size_t size, struct coverage *coverage)
{
	struct state *s = calloc(1, sizeof(*s));
	bool is_calm;
	LIST_HEAD(gone);
	int i;

	s->at = program;
	s->end = program + size;
	s->coverage = coverage;
	bc_init(&s->core, 0x1234);
	bc_set_tables(&s->core, &s->tables);
	s->core.capacity = 16;
	s->core.user_limit = 65536;
	s->plain.capacity = 16;
	s->plain.limit = 65536;
	/* half of the programs forget so rarely that the cache fills up */
	is_calm = next(s, 2);
	while (s->at < s->end) {
		u32 op = next(s, 256);

		if (op >= 240 && is_calm && next(s, 16))
			continue;
		coverage->calls++;
		if (op < 60)
			op_ask(s);
		else if (op < 120)
			op_learn(s);
		else if (op < 240)
			op_find(s);
		else if (op < 243)
			op_forget(s, next(s, 3));
		else if (op < 255)
			op_change(s);
		else
			op_policy(s);
		compare(s);
	}
	coverage->evictions += s->core.evictions;
	bc_forget_all(&s->core, &gone);
	free_gone(s, &gone);
	for (i = 0; i < PENDING; i++)
		free(s->pending[i].entry);
	free(s);
}
