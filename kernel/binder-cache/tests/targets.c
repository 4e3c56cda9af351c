// SPDX-License-Identifier: GPL-2.0
/* See targets.h. */

#include <linux/android/binder.h>
#include <linux/kernel.h>
#include <linux/sysfs.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "../format.h"
#include "model.h"
#include "targets.h"

/* Input is consumed from its start; after its end it reads as zeros. */
struct input {
	const u8 *at, *end;
};

static u32 take(struct input *in, u32 below)
{
	return in->at < in->end ? *in->at++ % below : 0;
}

static void take_bytes(struct input *in, void *bytes, size_t size)
{
	size_t there = in->end - in->at;
	size_t taken = there < size ? there : size;

	memset(bytes, 0, size);
	memcpy(bytes, in->at, taken);
	in->at += taken;
}

/* Exactly as large as its content, so that a read beyond the end is noticed. */
static u8 *copy_of(const u8 *bytes, size_t size)
{
	u8 *copy = malloc(size + !size);

	memcpy(copy, bytes, size);
	return copy;
}

static void put(struct seed *seed, const void *bytes, size_t size)
{
	MUST(seed->size + size <= sizeof(seed->bytes));
	memcpy(seed->bytes + seed->size, bytes, size);
	seed->size += size;
}

static void put_byte(struct seed *seed, u8 byte)
{
	put(seed, &byte, 1);
}

static void put_string16(struct seed *seed, const char *text)
{
	u32 length = strlen(text), i;

	put(seed, &length, sizeof(length));
	for (i = 0; i <= length; i++) {
		put_byte(seed, text[i]);
		put_byte(seed, 0);
	}
	if (length % 2 == 0)
		put(seed, "\0\0", 2);
}

/* ---- is_string16: the input is the string ---- */

static bool plain_is_string16(const u8 *bytes, size_t size)
{
	size_t length, end;

	if (size < 8)
		return false;
	length = bytes[0] | bytes[1] << 8 | bytes[2] << 16 | (size_t)bytes[3] << 24;
	if (length > 127)
		return false;
	end = 4 + 2 * length;
	/* the terminator, and padding to four bytes, and nothing else */
	if (size < end + 2 || size % 4 || size - end > 4)
		return false;
	while (end < size)
		if (bytes[end++])
			return false;
	return true;
}

static void feed_string16(const u8 *bytes, size_t size)
{
	u8 *copy = copy_of(bytes, size);

	MUST(binder_cache_is_string16(copy, size) == plain_is_string16(bytes, size));
	free(copy);
}

static bool seed_string16(u32 number, struct seed *seed)
{
	static const char * const names[] = { "", "a", "ab", "activity", "media.player" };

	if (number >= ARRAY_SIZE(names))
		return false;
	put_string16(seed, names[number]);
	return true;
}

/* ---- recognise: sizes, header, and a request ---- */

static void feed_recognise(const u8 *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	u64 room[BINDER_CACHE_REQUEST_MAX / 8 + 2];
	struct binder_cache_format format = { 0 };
	const u8 *request;
	u32 prefix, i;
	u8 *aligned;
	bool expected;

	format.volatile_size = take(&in, BINDER_CACHE_VOLATILE_MAX + 1);
	format.header_size = take(&in, BINDER_CACHE_HEADER_MAX + 1);
	take_bytes(&in, format.header, format.header_size);
	binder_cache_align(&format);
	prefix = format.volatile_size + format.header_size;
	request = in.at;
	size = in.end - in.at;
	if (size > BINDER_CACHE_REQUEST_MAX)
		size = BINDER_CACHE_REQUEST_MAX;
	/* bytes around it in the driver's buffer must not matter */
	memset(room, 0xa5, sizeof(room));
	aligned = (u8 *)room + (-prefix & 7);
	memcpy(aligned, request, size);
	expected = size > prefix;
	for (i = 0; i < format.header_size && expected; i++)
		expected = request[format.volatile_size + i] == format.header[i];
	expected = expected && plain_is_string16(request + prefix, size - prefix);
	MUST(binder_cache_recognise(&format, prefix, room, aligned, size) == expected);
	/* the format may have changed meanwhile */
	MUST(!binder_cache_recognise(&format, prefix + 1, room, aligned, size));
}

