// SPDX-License-Identifier: Apache-2.0
//
// The flags of all tools that take an ONNX model (--dim, --shape, --const, --bind, --dropout, ...), and the
// import with them.
#pragma once

#include "frontend/Config.h"
#include "frontend/OnnxImport.h"

#include "llvm/Support/CommandLine.h"

namespace ds {

/// Group of the flags in --help.
llvm::cl::OptionCategory &importCategory();

/// True for names that end in .onnx or .onnxtext.
bool isOnnxPath(std::string_view path);

/// The import flags, with micro-batch, trainable and freeze from the config. Errors name the flag.
StatusOr<ImportOptions> importOptions(const PlanConfig &c);

/// Imports and verifies; --import-report prints the report to standard error. exampleDims: as in ImportOptions.
StatusOr<std::unique_ptr<Module>> importModel(const std::string &path, const PlanConfig &c,
                                              ImportReport *report = nullptr,
                                              bool exampleDims = false);

/// Imports with the dimensions of fed arrays. Where values of inputs must be known at plan time, as those of shapes, the
/// arrays give them, too, and these inputs are none of the module's.
StatusOr<std::unique_ptr<Module>> importFed(const std::string &path, const PlanConfig &c,
                                            std::map<std::string, FedArray> fed,
                                            ImportReport &report);

/// What was found, one line per fact, for people.
std::string reportText(const ImportReport &r);

} // namespace ds
