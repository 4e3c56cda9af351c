/* SPDX-License-Identifier: GPL-2.0 */
/* What our sources need of the kernel's header of this name, in user space. */
#ifndef _TEST_BITOPS_H
#define _TEST_BITOPS_H

#define __ffs(word)	__builtin_ctzl(word)

#endif