static bool seed_recognise(u32 number, struct seed *seed)
{
	static const struct {
		u8 volatile_size, header_size;
		const char *name;
	} rows[] = {
		{ 8, 60, "activity" }, { 0, 4, "a" }, { 16, 128, "window" }, { 12, 33, "" },
		{ 3, 0, "power" },
	};
	u8 header[BINDER_CACHE_HEADER_MAX];
	u32 i;

	if (number >= ARRAY_SIZE(rows))
		return false;
	for (i = 0; i < sizeof(header); i++)
		header[i] = 3 * i + 1;
	put_byte(seed, rows[number].volatile_size);
	put_byte(seed, rows[number].header_size);
	put(seed, header, rows[number].header_size);
	put(seed, "volatile bytes..", rows[number].volatile_size);
	put(seed, header, rows[number].header_size);
	put_string16(seed, rows[number].name);
	return true;
}

/* ---- is_answer, read_answer: forms, size, offset, and a reply ---- */

static void take_forms(struct input *in, struct binder_cache_format *format)
{
	u32 i, tail;

	format->form_count = take(in, BINDER_CACHE_FORMS + 1);
	for (i = 0; i < format->form_count; i++) {
		struct binder_cache_form *form = &format->forms[i];

		form->reply_size = take(in, BINDER_CACHE_REPLY_MAX + 1);
		take_bytes(in, form->reply, form->reply_size);
		form->tail_count = take(in, BINDER_CACHE_TAILS + 1);
		for (tail = 0; tail < form->tail_count; tail++) {
			form->tail_size[tail] = take(in, 9);
			take_bytes(in, &form->tail[tail], form->tail_size[tail]);
		}
	}
}

static bool plain_has_tail(const struct binder_cache_form *form, const u8 *tail, size_t size)
{
	u32 i;

	if (!form->tail_count)
		return !size;
	for (i = 0; i < form->tail_count; i++)
		if (size == form->tail_size[i] && !memcmp(tail, &form->tail[i], size))
			return true;
	return false;
}

static bool plain_is_answer(const struct binder_cache_format *format, const u8 *data,
			    size_t size, size_t offset)
{
	size_t end = offset + sizeof(struct flat_binder_object);
	u32 i;

	for (i = 0; i < format->form_count; i++) {
		const struct binder_cache_form *form = &format->forms[i];

		if (offset == form->reply_size && !memcmp(data, form->reply, offset) &&
		    plain_has_tail(form, data + end, size - end))
			return true;
	}
	return false;
}

static void feed_is_answer(const u8 *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	struct binder_cache_format format = { 0 };
	struct bc_answer answer;

	take_forms(&in, &format);
	binder_cache_align(&format);
	memset(&answer, 0xa5, sizeof(answer));
	answer.size = sizeof(struct flat_binder_object) +
		      take(&in, BC_ANSWER_MAX - sizeof(struct flat_binder_object) + 1);
	answer.offset = take(&in, answer.size - sizeof(struct flat_binder_object) + 1);
	take_bytes(&in, answer.data, answer.size);
	MUST(binder_cache_is_answer(&format, &answer) ==
	     plain_is_answer(&format, (const u8 *)answer.data, answer.size, answer.offset));
}

