// SPDX-License-Identifier: Apache-2.0
//
// A model as a module, whatever kind of file it is in.
#pragma once

#include "tools/ImportTool.h"

namespace ds {

/// .onnx, .onnxtext or .dsir. exampleDims: as in ImportOptions. The report is filled for ONNX models only. --trainable and --freeze have their effect.
StatusOr<std::unique_ptr<Module>> readModule(const std::string &path, const PlanConfig &c,
                                             ImportReport &report, bool exampleDims);

} // namespace ds
