// SPDX-License-Identifier: GPL-2.0
/* Unit tests of the core, then random programs compared with the model. */

#include <linux/kernel.h>
#include <string.h>

#include "model.h"

static int failures;

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			printf("not ok: %s, line %d: %s\n", __func__, __LINE__, #condition); \
			failures++;						\
		}								\
	} while (0)

static const struct bc_caller alice = { .uid = 10001, .security_id = 7 };
static const struct bc_caller same_label = { .uid = 10002, .security_id = 7 };
static const struct bc_caller same_user = { .uid = 10001, .security_id = 8 };
static const struct bc_caller isolated = { .uid = 99001, .security_id = 9, .isolated = true };
static const struct bc_caller other = { .uid = 10003, .security_id = 9 };

static struct bc_core core;
static struct bc_tables tables;

static void start(u32 capacity)
{
	bc_init(&core, 42);
	bc_set_tables(&core, &tables);
	core.capacity = capacity;
	core.user_limit = 1 << 20;
}

static void free_all(struct list_head *gone)
{
	struct bc_entry *entry, *following;

	list_for_each_entry_safe(entry, following, gone, order)
		free(entry);
}

static void end(void)
{
	LIST_HEAD(gone);

	bc_forget_all(&core, &gone);
	free_all(&gone);
	CHECK(!core.entries && !core.bytes);
}

static struct bc_question question(const char *name, u64 *key)
{
	struct bc_question q = { .code = 1, .size = strlen(name), .key = key };

	memcpy(key, name, q.size);
	CHECK(bc_seal(&core, &q));
	return q;
}

static struct bc_entry *ask(const char *name, const struct bc_caller *caller)
{
	u64 key[BC_KEY_MAX / 8];
	struct bc_question q = question(name, key);
	struct bc_entry *entry = malloc(entry_bytes(&q));

	bc_ask(entry, &q, caller, core.generation);
	entry->answer.object = &core;
	return entry;
}

static enum bc_verdict answer(struct bc_entry *entry, enum bc_scope scope)
{
	enum bc_verdict verdict;
	LIST_HEAD(gone);

	verdict = bc_learn(&core, entry, scope, &gone);
	free_all(&gone);
	return verdict;
}

static bool is_known(const char *name, const struct bc_caller *caller)
{
	u64 key[BC_KEY_MAX / 8];
	struct bc_question q = question(name, key);

	return bc_find(&core, &q, caller);
}

static void an_answer_is_for_its_class_of_callers(void)
{
	static const struct {
		enum bc_scope scope;
		bool alice, same_label, same_user, other, isolated;
	} rows[] = {
		{ BC_SCOPE_EXACT, true, false, false, false, false },
		{ BC_SCOPE_SECURITY, true, true, false, false, false },
		{ BC_SCOPE_ANY, true, true, true, true, false },
	};
	size_t i;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		start(8);
		CHECK(answer(ask("name", &alice), rows[i].scope) == BC_KEPT);
		CHECK(is_known("name", &alice) == rows[i].alice);
		CHECK(is_known("name", &same_label) == rows[i].same_label);
		CHECK(is_known("name", &same_user) == rows[i].same_user);
		CHECK(is_known("name", &other) == rows[i].other);
		CHECK(is_known("name", &isolated) == rows[i].isolated);
		end();
	}
}

static void only_the_same_question_is_known(void)
{
	static const char * const others[] = { "nam", "namee", "Name", "name\1", "n" };
	u64 key[BC_KEY_MAX / 8];
	struct bc_question q;
	size_t i;

	start(8);
	answer(ask("name", &alice), BC_SCOPE_EXACT);
	for (i = 0; i < ARRAY_SIZE(others); i++)
		CHECK(!is_known(others[i], &alice));
	q = question("name", key);
	q.code = 2;
	bc_seal(&core, &q);
	CHECK(!bc_find(&core, &q, &alice));
	/* bytes after the name are not part of it */
	memset(key, 0xff, sizeof(key));
	q = question("name", key);
	CHECK(bc_find(&core, &q, &alice));
	q.size = 0;
	CHECK(!bc_seal(&core, &q));
	q.size = BC_KEY_MAX + 1;
	CHECK(!bc_seal(&core, &q));
	end();
}

static void what_was_asked_before_a_change_is_not_learnt(void)
{
	struct bc_entry *before, *during;
	LIST_HEAD(gone);

	start(8);
	before = ask("name", &alice);
	bc_change_begin(&core, &gone);
	during = ask("name", &alice);
	CHECK(answer(ask("name", &alice), BC_SCOPE_EXACT) == BC_STALE);
	bc_change_end(&core);
	CHECK(answer(before, BC_SCOPE_EXACT) == BC_STALE);
	CHECK(answer(during, BC_SCOPE_EXACT) == BC_STALE);
	CHECK(!is_known("name", &alice));
	CHECK(answer(ask("name", &alice), BC_SCOPE_EXACT) == BC_KEPT);
	before = ask("other", &alice);
	bc_forget_object(&core, &core, &gone);
	CHECK(!is_known("name", &alice));
	CHECK(answer(before, BC_SCOPE_EXACT) == BC_STALE);
	free_all(&gone);
	end();
}