static void feed_read_answer(const u8 *bytes, size_t size)
{
	struct input in = { bytes, bytes + size };
	struct binder_cache_format format = { 0 };
	u8 data[BC_ANSWER_MAX + 1] = { 0 };
	struct bc_answer answer;
	u64 offset = 0;
	u32 type, i;
	bool expected;

	take_forms(&in, &format);
	binder_cache_align(&format);
	size = take(&in, BC_ANSWER_MAX + 2);
	take_bytes(&in, &offset, take(&in, 8) ? 1 : 8);
	take_bytes(&in, data, size);
	/* like the driver: the offset in the next word, and stale bytes in between */
	memset(&answer, 0xa5, sizeof(answer));
	if (size <= BC_ANSWER_MAX) {
		memcpy(answer.data, data, size);
		answer.data[DIV_ROUND_UP(size, 8)] = offset;
	}
	expected = size >= sizeof(struct flat_binder_object) && size <= BC_ANSWER_MAX &&
		   offset <= size - sizeof(struct flat_binder_object);
	if (expected) {
		memcpy(&type, data + offset, sizeof(type));
		expected = type == BINDER_TYPE_HANDLE &&
			   (!format.form_count || plain_is_answer(&format, data, size, offset));
	}
	MUST(binder_cache_read_answer(&format, &answer, size) == expected);
	if (!expected)
		return;
	MUST(answer.size == size && answer.offset == offset);
	MUST(!memcmp(answer.data, data, size));
	/* the next caller gets whole words of it */
	for (i = size; i % 8; i++)
		MUST(!((const u8 *)answer.data)[i]);
}

static void put_reply(struct seed *seed, bool is_union, u32 tail)
{
	struct flat_binder_object object = { .hdr.type = BINDER_TYPE_HANDLE, .handle = 3 };
	static const u32 words[] = { 0, 1, 0, 1, 36 };
	u32 twelve = 12;

	put(seed, words, is_union ? sizeof(words) : sizeof(u32));
	put(seed, &object, sizeof(object));
	put(seed, &twelve, sizeof(twelve));
	put(seed, "\0\0\0\0", tail - sizeof(twelve));
}

/* Android 11's and 16's forms; then the sizes as the target expects them. */
static void put_forms(struct seed *seed)
{
	static const u32 words[] = { 0, 1, 0, 1, 36 };
	u8 tail[8] = { 12 };

	put_byte(seed, 2);
	put_byte(seed, sizeof(u32));
	put(seed, words, sizeof(u32));
	put_byte(seed, 2);
	put_byte(seed, 4);
	put(seed, tail, 4);
	put_byte(seed, 8);
	put(seed, tail, 8);
	put_byte(seed, sizeof(words));
	put(seed, words, sizeof(words));
	put_byte(seed, 1);
	put_byte(seed, 8);
	put(seed, tail, 8);
}

static bool seed_answer(u32 number, struct seed *seed, bool reads)
{
	static const struct {
		bool has_forms, is_union;
		u32 tail;
	} rows[] = {
		{ true, false, 4 }, { true, false, 8 }, { true, true, 8 }, { false, false, 4 },
	};
	u32 before, size;

	if (number >= ARRAY_SIZE(rows))
		return false;
	before = rows[number].is_union ? 20 : 4;
	size = before + sizeof(struct flat_binder_object) + rows[number].tail;
	if (rows[number].has_forms)
		put_forms(seed);
	else
		put_byte(seed, 0);
	put_byte(seed, reads ? size : size - sizeof(struct flat_binder_object));
	if (reads)
		put_byte(seed, 1);
	put_byte(seed, before);
	put_reply(seed, rows[number].is_union, rows[number].tail);
	return true;
}

static bool seed_is_answer(u32 number, struct seed *seed)
{
	return seed_answer(number, seed, false);
}

static bool seed_read_answer(u32 number, struct seed *seed)
{
	return seed_answer(number, seed, true);
}

/* ---- profile: text, as written to the file ---- */

