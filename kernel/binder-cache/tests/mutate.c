// SPDX-License-Identifier: GPL-2.0
/*
 * Feeds the targets mutants of their seeds, where there is no libFuzzer:
 *
 *	mutate [-n INPUTS] [-t SECONDS] [-s SEED] [TARGET]...
 *
 * The input that breaks a target is printed.
 */

#include <linux/kernel.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "targets.h"

#define LENGTH_MAX	4096
#define SEEDS_MAX	16

/* Sanitizer reports end in an abort, so that the input is printed. */
const char *__asan_default_options(void);
const char *__ubsan_default_options(void);

/* Input that often breaks parsers. */
static const char * const tokens[] = {
	"0", "63", "64", "-1", "4294967295", "4294967296", "+1", ",", "=", " ", "\n",
	"lookup=", "readonly=", "tail=", "reply=", "header=", "volatile=", "\xff\xff\xff\xff",
	"\x7f", "\x80",
};

static const struct target *current;
static u8 input[LENGTH_MAX];
static size_t length;
static u64 state;

const char *__asan_default_options(void)
{
	return "abort_on_error=1";
}

const char *__ubsan_default_options(void)
{
	return "abort_on_error=1";
}

static void aborted(int number)
{
	size_t i;

	fprintf(stderr, "%s broke on %zu bytes: ", current->name, length);
	for (i = 0; i < length; i++)
		fprintf(stderr, "%02x", input[i]);
	fprintf(stderr, "\n");
	_exit(128 + number);
}

static u32 below(u32 limit)
{
	state ^= state << 13;
	state ^= state >> 7;
	state ^= state << 17;
	return (state >> 32) % limit;
}

/* Replaces @count bytes at @at by @size of @bytes, as far as they fit. */
static void splice(size_t at, size_t count, const void *bytes, size_t size)
{
	static u8 rest[LENGTH_MAX];
	size_t kept = length - at - count;

	memcpy(rest, input + at + count, kept);
	if (size > LENGTH_MAX - at)
		size = LENGTH_MAX - at;
	memmove(input + at, bytes, size);
	if (kept > LENGTH_MAX - at - size)
		kept = LENGTH_MAX - at - size;
	memcpy(input + at + size, rest, kept);
	length = at + size + kept;
}

static void mutate(const struct seed *seeds, u32 seed_count)
{
	const struct seed *other = &seeds[below(seed_count)];
	size_t at = below(length + 1), count = below(24), from = below(other->size + 1);
	const char *token = tokens[below(ARRAY_SIZE(tokens))];
	u8 byte = below(256);

	if (count > length - at)
		count = length - at;
	switch (below(8)) {
	case 0:
		if (at < length)
			input[at] ^= 1 << below(8);
		break;
	case 1:
		if (at < length)
			input[at] = byte;
		break;
	case 2:
		if (at < length)
			input[at] += below(2) ? 1 : -1;
		break;
	case 3:
		splice(at, count, "", 0);
		break;
	case 4:
		splice(at, below(2) ? count : 0, token, strlen(token));
		break;
	case 5:
		splice(at, 0, &byte, 1);
		break;
	case 6:
		splice(at, 0, input + at, count);
		break;
	default:
		splice(at, count, other->bytes + from, other->size - from);
	}
}

static void random_input(void)
{
	size_t i;

	length = below(256);
	for (i = 0; i < length; i++)
		input[i] = below(256);
}

static void fuzz(const struct target *target, u64 inputs, time_t seconds)
{
	static struct seed seeds[SEEDS_MAX];
	time_t end = time(NULL) + seconds;
	u32 seed_count = 0;
	u64 fed;

	current = target;
	memset(seeds, 0, sizeof(seeds));
	while (seed_count < SEEDS_MAX && target->make_seed(seed_count, &seeds[seed_count])) {
		length = seeds[seed_count].size;
		memcpy(input, seeds[seed_count++].bytes, length);
		target->feed(input, length);
	}
	for (fed = 0; seconds ? time(NULL) < end : fed < inputs; fed++) {
		const struct seed *seed = &seeds[below(seed_count)];
		u32 changes = 1 + below(6);

		length = seed->size;
		memcpy(input, seed->bytes, length);
		while (changes--)
			mutate(seeds, seed_count);
		if (!below(32))
			random_input();
		target->feed(input, length);
	}
	printf("%s: %llu inputs of %u seeds\n", target->name, (unsigned long long)fed, seed_count);
}

int main(int argc, char **argv)
{
	u64 inputs = 20000, seed = 20170201;
	time_t seconds = 0;
	size_t i, fuzzed = 0;
	int option;

	while ((option = getopt(argc, argv, "n:t:s:")) != -1) {
		if (option == 'n')
			inputs = strtoull(optarg, NULL, 10);
		else if (option == 't')
			seconds = strtoull(optarg, NULL, 10);
		else if (option == 's')
			seed = strtoull(optarg, NULL, 10);
		else
			return 2;
	}
	signal(SIGABRT, aborted);
	for (i = 0; i < target_count; i++) {
		bool is_wanted = optind == argc;
		int name;

		for (name = optind; name < argc; name++)
			is_wanted |= !strcmp(argv[name], targets[i].name);
		if (!is_wanted)
			continue;
		/* each target starts from the same state; xorshift must not start at 0 */
		state = seed * 0x9e3779b97f4a7c15ull | 1;
		fuzz(&targets[i], inputs, seconds);
		fuzzed++;
	}
	if (fuzzed)
		return 0;
	fprintf(stderr, "mutate: no such target\n");
	return 2;
}
