// SPDX-License-Identifier: GPL-2.0
/*
 * Faults that must not happen with the cache on, in a guest whose driver has it:
 *
 *	hazards			every check, in both modes
 *	hazards race LOOKUPS	lookups of several processes against a service
 *				that is replaced all the time
 *	hazards lazy ROUNDS	services that become lazy while their answer is
 *				learnt
 *	hazards references	the cost of many references for the process that
 *				holds them and for others
 *	hazards selinux		results of callers under an enforcing policy; with
 *				a stock driver too
 *	hazards exhaust		every allocation and every access to the
 *				caller's memory fails once
 *	hazards leak		what a driver with one table for all callers
 *				gives out
 *
 * Each check has a manager and a process with its own services.
 */

#define _GNU_SOURCE
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "checks.h"

const char *check_name;
int failures;
pid_t manager_pid, server_pid;
struct client client;

long hits_while(enum found expected, const char *name, int times)
{
	long before = stat_of("hits");

	while (times--) {
		CHECK(lookup(&client, name) == expected);
		free_reply(&client);
	}
	return stat_of("hits") - before;
}

void as_user(uid_t uid, void (*body)(void))
{
	int status;
	pid_t pid;

	fflush(stdout);
	pid = fork();
	if (!pid) {
		failures = 0;
		keep_stats();
		if (setresuid(uid, uid, uid))
			_exit(99);
		open_binder(&client, DEVICE, MAP);
		body();
		fflush(stdout);
		_exit(failures);
	}
	waitpid(pid, &status, 0);
	failures += WEXITSTATUS(status);
}

#define ENTRY(check) { #check, check }

struct check {
	const char *name;
	void (*run)(void);
};

static const struct check checks[] = {
	ENTRY(a_hit_is_what_the_manager_said),
	ENTRY(what_one_may_have_another_may_not),
	ENTRY(who_changes_user_is_another),
	ENTRY(scopes_are_kept),
	ENTRY(a_replaced_service_is_never_found_again),
	ENTRY(an_answer_under_way_is_not_learnt),
	ENTRY(a_one_way_change_lasts_until_the_manager_is_done),
	ENTRY(a_dead_service_is_not_given_out),
	ENTRY(a_dead_manager_is_not_spoken_for),
	ENTRY(the_manager_counts_what_stock_counts),
	ENTRY(a_lazy_service_is_not_kept),
	ENTRY(a_service_that_wants_to_know_its_clients_is_not_kept),
	ENTRY(odd_answers_are_not_kept),
	ENTRY(a_service_in_a_union_is_kept_and_an_accessor_is_not),
	ENTRY(who_wants_answers_cleared_has_others),
	ENTRY(an_owner_finds_its_own_binder),
	ENTRY(a_full_buffer_fails_as_stock),
	ENTRY(a_small_read_gets_its_parts),
	ENTRY(unread_answers_wait_in_order),
	ENTRY(a_thread_may_end_without_reading),
	ENTRY(odd_calls_get_stock_errors),
	ENTRY(nothing_of_the_first_client_reaches_the_next),
	ENTRY(contexts_know_nothing_of_each_other),
	ENTRY(a_made_context_has_its_own_cache),
	ENTRY(another_format_turns_it_off),
	ENTRY(no_user_takes_all_memory),
	ENTRY(one_client_does_not_end_shared_learning),
	ENTRY(honest_use_is_within_the_limits),
	ENTRY(a_user_namespace_has_stock_devices),
	ENTRY(a_user_namespace_has_caches_when_root_says_so),
	ENTRY(only_the_manager_opts_in),
	ENTRY(a_registration_older_than_the_cache_counts),
	ENTRY(turned_off_and_on_it_confuses_no_answers),
	ENTRY(one_name_can_be_flushed),
	ENTRY(two_threads_fill_the_map_of_descriptors),
	ENTRY(policies_are_arms),
	ENTRY(a_new_policy_is_heard_of),
	ENTRY(a_hit_costs_little),
	ENTRY(the_driver_stays),
};

static void begin(void)
{
	manager_pid = start_manager(DEVICE);
	server_pid = start_server(DEVICE, 0x10000);
}

/* With one table for all callers only this one is of interest. */
static const struct check leak[] = { ENTRY(a_table_for_all_leaks) };

static void run_checks(const struct check *check, size_t count)
{
	for (; count; count--, check++) {
		int before = failures;

		check_name = check->name;
		set_profile("binder");
		set("mode", cooperative ? "cooperative" : "transparent");
		begin();
		open_binder(&client, DEVICE, MAP);
		check->run();
		close_binder(&client);
		end(server_pid);
		end(manager_pid);
		if (failures == before)
			printf("ok %s (%s)\n", check_name,
			       cooperative ? "cooperative" : "transparent");
		fflush(stdout);
	}
}

static void run(const char *what, uint64_t lookups)
{
	if (!strcmp(what, "race")) {
		failures += !no_stale_answer(lookups);
		/* each takes as long as twenty lookups */
		failures += !no_forged_answer(lookups < 400000 ? lookups / 20 : 20000);
	} else if (!strcmp(what, "lazy")) {
		failures += !no_lazy_service_is_kept(lookups);
	} else if (!strcmp(what, "references")) {
		beside_many_references();
	} else if (!strcmp(what, "selinux")) {
		under_a_policy();
	} else if (!strcmp(what, "exhaust")) {
		without_memory();
	} else if (!strcmp(what, "leak")) {
		run_checks(leak, cooperative ? 0 : ARRAY_SIZE(leak));
	} else {
		run_checks(checks, ARRAY_SIZE(checks));
	}
}

int main(int argc, char **argv)
{
	/* a stock driver has no modes: a cooperative manager is the same there */
	int modes = has_cache() ? 2 : 1, mode;

	setvbuf(stdout, NULL, _IOLBF, 0);
	chmod(DEVICE, 0666);
	for (mode = 0; mode < modes; mode++) {
		cooperative = mode;
		if (modes == 2)
			printf("mode %s\n", cooperative ? "cooperative" : "transparent");
		run(argc > 1 ? argv[1] : "", argc > 2 ? strtoull(argv[2], NULL, 10) : 0);
	}
	printf(failures ? "%d failures\n" : "all ok\n", failures);
	return !!failures;
}
