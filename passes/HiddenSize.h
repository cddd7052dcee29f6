// SPDX-License-Identifier: Apache-2.0
//
// The width of a model's trunk, as its weight matrices show it.
#pragma once

#include "ir/Graph.h"

namespace ds {

/// The extent that nearly all trained matrices of the module have: at least 3 of 4 by count, and each has it as
/// rows or columns. In a transformer that is the hidden size. 0: there is none, or more than one.
int64_t hiddenSize(const Module &m);

} // namespace ds
