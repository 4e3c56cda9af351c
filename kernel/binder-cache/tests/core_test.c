// SPDX-License-Identifier: GPL-2.0
/* The core's promises one by one, then random programs beside the model. */

#include <stdio.h>
#include <stdlib.h>
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

static void start(u32 capacity)
{
	bc_init(&core, 42);
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

	verdict = bc_learn(&core, entry, scope, entry->uid, &gone);
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
	/* what lies behind the name is no part of it */
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

static void one_user_cannot_take_all_memory(void)
{
	char name[16];
	int i, kept = 0;

	start(64);
	core.user_limit = 4 * (sizeof(struct bc_entry) + 8);
	for (i = 0; i < 32; i++) {
		snprintf(name, sizeof(name), "n%d", i);
		kept += answer(ask(name, &alice), BC_SCOPE_EXACT) == BC_KEPT;
	}
	CHECK(kept == 4);
	CHECK(answer(ask("name", &other), BC_SCOPE_EXACT) == BC_KEPT);
	/* who is at the limit may renew what it has */
	CHECK(answer(ask("n0", &alice), BC_SCOPE_EXACT) == BC_KEPT);
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

static u64 random_state = 1;

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
}

int main(int argc, char **argv)
{
	an_answer_is_for_its_class_of_callers();
	only_the_same_question_is_known();
	what_was_asked_before_a_change_is_not_learnt();
	changes_may_overlap();
	one_name_is_forgotten_for_all();
	one_user_cannot_take_all_memory();
	each_policy_gives_up_its_own_victim();
	random_programs_do_what_the_model_does(argc > 1 ? atoi(argv[1]) : 200);
	if (!failures)
		printf("ok\n");
	return !!failures;
}
