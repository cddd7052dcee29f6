// SPDX-License-Identifier: Apache-2.0
//
// Loads a device that is not linked in: a shared library with the one entry of kernels/Kernel.h.
#pragma once

#include "ir/Status.h"
#include "kernels/Kernel.h"

#include <string>

namespace ds {

/// Loads the library (never unloaded: its kernels stay in use). Errors: the file is missing or cannot be
/// loaded, has no entry, comes from another build, or holds an incomplete table.
StatusOr<const DsPlugin *> loadPlugin(const std::string &path);

} // namespace ds
