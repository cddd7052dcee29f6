// SPDX-License-Identifier: Apache-2.0
//
// Workspace that plans for CUDA devices give to launches which a library may compute. Here, because plans are made without the
// plugin. A cap: the library chooses among the algorithms that need no more.
#pragma once

#include "kernels/Kernel.h"

#include <string_view>

namespace ds {

/// In bytes, by op and shapes alone; 0 for ops that no library computes.
size_t cudaWork(std::string_view op, const DsLaunch &l);
/// What a product with so many elements may take.
size_t cudaProductWork(int64_t elements);

} // namespace ds
