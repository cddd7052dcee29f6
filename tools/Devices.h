// SPDX-License-Identifier: Apache-2.0
//
// Devices by the name that --device gives.
#pragma once

#include "ir/Status.h"
#include "runtime/Device.h"

namespace ds {

/// ref, cpu, auto, or the <name> of a plugin libds<name>.so, which is looked for beside the program, in
/// ../lib, and where the system looks. auto is cpu (ref where the build has none) on a machine without an NVIDIA
/// device, else cuda: a device that is there but does not work is an error.
StatusOr<Device> findDevice(const std::string &name);

/// The file of the plugin libds<name>.so, where it is looked for.
std::string pluginPath(const std::string &name);

/// The device of one plugin file, with `ref` for what it lacks.
StatusOr<Device> pluginDevice(const std::string &path);

} // namespace ds
