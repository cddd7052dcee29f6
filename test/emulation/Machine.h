// SPDX-License-Identifier: Apache-2.0
//
// What emulated libraries use of the emulated runtime.
#pragma once

#include "test/emulation/include/cuda_runtime.h"

namespace ds::emulated {

/// Counts a call; an error if this one has to fail (failCall), or something failed before.
cudaError_t enter(const char *name);
/// Whether bytes that begin in an allocation end in it.
bool isInside(const void *p, size_t bytes);
/// Of a stream or event.
bool exists(const void *handle);
/// What the stream does in its turn; an error that `work` returns sticks. Nothing is done once something failed.
void addWork(cudaStream_t s, std::function<std::string()> work);
int64_t fromEnvironment(const char *name, int64_t otherwise);
/// Objects of libraries count among the allocations that liveAllocations() tells.
void countObject(int by);

} // namespace ds::emulated
