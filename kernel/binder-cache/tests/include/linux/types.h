/* SPDX-License-Identifier: GPL-2.0 */
/* The part of the kernel's header of this name that our sources need, in user space. */
#ifndef _TEST_TYPES_H
#define _TEST_TYPES_H

#include_next <linux/types.h>

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;
typedef int64_t s64;

#define fallthrough __attribute__((__fallthrough__))

#endif
