/* SPDX-License-Identifier: GPL-2.0 */
/* What core.c needs of the kernel's header of this name, in user space. */
#ifndef _TEST_TYPES_H
#define _TEST_TYPES_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef uint8_t u8;
typedef uint16_t u16;
typedef uint32_t u32;
typedef uint64_t u64;

#define fallthrough __attribute__((__fallthrough__))
#define ARRAY_SIZE(array) (sizeof(array) / sizeof((array)[0]))

#endif
