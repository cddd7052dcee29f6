// SPDX-License-Identifier: Apache-2.0
#include "tools/ReadModule.h"

#include "frontend/Units.h"
#include "ir/GraphText.h"
#include "tools/Diagnostics.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/Regex.h"

namespace cl = llvm::cl;

namespace ds {

// --trainable and --freeze for a module; the importer has its own, which also decides what a parameter is.
static Status chooseTrained(Module &m, const PlanConfig &c) {
  Status all;
  auto each = [&](const char *flag, const std::string &text, auto &&change) {
    llvm::Regex r(text);
    std::string error;
    bool found = false;
    if (text.empty())
      return;
    if (!r.isValid(error))
      return all.merge(Status::error(std::string(flag) + " '" + text + "': " + error));
    for (Symbol *s : m.symbols()) {
      if (s->symbolKind != SymbolKind::Param || s->running)
        continue;
      bool is = r.match(s->name) || (!s->exportName.empty() && r.match(s->exportName)) ||
                (!s->module.empty() && r.match(s->module));
      found |= is;
      change(*s, is);
    }
    if (!found)
      all.merge(
          Status::error(std::string(flag) + " '" + text + "' matches no parameter or module path"));
  };
  each("--trainable", c.trainable, [](Symbol &s, bool is) { s.trainable = is; });
  each("--freeze", c.freeze, [](Symbol &s, bool is) { s.trainable &= !is; });
  return all;
}

// A flag that would do nothing is refused.
static Status refuseImportFlags(const std::string &path) {
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getNumOccurrences() &&
        llvm::is_contained(entry.second->Categories, &importCategory()))
      return Status::error("--" + entry.first().str() + " is about importing ONNX models").at(path);
  return {};
}

StatusOr<std::unique_ptr<Module>> readModule(const std::string &path, const PlanConfig &c,
                                             ImportReport &report, bool exampleDims) {
  if (isOnnxPath(path))
    return importModel(path, c, &report, exampleDims);
  if (!llvm::StringRef(path).endswith(".dsir"))
    return Status::error("expected a model (.onnx, .onnxtext or .dsir)").at(path);
  TRY(refuseImportFlags(path));
  TRY_ASSIGN(std::string text, readInput(path));
  TRY_ASSIGN(std::unique_ptr<Module> m, parseModule(text, path));
  size_t slash = path.rfind('/');
  m->directory = slash == std::string::npos ? "." : path.substr(0, slash);
  TRY(verifyModule(*m));
  TRY(chooseTrained(*m, c));
  return m;
}

} // namespace ds
