// SPDX-License-Identifier: Apache-2.0
//
// Workspace caps for the planner: what a device's kernel asks for, shape by shape.
#pragma once

#include "frontend/Config.h"

namespace ds {

/// The rule for PlanConfig::workspaceBytes: device is "cpu", "ref" or "cuda", threads those of one rank's compute
/// stream. A plan made for fewer threads still loads with more only if the kernels' wishes do not grow.
WorkspaceRule workspaceRule(const std::string &device, int threads, int64_t world);
/// The rule of the device that a plan is for: of the one that will execute it, or of the target's.
StatusOr<WorkspaceRule> workspaceRule(const PlanConfig &c, int threads);
/// Plans from now on are executed by this device, whatever their target is.
void planForDevice(const std::string &name);

} // namespace ds
