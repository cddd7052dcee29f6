// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/Kernel.h"

#include <string>

namespace ds::cuda {

/// NCCL for the runtime (DsDeviceApi::comm); null if this was built without its header.
extern const DsCommApi *const kComm;
/// For DsDeviceInfo::libraries.
std::string describeNccl();

} // namespace ds::cuda
