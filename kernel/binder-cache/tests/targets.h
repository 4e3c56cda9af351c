/* SPDX-License-Identifier: GPL-2.0 */
/*
 * The fuzz targets: each parser of untrusted bytes in the driver's cache, as a
 * function of bytes.  A target may refuse any input; a result must match a
 * simple implementation of README.md, or the target aborts.
 */
#ifndef _TARGETS_H
#define _TARGETS_H

#include <linux/types.h>

struct seed {
	u8 bytes[512];
	size_t size;
};

struct target {
	const char *name;
	void (*feed)(const u8 *bytes, size_t size);
	/* Makes valid input number @number, false: there are no more. */
	bool (*make_seed)(u32 number, struct seed *seed);
};

extern const struct target targets[];
extern const size_t target_count;

#endif
