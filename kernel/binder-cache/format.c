// SPDX-License-Identifier: GPL-2.0
/* See format.h: is it a look-up, is it an answer. */

#include <linux/android/binder.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/types.h>

#include "format.h"

#define OBJECT_SIZE	sizeof(struct flat_binder_object)

void binder_cache_align_header(struct binder_cache_format *format)
{
	u32 pad = -(format->volatile_size + format->header_size) & 7;
	u32 start = pad + format->volatile_size;

	memset(format->fixed, 0, sizeof(format->fixed));
	memcpy((u8 *)format->prefix + start, format->header, format->header_size);
	memset((u8 *)format->fixed + start, 0xff, format->header_size);
}

bool binder_cache_is_string16(const u8 *bytes, size_t size)
{
	u32 length, i;

	if (size < 8)
		return false;
	memcpy(&length, bytes, 4);
	if (length >= BC_KEY_MAX / 2 || size != 4 + ALIGN(2 * (length + 1), 4))
		return false;
	for (i = 4 + 2 * length; i < size; i++)
		if (bytes[i])
			return false;
	return true;
}

bool binder_cache_recognise(const struct binder_cache_format *format, u32 prefix, const u64 *room,
			    const u8 *request, size_t size)
{
	u32 i;

	if (prefix != format->volatile_size + format->header_size || size <= prefix)
		return false;
	for (i = format->volatile_size / 8; i < DIV_ROUND_UP(prefix, 8); i++)
		if ((room[i] ^ format->prefix[i]) & format->fixed[i])
			return false;
	return binder_cache_is_string16(request + prefix, size - prefix);
}

/* memcmp() is not worth its call for a handful of bytes. */
static __always_inline bool is_same(const u8 *a, const u8 *b, size_t size)
{
	for (; size >= sizeof(u32); size -= sizeof(u32), a += sizeof(u32), b += sizeof(u32))
		if (memcmp(a, b, sizeof(u32)))
			return false;
	while (size--)
		if (*a++ != *b++)
			return false;
	return true;
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
	/* the offset lies behind, so that a whole word can be read */
	memcpy(&tail, data + end, sizeof(tail));
	if (tail_size < sizeof(tail))
		tail &= (1ull << 8 * tail_size) - 1;
	for (; form < last; form++) {
		if (answer->offset != form->reply_size ||
		    !is_same(data, form->reply, form->reply_size))
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
	/* what lies between is the client's, from calls before */
	if (size % sizeof(u64))
		answer->data[size / sizeof(u64)] &= (1ull << size % sizeof(u64) * 8) - 1;
	offset = answer->data[ALIGN(size, sizeof(u64)) / sizeof(u64)];
	/* the driver has checked it when it translated the reply */
	if (size < OBJECT_SIZE || offset > size - OBJECT_SIZE)
		return false;
	memcpy(&header, (const u8 *)answer->data + offset, sizeof(header));
	if (header.type != BINDER_TYPE_HANDLE)
		return false;
	answer->size = size;
	answer->offset = offset;
	return !format->form_count || binder_cache_is_answer(format, answer);
}
