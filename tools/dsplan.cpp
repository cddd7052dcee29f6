// SPDX-License-Identifier: Apache-2.0
//
// dsplan MODEL: prints what training will cost, or the plan itself.
#include "frontend/ConfigFile.h"
#include "ir/GraphText.h"
#include "tools/Args.h"
#include "tools/Diagnostics.h"
#include "tools/PlanArgs.h"
#include "tools/Summary.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace ds;

static cl::OptionCategory outputCategory("Output");
static cl::opt<std::string> modelPath(cl::Positional,
                                      cl::desc("MODEL.onnx | MODEL.onnxtext | MODEL.dsir"),
                                      cl::cat(outputCategory));
static cl::opt<std::string>
    emitKind("emit", cl::init("summary"), cl::cat(outputCategory), cl::value_desc("kind"),
             cl::desc("summary (the default), ir, schedule, memory, json or config"));
static cl::opt<std::string> outPath("o", cl::init("-"), cl::value_desc("FILE"),
                                    cl::cat(outputCategory),
                                    cl::desc("Where to print it (default: standard output)"));
static cl::extrahelp examples(
    "\nEXAMPLES\n"
    "  dsplan model.onnx --stage 3 --dim seq=512\n"
    "  dsplan model.onnx --config ds_config.json --world-size 4 --emit schedule -o plan.dsched\n");

static StatusOr<std::string> text(LoadedModel &model) {
  if (emitKind == "config")
    return printConfig(model.config);
  if (emitKind == "summary" && passOptions().stopAfter.empty())
    return summaryText(model);
  if (emitKind == "json")
    return summaryJson(model);
  std::unique_ptr<Module> module;
  TRY_ASSIGN(Schedule s, plan(model, model.config, /*threads=*/0, &module));
  if (emitKind == "ir" || !passOptions().stopAfter.empty())
    return printModule(*module);
  if (emitKind == "memory")
    return memoryText(s);
  return printSchedule(s);
}

static Status run() {
  static const std::vector<std::string> kinds = {"summary", "ir",   "schedule",
                                                 "memory",  "json", "config"};
  if (!llvm::is_contained(kinds, emitKind)) {
    std::string near = nearest(emitKind, kinds);
    return Status::error("--emit " + emitKind +
                         ": expected summary, ir, schedule, memory, json or config" +
                         (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (modelPath.empty())
    return Status::error("no model is given")
        .note("try dsplan model.onnx --stage 3, or dsplan --help");
  TRY_ASSIGN(LoadedModel model, loadModel(modelPath, /*forExec=*/false));
  TRY_ASSIGN(std::string out, text(model));
  std::error_code error;
  llvm::raw_fd_ostream file(outPath, error);
  if (error)
    return Status::error(error.message()).at(outPath);
  file << out;
  file.close();
  if (file.has_error())
    return Status::error("cannot write: " + file.error().message()).at(outPath);
  return {};
}

int main(int argc, char **argv) {
  exitOnFatalErrors("dsplan");
  Args args(argc, argv);
  Status s = parseFlags(args, "Plans the training of an ONNX model under ZeRO\n",
                        {&outputCategory, &planCategory(), &passCategory(), &importCategory()});
  if (s.ok())
    s = run();
  if (!s.ok())
    llvm::errs() << diagnostics(s, "dsplan");
  return static_cast<int>(s.code());
}
