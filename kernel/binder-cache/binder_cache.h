/* SPDX-License-Identifier: GPL-2.0 WITH Linux-syscall-note */
/* Interface for a context manager that lets the binder driver keep its answers. */
#ifndef _UAPI_LINUX_BINDER_CACHE_H
#define _UAPI_LINUX_BINDER_CACHE_H

#include <linux/ioctl.h>
#include <linux/types.h>

#define BINDER_CACHE_HEADER_MAX	128

/**
 * struct binder_cache_profile - which calls are lookups, and their format
 * @lookup_codes:	bit n: code n is a lookup; none: opt out
 * @volatile_size:	bytes at the start that are not part of the question
 * @header_size:	bytes of @header that must follow them
 * @uid_span:		user identifiers per Android user; 0: no isolated callers
 * @isolated_first:	first isolated identifier within a user
 * @isolated_last:	last one
 * @reserved:		0
 * @header:		marker and interface descriptor
 */
struct binder_cache_profile {
	__u64 lookup_codes;
	__u32 volatile_size;
	__u32 header_size;
	__u32 uid_span;
	__u32 isolated_first;
	__u32 isolated_last;
	__u32 reserved;
	__u8 header[BINDER_CACHE_HEADER_MAX];
};

/**
 * struct binder_cache_flush - what to remove
 * @key:	address of the name as a lookup carries it, after the header
 * @key_size:	its length in bytes; 0: everything
 * @reserved:	0
 */
struct binder_cache_flush {
	__u64 key;
	__u32 key_size;
	__u32 reserved;
};

#define BINDER_CACHE_OPT_IN	_IOW('b', 0xC0, struct binder_cache_profile)
#define BINDER_CACHE_FLUSH	_IOW('b', 0xC1, struct binder_cache_flush)

/* Which callers may get the same answer: in the flags of a BC_REPLY. */
#define BINDER_CACHE_EXACT	0x10000000u
#define BINDER_CACHE_SECURITY	0x20000000u
#define BINDER_CACHE_ANY	0x30000000u
#define BINDER_CACHE_SCOPE	0x30000000u

#endif /* _UAPI_LINUX_BINDER_CACHE_H */
