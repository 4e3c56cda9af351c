/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the kernel's header of this name that our sources need, in user space. */
#ifndef _TEST_SYSFS_H
#define _TEST_SYSFS_H

#include <stdarg.h>
#include <stdio.h>

#define PAGE_SIZE	4096

/* Like the kernel's, which truncates at the end of the page. */
__attribute__((__format__(printf, 3, 4)))
static inline int sysfs_emit_at(char *page, int at, const char *format, ...)
{
	va_list arguments;
	int length;

	if (at < 0 || at >= PAGE_SIZE)
		return 0;
	va_start(arguments, format);
	length = vsnprintf(page + at, PAGE_SIZE - at, format, arguments);
	va_end(arguments);
	return length < PAGE_SIZE - at ? length : PAGE_SIZE - at - 1;
}

#endif
