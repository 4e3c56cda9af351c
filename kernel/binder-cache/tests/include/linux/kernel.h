/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the kernel's header of this name that our sources need, in user space. */
#ifndef _TEST_KERNEL_H
#define _TEST_KERNEL_H

#include <ctype.h>
#include <linux/errno.h>
#include <linux/types.h>

#define ARRAY_SIZE(array)	(sizeof(array) / sizeof((array)[0]))
#define DIV_ROUND_UP(n, d)	(((n) + (d) - 1) / (d))
#define ALIGN(n, to)		(((n) + (to) - 1) / (to) * (to))

/* Like the kernel's for base 10: accepts a leading plus sign and a trailing newline. */
static inline int kstrtou32(const char *text, unsigned int base, u32 *result)
{
	u64 value = 0;

	text += *text == '+';
	if (base != 10 || !isdigit((unsigned char)*text))
		return -EINVAL;
	while (isdigit((unsigned char)*text)) {
		value = 10 * value + (*text++ - '0');
		if (value > UINT32_MAX)
			return -ERANGE;
	}
	text += *text == '\n';
	if (*text)
		return -EINVAL;
	*result = value;
	return 0;
}

static inline int hex_to_bin(unsigned char digit)
{
	if (isdigit(digit))
		return digit - '0';
	return isxdigit(digit) ? tolower(digit) - 'a' + 10 : -1;
}

static inline int hex2bin(u8 *bytes, const char *text, size_t count)
{
	for (; count; count--, text += 2) {
		int high = hex_to_bin(text[0]), low = high < 0 ? -1 : hex_to_bin(text[1]);

		if (low < 0)
			return -EINVAL;
		*bytes++ = high << 4 | low;
	}
	return 0;
}

#endif
