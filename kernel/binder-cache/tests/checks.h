/* SPDX-License-Identifier: GPL-2.0 */
/* Shared by all checks; each has a manager and a process with its own services. */
#ifndef _CHECKS_H
#define _CHECKS_H

#include <stdio.h>
#include <sys/types.h>

#include "guest.h"
#include "wire.h"

extern const char *check_name;
extern int failures;
extern pid_t manager_pid, server_pid;
extern struct client client;

#define CHECK(condition)							\
	do {									\
		if (!(condition)) {						\
			printf("not ok %s (%s), line %d: %s\n", check_name,	\
			       cooperative ? "cooperative" : "transparent",	\
			       __LINE__, #condition);				\
			failures++;						\
		}								\
	} while (0)

/* Looks @name up @times times, expecting the same result each time. */
long hits_while(enum found expected, const char *name, int times);

/* Cost of a hit with a new reference each time, in instructions where these are counted. */
struct costs {
	uint64_t p50;
	uint64_t p99;
	uint64_t empty;
	bool is_counted;
};

struct costs cost_of_hits(struct client *c, const char *name);

/* Runs @body as another user with its own descriptor; its failures count. */
void as_user(uid_t uid, void (*body)(void));

void a_hit_is_what_the_manager_said(void);
void what_one_may_have_another_may_not(void);
void a_table_for_all_leaks(void);
void who_changes_user_is_another(void);
void scopes_are_kept(void);
void a_replaced_service_is_never_found_again(void);
void an_answer_under_way_is_not_learnt(void);
void a_one_way_change_lasts_until_the_manager_is_done(void);
void a_dead_service_is_not_given_out(void);
void a_dead_manager_is_not_spoken_for(void);
void the_manager_counts_what_stock_counts(void);
void a_lazy_service_is_not_kept(void);
void a_service_that_wants_to_know_its_clients_is_not_kept(void);
void odd_answers_are_not_kept(void);
void a_service_in_a_union_is_kept_and_an_accessor_is_not(void);
void who_wants_answers_cleared_has_others(void);
void an_owner_finds_its_own_binder(void);
void a_full_buffer_fails_as_stock(void);
void a_small_read_gets_its_parts(void);
void unread_answers_wait_in_order(void);
void a_thread_may_end_without_reading(void);
void odd_calls_get_stock_errors(void);
void nothing_of_the_first_client_reaches_the_next(void);
void contexts_know_nothing_of_each_other(void);
void a_made_context_has_its_own_cache(void);
void another_format_turns_it_off(void);
void no_user_takes_all_memory(void);
void one_client_does_not_end_shared_learning(void);
void honest_use_is_within_the_limits(void);
void a_user_namespace_has_stock_devices(void);
void a_user_namespace_has_caches_when_root_says_so(void);
void only_the_manager_opts_in(void);
void a_registration_older_than_the_cache_counts(void);
void turned_off_and_on_it_confuses_no_answers(void);
void one_name_can_be_flushed(void);
void two_threads_fill_the_map_of_descriptors(void);
void policies_are_arms(void);
void a_new_policy_is_heard_of(void);
void a_hit_costs_little(void);
void the_driver_stays(void);

#endif
