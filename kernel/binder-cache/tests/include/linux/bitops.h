/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the kernel's header of this name that our sources need, in user space. */
#ifndef _TEST_BITOPS_H
#define _TEST_BITOPS_H

#define __ffs(word)	__builtin_ctzl(word)

#endif
