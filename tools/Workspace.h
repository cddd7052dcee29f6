// SPDX-License-Identifier: Apache-2.0
//
// Workspace caps of the linked devices, for the planner: what a device's kernel asks for, shape by shape.
#pragma once

#include "frontend/Config.h"

namespace ds {

/// The rule for PlanConfig::workspaceBytes: device is "cpu" or "ref", threads those of one rank's compute
/// stream. A plan made for fewer threads still loads with more only if the kernels' wishes do not grow.
WorkspaceRule workspaceRule(const std::string &device, int threads, int64_t world);

} // namespace ds
