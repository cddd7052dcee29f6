// SPDX-License-Identifier: Apache-2.0
//
// What both ONNX targets do with a model file. Data files would lie beside it, where there are none, so every
// path in a model leads nowhere.
#pragma once

#include "frontend/OnnxImport.h"
#include "ir/GraphText.h"
#include "test/fuzz/Fuzz.h"

namespace ds::fuzz {

/// An imported module is valid and its text reads back to itself. Tries the model as it is, and if that fails with
/// every symbolic dimension bound, missing data accepted and Dropout on.
inline void checkImport(const std::string &path) {
  ImportOptions options;
  ImportReport report;
  StatusOr<std::unique_ptr<Module>> m = importOnnx(path, options, &report);
  if (!m.ok()) {
    for (const std::string &name : report.symbolicDims)
      options.dims.emplace_back(name, 2);
    options.allowMissingData = true;
    options.dropout = ImportOptions::Dropout::On;
    report = {};
    m = importOnnx(path, options, &report);
  }
  if (!m.ok())
    return;
  std::string printed = printModule(**m);
  Status valid = verifyModule(**m);
  require(valid.ok(), "the module is valid", printed, valid.str());
  auto again = parseModule(printed, "printed.dsir");
  require(again.ok(), "the print parses", printed, again.ok() ? "" : again.status().str());
  std::string twice = printModule(**again);
  require(twice == printed, "the print prints itself", printed, twice);
}

} // namespace ds::fuzz
