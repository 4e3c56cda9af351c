// SPDX-License-Identifier: GPL-2.0
/* A profile as text: NAME=VALUE pairs separated by spaces; see README.md. */

#include <linux/errno.h>
#include <linux/kernel.h>
#include <linux/string.h>
#include <linux/sysfs.h>
#include <linux/types.h>

#include "format.h"

/* Codes below 64 go to @mask, the rest to @others, which may be NULL. */
static int parse_codes(char *text, u64 *mask, u32 *others, u32 *other_count)
{
	char *word;
	u32 code;

	while ((word = strsep(&text, ","))) {
		if (kstrtou32(word, 10, &code))
			return -EINVAL;
		if (code < 64)
			*mask |= 1ull << code;
		else if (others && *other_count < BINDER_CACHE_OTHERS)
			others[(*other_count)++] = code;
		else
			return -EINVAL;
	}
	return 0;
}

static int parse_bytes(const char *text, u8 *bytes, u32 *size, u32 most)
{
	size_t length = strlen(text);

	if (length % 2 || length / 2 > most)
		return -EINVAL;
	*size = length / 2;
	return hex2bin(bytes, text, *size);
}

static int parse_reply(const char *value, struct binder_cache_format *format)
{
	struct binder_cache_form *form;

	if (format->form_count == BINDER_CACHE_FORMS)
		return -EINVAL;
	form = &format->forms[format->form_count++];
	return parse_bytes(value, (u8 *)form->reply, &form->reply_size, BINDER_CACHE_REPLY_MAX);
}

/* Parses the tails of the reply that was named last. */
static int parse_tails(char *value, struct binder_cache_format *format)
{
	struct binder_cache_form *form;
	char *tail;

	if (!format->form_count)
		format->form_count = 1;
	form = &format->forms[format->form_count - 1];
	while ((tail = strsep(&value, ","))) {
		u32 i = form->tail_count;

		if (i == BINDER_CACHE_TAILS ||
		    parse_bytes(tail, (u8 *)&form->tail[i], &form->tail_size[i],
				sizeof(form->tail[i])))
			return -EINVAL;
		form->tail_count++;
	}
	return 0;
}

static int parse_pair(char *name, char *value, struct binder_cache_format *format)
{
	if (!strcmp(name, "lookup"))
		return parse_codes(value, &format->lookup, NULL, NULL);
	if (!strcmp(name, "readonly"))
		return parse_codes(value, &format->readonly, format->others,
				   &format->other_count);
	if (!strcmp(name, "clients"))
		return parse_codes(value, &format->clients, NULL, NULL);
	if (!strcmp(name, "volatile"))
		return kstrtou32(value, 10, &format->volatile_size) ||
		       format->volatile_size > BINDER_CACHE_VOLATILE_MAX ? -EINVAL : 0;
	if (!strcmp(name, "header"))
		return parse_bytes(value, format->header, &format->header_size,
				   BINDER_CACHE_HEADER_MAX);
	if (!strcmp(name, "reply"))
		return parse_reply(value, format);
	if (!strcmp(name, "tail"))
		return parse_tails(value, format);
	return -EINVAL;
}

int binder_cache_parse_profile(char *text, struct binder_cache_format *format)
{
	char *pair;

	memset(format, 0, sizeof(*format));
	while ((pair = strsep(&text, " "))) {
		char *name = strsep(&pair, "=");

		if (!*name)
			continue;
		if (!pair || parse_pair(name, pair, format))
			return -EINVAL;
	}
	/* A call cannot be both a question and a change. */
	if (!format->lookup || format->lookup & (format->clients | format->readonly))
		return -EINVAL;
	/* no bytes around the binder is a form, too */
	if (!format->form_count)
		format->form_count = 1;
	return 0;
}

static size_t print_codes(char *page, size_t size, const char *name, u64 mask,
			  const u32 *others, u32 other_count)
{
	char separator = '=';
	u32 code;

	if (!mask && !other_count)
		return size;
	size += sysfs_emit_at(page, size, "%s%s", size ? " " : "", name);
	for (code = 0; code < 64; code++) {
		if (!(mask >> code & 1))
			continue;
		size += sysfs_emit_at(page, size, "%c%u", separator, code);
		separator = ',';
	}
	for (code = 0; code < other_count; code++) {
		size += sysfs_emit_at(page, size, "%c%u", separator, others[code]);
		separator = ',';
	}
	return size;
}

static size_t print_bytes(char *page, size_t size, const char *before, const void *bytes, u32 count)
{
	const u8 *byte = bytes;

	size += sysfs_emit_at(page, size, "%s", before);
	while (count--)
		size += sysfs_emit_at(page, size, "%02x", *byte++);
	return size;
}

size_t binder_cache_print_profile(const struct binder_cache_format *format, char *page)
{
	const struct binder_cache_form *form = format->forms;
	size_t size;
	u32 i;

	size = print_codes(page, 0, "lookup", format->lookup, NULL, 0);
	size = print_codes(page, size, "readonly", format->readonly, format->others,
			   format->other_count);
	size = print_codes(page, size, "clients", format->clients, NULL, 0);
	size += sysfs_emit_at(page, size, " volatile=%u", format->volatile_size);
	if (format->header_size)
		size = print_bytes(page, size, " header=", format->header, format->header_size);
	for (; form < format->forms + format->form_count; form++) {
		size = print_bytes(page, size, " reply=", form->reply, form->reply_size);
		for (i = 0; i < form->tail_count; i++)
			size = print_bytes(page, size, i ? "," : " tail=", &form->tail[i],
					   form->tail_size[i]);
	}
	return size + sysfs_emit_at(page, size, "\n");
}
