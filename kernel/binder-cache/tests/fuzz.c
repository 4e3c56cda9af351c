// SPDX-License-Identifier: GPL-2.0
/* libFuzzer's entry, for the target that TARGET names (make fuzz, needs clang). */

#include <string.h>

#include "targets.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	size_t i;

	for (i = 0; i < target_count; i++)
		if (!strcmp(targets[i].name, TARGET))
			targets[i].feed(data, size);
	return 0;
}