static void changes_may_overlap(void)
{
	LIST_HEAD(gone);

	start(8);
	bc_change_begin(&core, &gone);
	bc_change_begin(&core, &gone);
	bc_change_end(&core);
	CHECK(answer(ask("name", &alice), BC_SCOPE_EXACT) == BC_STALE);
	bc_change_end(&core);
	CHECK(answer(ask("name", &alice), BC_SCOPE_EXACT) == BC_KEPT);
	end();
}

static void one_name_is_forgotten_for_all(void)
{
	u64 key[BC_KEY_MAX / 8];
	struct bc_question q;
	LIST_HEAD(gone);

	start(8);
	answer(ask("name", &alice), BC_SCOPE_EXACT);
	answer(ask("name", &other), BC_SCOPE_ANY);
	answer(ask("kept", &alice), BC_SCOPE_EXACT);
	q = question("name", key);
	bc_forget_key(&core, &q, &gone);
	free_all(&gone);
	CHECK(!is_known("name", &alice) && !is_known("name", &other));
	CHECK(is_known("kept", &alice));
	end();
}

/* As the driver's defaults; see ../cache.c. */
#define CAPACITY	2048
#define USER_LIMIT	262144

static void one_user_cannot_take_all_memory(void)
{
	u32 most = 4 * (sizeof(struct bc_entry) + 8);
	char name[16];
	int i;

	start(64);
	core.user_limit = most;
	CHECK(answer(ask("theirs", &other), BC_SCOPE_EXACT) == BC_KEPT);
	for (i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(answer(ask(name, &alice), BC_SCOPE_EXACT) == BC_KEPT);
	}
	/* only its own are evicted, the oldest first */
	CHECK(core.entries == 5 && core.evictions == 28);
	for (i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		CHECK(is_known(name, &alice) == (i >= 28));
	}
	CHECK(is_known("theirs", &other));
	/* a user at the limit may renew its entries */
	CHECK(answer(ask("n31", &alice), BC_SCOPE_EXACT) == BC_KEPT && core.evictions == 28);
	core.user_limit = sizeof(struct bc_entry);
	CHECK(answer(ask("n", &alice), BC_SCOPE_EXACT) == BC_OVER_LIMIT);
	end();
}

static void what_was_used_outlives_what_was_not(void)
{
	start(64);
	core.user_limit = 3 * (sizeof(struct bc_entry) + 8);
	answer(ask("first", &alice), BC_SCOPE_EXACT);
	answer(ask("second", &alice), BC_SCOPE_EXACT);
	answer(ask("third", &alice), BC_SCOPE_EXACT);
	CHECK(is_known("first", &alice));
	answer(ask("fourth", &alice), BC_SCOPE_EXACT);
	CHECK(is_known("first", &alice) && !is_known("second", &alice));
	CHECK(is_known("third", &alice) && is_known("fourth", &alice));
	/* all were used: the oldest is evicted, not the new one */
	answer(ask("fifth", &alice), BC_SCOPE_EXACT);
	CHECK(core.entries == 3 && is_known("fifth", &alice));
	end();
}

/*
 * A caller may request answers that are for all users without limit: they are
 * charged to it, so that other callers continue to learn and to find.
 */
static void one_client_does_not_end_shared_learning(void)
{
	static const enum bc_scope scopes[] = { BC_SCOPE_ANY, BC_SCOPE_SECURITY };
	char name[32];
	size_t s;
	int i;

	for (s = 0; s < ARRAY_SIZE(scopes); s++) {
		start(CAPACITY);
		core.user_limit = USER_LIMIT;
		CHECK(answer(ask("before", &alice), scopes[s]) == BC_KEPT);
		for (i = 0; i < 100000; i++) {
			snprintf(name, sizeof(name), "flood.%d", i);
			CHECK(answer(ask(name, &other), scopes[s]) == BC_KEPT);
		}
		CHECK(core.bytes <= 2 * USER_LIMIT);
		CHECK(is_known("before", &same_label));
		CHECK(answer(ask("after", &alice), scopes[s]) == BC_KEPT);
		CHECK(is_known("after", &same_label));
		end();
	}
}

/* Each of @services requested by both calls; the names are longer than most of Android's. */
static int over_limit(u32 services, u32 uid, u32 security_id, enum bc_scope scope)
{
	char name[160];
	int refused = 0;
	u32 i, call;

	for (call = 0; call < 2; call++) {
		for (i = 0; i < services; i++) {
			struct bc_caller caller = { .uid = uid, .security_id = security_id };

			/* a String16 of 60 characters, and its call */
			snprintf(name, sizeof(name), "%u %0124u", call, i);
			if (!is_known(name, &caller))
				refused += answer(ask(name, &caller), scope) != BC_KEPT;
			CHECK(is_known(name, &caller));
		}
	}
	return refused;
}

