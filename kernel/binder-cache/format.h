/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The wire format of lookups and their answers, and the profile that describes
 * it.  This code only reads bytes: no driver types, no locks, no user memory.
 */
#ifndef _BINDER_CACHE_FORMAT_H
#define _BINDER_CACHE_FORMAT_H

#include <linux/kernel.h>
#include <linux/types.h>

#include "binder_cache.h"
#include "core.h"

#define BINDER_CACHE_VOLATILE_MAX	16
#define BINDER_CACHE_PREFIX_WORDS \
	DIV_ROUND_UP(BINDER_CACHE_VOLATILE_MAX + BINDER_CACHE_HEADER_MAX, 8)
#define BINDER_CACHE_REQUEST_MAX \
	(BINDER_CACHE_VOLATILE_MAX + BINDER_CACHE_HEADER_MAX + BC_KEY_MAX)
#define BINDER_CACHE_REPLY_WORDS	3
#define BINDER_CACHE_REPLY_MAX		(8 * BINDER_CACHE_REPLY_WORDS)
#define BINDER_CACHE_FORMS		4
#define BINDER_CACHE_TAILS		8
#define BINDER_CACHE_OTHERS		16

/*
 * The bytes around the one binder of an answer: @reply before it, compared under
 * the mask @fixed, and one of @tail after it, padded with zeros to a word.
 */
struct binder_cache_form {
	u32 reply_size;
	u32 tail_count;
	u32 tail_size[BINDER_CACHE_TAILS];
	u64 tail[BINDER_CACHE_TAILS];
	u64 reply[BINDER_CACHE_REPLY_WORDS];
	u64 fixed[BINDER_CACHE_REPLY_WORDS];
};

/*
 * @prefix precedes a key, which begins at @key_word.  It must match from
 * @first_word on; @first_fixed masks that word.  All four are derived from the
 * other fields.  Without @forms an answer may have any form.
 */
struct binder_cache_format {
	u64 lookup;
	u64 readonly;
	u64 clients;
	u32 others[BINDER_CACHE_OTHERS];
	u32 other_count;
	u32 volatile_size;
	u32 header_size;
	u32 form_count;
	u32 uid_span;
	u32 isolated_first;
	u32 isolated_last;
	u64 prefix[BINDER_CACHE_PREFIX_WORDS];
	u64 first_fixed;
	u32 first_word;
	u32 key_word;
	u8 header[BINDER_CACHE_HEADER_MAX];
	struct binder_cache_form forms[BINDER_CACHE_FORMS];
};

/* format.c */

/* Computes the derived fields of @format; call before anything is compared with it. */
void binder_cache_align(struct binder_cache_format *format);

/*
 * A length, its characters, a zero, zeros as padding, and nothing else, so that a
 * caller cannot ask for one name by many keys.
 */
bool binder_cache_is_string16(const u8 *bytes, size_t size);

/*
 * True if @request of @size bytes, whose key begins at @prefix, is a lookup.
 * @room holds it such that the key is aligned to a word.
 */
bool binder_cache_recognise(const struct binder_cache_format *format, u32 prefix, const u64 *room,
			    const u8 *request, size_t size);

/*
 * Completes @answer, whose data hold @size bytes of a reply, with any padding up
 * to a word, and the offset of its one object; false: it must not be kept.
 */
bool binder_cache_read_answer(const struct binder_cache_format *format, struct bc_answer *answer,
			      size_t size);

/* True if one of the forms surrounds the binder at the answer's offset. */
bool binder_cache_is_answer(const struct binder_cache_format *format,
			    const struct bc_answer *answer);

/* profile.c */

/* Parses @text; 0 or -EINVAL. */
int binder_cache_parse_profile(char *text, struct binder_cache_format *format);

/* Prints @format into @page; returns the length. */
size_t binder_cache_print_profile(const struct binder_cache_format *format, char *page);

#endif /* _BINDER_CACHE_FORMAT_H */