static bool is_sound(const struct binder_cache_format *format)
{
	bool sound = format->lookup && !(format->lookup & (format->clients | format->readonly)) &&
		     format->other_count <= BINDER_CACHE_OTHERS &&
		     format->volatile_size <= BINDER_CACHE_VOLATILE_MAX &&
		     format->header_size <= BINDER_CACHE_HEADER_MAX &&
		     format->form_count && format->form_count <= BINDER_CACHE_FORMS;
	u32 i, tail;

	for (i = 0; sound && i < format->form_count; i++) {
		const struct binder_cache_form *form = &format->forms[i];

		sound = form->reply_size <= BINDER_CACHE_REPLY_MAX &&
			form->tail_count <= BINDER_CACHE_TAILS;
		for (tail = 0; sound && tail < form->tail_count; tail++)
			sound = form->tail_size[tail] <= sizeof(form->tail[tail]);
	}
	return sound;
}

static int parse(const char *text, size_t size, struct binder_cache_format *format)
{
	char *copy = malloc(size + 1);
	int result;

	memcpy(copy, text, size);
	copy[size] = 0;
	result = binder_cache_parse_profile(copy, format);
	free(copy);
	return result;
}

/* An accepted profile is within its bounds, and its printed form parses to the same. */
static void feed_profile(const u8 *bytes, size_t size)
{
	struct binder_cache_format format, again;
	char page[PAGE_SIZE], page_again[PAGE_SIZE];
	size_t length;

	if (parse((const char *)bytes, size, &format))
		return;
	MUST(is_sound(&format));
	/* into the driver's buffer, up to its end */
	binder_cache_align(&format);
	length = binder_cache_print_profile(&format, page);
	MUST(length && length < PAGE_SIZE && page[length - 1] == '\n');
	MUST(!parse(page, length - 1, &again));
	MUST(binder_cache_print_profile(&again, page_again) == length);
	MUST(!memcmp(page, page_again, length));
	MUST(again.lookup == format.lookup && again.readonly == format.readonly &&
	     again.clients == format.clients && again.other_count == format.other_count &&
	     again.volatile_size == format.volatile_size &&
	     again.header_size == format.header_size && again.form_count == format.form_count);
	MUST(!memcmp(again.others, format.others, 4 * format.other_count));
	MUST(!memcmp(again.header, format.header, format.header_size));
}

static bool seed_profile(u32 number, struct seed *seed)
{
	static const char * const texts[] = {
		"lookup=1,2",
		"lookup=1,2,9 readonly=4,6,1599098439 clients=7 volatile=8 header=0a0b0c0d",
		"lookup=1 reply=00000000 tail=0c000000,0c00000000000000 reply=0000000001000000",
		"lookup=63 readonly=0,64,65 volatile=16 tail=,00",
		"readonly=64,65,66,67,68,69,70,71,72,73,74,75,76,77,78,79 lookup=5",
		"lookup=1 reply=01 reply=02 reply=03 reply=04 tail=01,02,03,04,05,06,07,08",
	};

	if (number >= ARRAY_SIZE(texts))
		return false;
	put(seed, texts[number], strlen(texts[number]));
	return true;
}

/* ---- core: a program for the core and its model ---- */

static void feed_core(const u8 *bytes, size_t size)
{
	struct coverage coverage = { 0 };

	run_program(bytes, size, &coverage);
}

static bool seed_core(u32 number, struct seed *seed)
{
	u32 i;

	put_byte(seed, number);
	/* ask, learn, find; mutants cover the rest */
	for (i = 0; i < 12; i++) {
		put(seed, (u8[]){ 0, i, i, number, i, i }, 6);
		put(seed, (u8[]){ 60, i, number, i }, 4);
		put(seed, (u8[]){ 120, i, number, i, i, 0 }, 6);
	}
	return number < 3;
}

const struct target targets[] = {
	{ "is_string16", feed_string16, seed_string16 },
	{ "recognise", feed_recognise, seed_recognise },
	{ "is_answer", feed_is_answer, seed_is_answer },
	{ "read_answer", feed_read_answer, seed_read_answer },
	{ "profile", feed_profile, seed_profile },
	{ "core", feed_core, seed_core },
};

const size_t target_count = ARRAY_SIZE(targets);