/* A device with 300 services: the system requests all, and each application some. */
static void honest_use_is_within_the_limits(void)
{
	static const u32 system_uids[] = { 0, 1000, 1001, 1041, 2000 };
	size_t i;
	int round;

	/* a manager that shares most answers with all callers, and some within one label */
	start(CAPACITY);
	core.user_limit = USER_LIMIT;
	for (round = 0; round < 3; round++) {
		for (i = 0; i < ARRAY_SIZE(system_uids); i++)
			CHECK(!over_limit(300, system_uids[i], i, BC_SCOPE_ANY));
		for (i = 0; i < 40; i++)
			CHECK(!over_limit(300, 10000 + i, 100, BC_SCOPE_ANY));
	}
	CHECK(core.entries == 600 && !core.evictions);
	CHECK(!over_limit(300, 1000, 1, BC_SCOPE_SECURITY));
	end();
	start(CAPACITY);
	core.user_limit = USER_LIMIT;
	for (round = 0; round < 3; round++)
		for (i = 0; i < 3; i++)
			CHECK(!over_limit(300, system_uids[i], i, BC_SCOPE_SECURITY));
	CHECK(core.entries == 1800 && !core.evictions);
	end();
	/* answers for each user alone: the system's, and 25 applications of 15 services each */
	start(CAPACITY);
	core.user_limit = USER_LIMIT;
	for (round = 0; round < 3; round++) {
		CHECK(!over_limit(300, 1000, 1, BC_SCOPE_EXACT));
		CHECK(!over_limit(300, 0, 1, BC_SCOPE_EXACT));
		for (i = 0; i < 25; i++)
			CHECK(!over_limit(15, 10000 + i, 100 + i, BC_SCOPE_EXACT));
	}
	CHECK(core.entries == 1950 && !core.evictions);
	end();
}

static void each_policy_gives_up_its_own_victim(void)
{
	static const struct {
		enum bc_policy policy;
		const char *gone;
	} rows[] = {
		{ BC_POLICY_LRU, "often" },
		{ BC_POLICY_LFU, "late" },
		{ BC_POLICY_PAPER, "late" },
	};
	size_t i;
	int hit;

	for (i = 0; i < ARRAY_SIZE(rows); i++) {
		LIST_HEAD(gone);

		start(2);
		bc_set_policy(&core, rows[i].policy, 2, &gone);
		answer(ask("often", &alice), BC_SCOPE_EXACT);
		for (hit = 0; hit < 3; hit++)
			CHECK(is_known("often", &alice));
		answer(ask("late", &alice), BC_SCOPE_EXACT);
		CHECK(is_known("late", &alice));
		answer(ask("new", &alice), BC_SCOPE_EXACT);
		CHECK(core.evictions == 1 && core.entries == 2);
		CHECK(!is_known(rows[i].gone, &alice));
		CHECK(is_known("new", &alice));
		end();
	}
}

static u64 random_state;

static u8 random_byte(void)
{
	random_state ^= random_state << 13;
	random_state ^= random_state >> 7;
	random_state ^= random_state << 17;
	return random_state >> 32;
}

static void random_programs_do_what_the_model_does(int programs)
{
	struct coverage coverage = { 0 };
	u8 program[8192];
	size_t i;

	while (programs--) {
		for (i = 0; i < sizeof(program); i++)
			program[i] = random_byte();
		run_program(program, sizeof(program), &coverage);
	}
	printf("hits %llu misses %llu kept %llu stale %llu over_limit %llu evictions %llu\n",
	       (unsigned long long)coverage.hits, (unsigned long long)coverage.misses,
	       (unsigned long long)coverage.kept, (unsigned long long)coverage.stale,
	       (unsigned long long)coverage.over_limit, (unsigned long long)coverage.evictions);
	CHECK(coverage.hits > 1000 && coverage.misses > 1000);
	CHECK(coverage.kept > 1000 && coverage.stale > 100);
	CHECK(coverage.over_limit > 10 && coverage.evictions > 100);
	CHECK(coverage.forgotten > 1000);
	printf("calls %llu\n", (unsigned long long)coverage.calls);
}

int main(int argc, char **argv)
{
	an_answer_is_for_its_class_of_callers();
	only_the_same_question_is_known();
	what_was_asked_before_a_change_is_not_learnt();
	changes_may_overlap();
	one_name_is_forgotten_for_all();
	one_user_cannot_take_all_memory();
	what_was_used_outlives_what_was_not();
	one_client_does_not_end_shared_learning();
	honest_use_is_within_the_limits();
	each_policy_gives_up_its_own_victim();
	/* xorshift must not start at 0 */
	random_state = argc > 2 ? strtoull(argv[2], NULL, 10) | 1 : 1;
	random_programs_do_what_the_model_does(argc > 1 ? atoi(argv[1]) : 200);
	if (!failures)
		printf("ok\n");
	return !!failures;
}
