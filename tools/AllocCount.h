// SPDX-License-Identifier: Apache-2.0
//
// Counts calls of malloc and its relatives from outside: a program that uses this has them replaced, for all
// threads. Sanitizers bring their own malloc, so nothing can be counted there.
// oneDNN keeps the arguments of each dnnl_primitive_execute in a hash map of its own, six nodes for a matmul, and
// offers no way around it: calls that come from its library are counted apart, and must all be freed again.
#pragma once

#include <cstdint>

namespace ds {

struct AllocCounts {
  int64_t ours = 0, oneDnn = 0, frees = 0; // frees: of both
};

bool canCountAllocations();
void startCounting();
AllocCounts stopCounting();

} // namespace ds
