// SPDX-License-Identifier: GPL-2.0
/*
 * libFuzzer's entry (make fuzz, needs clang), which the property test feeds as
 * well.
 */

#include "model.h"

int LLVMFuzzerTestOneInput(const u8 *data, size_t size);

int LLVMFuzzerTestOneInput(const u8 *data, size_t size)
{
	struct coverage coverage = { 0 };

	run_program(data, size, &coverage);
	return 0;
}
