// SPDX-License-Identifier: Apache-2.0
//
// Workspace that plans for CUDA devices give to launches. Here, because plans are made without the plugin. For what a library may
// compute it is a cap: the library chooses among the algorithms that need no more.
#pragma once

#include "kernels/Kernel.h"

#include <string_view>

namespace ds {

/// In bytes, by op and shapes alone; 0 for ops that need none.
size_t cudaWork(std::string_view op, const DsLaunch &l);
/// What a product with so many elements may take.
size_t cudaProductWork(int64_t elements);
/// mse takes a sum for each of at most so many blocks.
inline constexpr int64_t kMseBlocks = 256;

} // namespace ds
