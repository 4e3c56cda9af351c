// SPDX-License-Identifier: GPL-2.0
/* See format.h: recognises lookups and answers. */

#include <linux/android/binder.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>

#include "format.h"

#define OBJECT_SIZE	sizeof(struct flat_binder_object)

void binder_cache_align(struct binder_cache_format *format)
{
	u32 pad = -(format->volatile_size + format->header_size) & 7;
	u32 start = pad + format->volatile_size;
	struct binder_cache_form *form = format->forms;

	memcpy((u8 *)format->prefix + start, format->header, format->header_size);
	format->first_word = start / 8;
	format->key_word = bc_words(start + format->header_size);
	format->first_fixed = ~0ull;
	memset(&format->first_fixed, 0, start % 8);
	for (; form < format->forms + format->form_count; form++) {
		memset(form->fixed, 0, sizeof(form->fixed));
		memset(form->fixed, 0xff, form->reply_size);
	}
}

/* The last four bytes hold the terminator, alone or after the last character. */
static __always_inline bool is_string16(const u8 *bytes, size_t size)
{
	u16 end[2];
	u32 length;

	if (size < 8)
		return false;
	memcpy(&length, bytes, 4);
	if (length >= BC_KEY_MAX / 2 || size != 4 + ALIGN(2 * (length + 1), 4))
		return false;
	memcpy(end, bytes + size - 4, 4);
	return !end[1] && (length % 2 || !end[0]);
}

bool binder_cache_is_string16(const u8 *bytes, size_t size)
{
	return is_string16(bytes, size);
}

bool binder_cache_recognise(const struct binder_cache_format *format, u32 prefix, const u64 *room,
			    const u8 *request, size_t size)
{
	const u64 *word = room + format->first_word;
	const u64 *end = room + format->key_word;
	const u64 *expected = format->prefix + format->first_word;
	u64 differing = 0;

	if (prefix != format->volatile_size + format->header_size || size <= prefix)
		return false;
	if (word < end)
		differing = (*word++ ^ *expected++) & format->first_fixed;
	/* all words, two at a time: an early exit would take longer */
	for (; word + 1 < end; word += 2, expected += 2)
		differing |= (word[0] ^ expected[0]) | (word[1] ^ expected[1]);
	if (word < end)
		differing |= *word ^ *expected;
	return !differing && is_string16(request + prefix, size - prefix);
}

/* Words that are masked out may hold what follows the answer. */
static __always_inline bool begins_with(const u64 *data, const struct binder_cache_form *form)
{
	return !(((data[0] ^ form->reply[0]) & form->fixed[0]) |
		 ((data[1] ^ form->reply[1]) & form->fixed[1]) |
		 ((data[2] ^ form->reply[2]) & form->fixed[2]));
}

bool binder_cache_is_answer(const struct binder_cache_format *format,
			    const struct bc_answer *answer)
{
	const struct binder_cache_form *form = format->forms;
	const struct binder_cache_form *last = form + format->form_count;
	size_t end = answer->offset + OBJECT_SIZE;
	const u8 *data = (const u8 *)answer->data;
	size_t tail_size = answer->size - end;
	u64 tail = 0;
	u32 i;

	if (tail_size > sizeof(tail))
		return false;
	/* the offset follows, so that a whole word can be read */
	memcpy(&tail, data + end, sizeof(tail));
	if (tail_size < sizeof(tail))
		tail &= (1ull << 8 * tail_size) - 1;
	for (; form < last; form++) {
		if (answer->offset != form->reply_size || !begins_with(answer->data, form))
			continue;
		for (i = 0; i < form->tail_count; i++)
			if (tail == form->tail[i] && tail_size == form->tail_size[i])
				return true;
		if (!form->tail_count && !tail_size)
			return true;
	}
	return false;
}

bool binder_cache_read_answer(const struct binder_cache_format *format, struct bc_answer *answer,
			      size_t size)
{
	struct binder_object_header header;
	u64 offset;

	if (size > BC_ANSWER_MAX)
		return false;
	/* the bytes in between are the client's, from earlier calls */
	if (size % sizeof(u64))
		answer->data[size / sizeof(u64)] &= (1ull << size % sizeof(u64) * 8) - 1;
	offset = answer->data[ALIGN(size, sizeof(u64)) / sizeof(u64)];
	/* the driver has checked this when it translated the reply */
	if (size < OBJECT_SIZE || offset > size - OBJECT_SIZE)
		return false;
	memcpy(&header, (const u8 *)answer->data + offset, sizeof(header));
	if (header.type != BINDER_TYPE_HANDLE)
		return false;
	answer->size = size;
	answer->offset = offset;
	return !format->form_count || binder_cache_is_answer(format, answer);
}
