// SPDX-License-Identifier: Apache-2.0
//
// dsplan MODEL: prints what training will cost, or the plan itself. dsplan --layout FILE.csv: packs the buffers of a file.
#include "frontend/ConfigFile.h"
#include "frontend/Units.h"
#include "ir/GraphText.h"
#include "tools/Advice.h"
#include "tools/Args.h"
#include "tools/Diagnostics.h"
#include "tools/LayoutTool.h"
#include "tools/ParamsTool.h"
#include "tools/PlanArgs.h"
#include "tools/PlanOffload.h"
#include "tools/Summary.h"
#include "tools/Timeline.h"

#include "llvm/Support/FileSystem.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;
using namespace ds;

static cl::OptionCategory outputCategory("Output");
static cl::opt<std::string> modelPath(cl::Positional,
                                      cl::desc("MODEL.onnx | MODEL.onnxtext | MODEL.dsir"),
                                      cl::cat(outputCategory));
static cl::opt<std::string> emitKind(
    "emit", cl::init("summary"), cl::cat(outputCategory), cl::value_desc("kind"),
    cl::desc("summary (the default), ir, schedule, memory, timeline, pareto, json or config"));
static cl::opt<std::string> outPath("o", cl::init("-"), cl::value_desc("FILE"),
                                    cl::cat(outputCategory),
                                    cl::desc("Where to print it (default: standard output)"));
static cl::opt<bool>
    explain("explain", cl::cat(outputCategory),
            cl::desc("Say in the summary what would lower the peak, and what each costs"));
static cl::OptionCategory paramsCategory("States by formula (instead of a model)");
static cl::opt<std::string>
    paramCount("params", cl::value_desc("7e9"), cl::cat(paramsCategory),
               cl::desc("Memory of so many parameters' states, for every stage;\n"
                        "-o ds_config.json writes a config for the first that fits"));
static cl::OptionCategory layoutCategory("Layout (instead of a model)");
static cl::opt<std::string>
    layoutPath("layout", cl::value_desc("FILE.csv"), cl::cat(layoutCategory),
               cl::desc("Find offsets for buffers with fixed lives: id,lower,upper,size"));
static cl::opt<std::string> checkPath("check-layout", cl::value_desc("FILE.csv"),
                                      cl::cat(layoutCategory),
                                      cl::desc("Check a file that has offsets"));
static cl::opt<std::string> capacity(
    "capacity", cl::value_desc("BYTES"), cl::cat(layoutCategory),
    cl::desc("Stop once it fits; exit code 2 if it does not (default: find the smallest)"));
static cl::opt<std::string>
    timeLimit("time-limit", cl::value_desc("SECONDS"), cl::cat(layoutCategory),
              cl::desc("Stop after this time (default: a counted effort, so that the answer is "
                       "always the same)"));
static cl::extrahelp examples(
    "\nEXAMPLES\n"
    "  dsplan model.onnx --stage 3 --dim seq=512\n"
    "  dsplan model.onnx --config ds_config.json --world-size 4 --emit schedule -o plan.dsched\n"
    "  dsplan model.onnx --config ds_config.json --world-size 8 --target a100-80\n"
    "  dsplan model.onnx --stage 3 --world-size 8 --device-memory 24GiB --memory-reserve 1GiB\n"
    "  dsplan model.onnx --stage 3 --world-size 8 --target a100-80 --emit timeline -o trace.json\n"
    "  dsplan --target list\n"
    "  dsplan --params 7e9 --world-size 8 --target h100-80 -o ds_config.json\n"
    "  dsplan --params 175B --world-size 512 --optimizer adamw\n"
    "  dsplan --layout buffers.csv --capacity 1MiB -o offsets.csv\n");

// verdict: whether the plan fits its memory limit, told after what is printed.
static StatusOr<std::string> text(LoadedModel &model, Status &verdict) {
  if (emitKind == "config")
    return printConfig(model.config);
  if (emitKind == "summary" && passOptions().stopAfter.empty())
    return summaryText(model, verdict, explain);
  if (emitKind == "json")
    return summaryJson(model, verdict, explain);
  if (emitKind == "pareto")
    return paretoText(model);
  std::unique_ptr<Module> module;
  TRY_ASSIGN(Schedule s, plan(model, model.config, /*threads=*/0, &module));
  if (emitKind == "ir" || !passOptions().stopAfter.empty())
    return printModule(*module);
  if (emitKind == "memory")
    return memoryText(s);
  if (emitKind == "timeline")
    return timelineText(s, model.config);
  if (Status fits = checkFits(s, model.config); !fits.ok())
    return withAdvice(std::move(fits), model, &s);
  return printSchedule(s);
}

static Status write(const std::string &out, const std::string &outPath) {
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

// What plans a model means nothing to a file of buffers, or to a number of parameters.
static Status refuseFlags(const std::string &command,
                          llvm::ArrayRef<const cl::OptionCategory *> foreign,
                          llvm::ArrayRef<const cl::Option *> others) {
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getNumOccurrences() &&
        (llvm::is_contained(others, entry.second) ||
         llvm::any_of(entry.second->Categories,
                      [&](cl::OptionCategory *c) { return llvm::is_contained(foreign, c); })))
      return Status::error("--" + entry.first().str() + " cannot be used with " + command);
  if (!modelPath.empty())
    return Status::error("a model, " + modelPath + ", cannot be given with " + command);
  return {};
}

static Status runLayout() {
  bool check = checkPath.getNumOccurrences() > 0;
  std::string command = check ? "--check-layout" : "--layout";
  if (check && layoutPath.getNumOccurrences())
    return Status::error("--layout and --check-layout cannot be given together");
  TRY(refuseFlags(command, {&planCategory(), &passCategory(), &importCategory(), &paramsCategory},
                  {&emitKind, &explain}));
  int64_t bytes = 0;
  double seconds = 0;
  if (capacity.getNumOccurrences()) {
    auto v = parseBytes(capacity);
    if (!v.ok())
      return std::move(v).status().at("--capacity");
    if ((bytes = *v) <= 0)
      return Status::error("expected at least 1 byte, found " + capacity).at("--capacity");
  }
  if (timeLimit.getNumOccurrences()) {
    auto v = parseDouble(timeLimit);
    if (!v.ok())
      return std::move(v).status().at("--time-limit");
    if ((seconds = *v) <= 0 || seconds > 1e6)
      return Status::error("expected seconds above 0, at most 1e6, found " + timeLimit)
          .at("--time-limit");
  }
  if (check) {
    for (const cl::Option *o :
         {static_cast<cl::Option *>(&outPath), static_cast<cl::Option *>(&timeLimit)})
      if (o->getNumOccurrences())
        return Status::error((o == &outPath ? "-o" : "--time-limit") +
                             std::string(" cannot be used with --check-layout"));
  }
  TRY_ASSIGN(LayoutReport report,
             check ? checkLayout(checkPath, bytes) : layOut(layoutPath, bytes, seconds));
  bool csv = outPath.getNumOccurrences() > 0 && !report.csv.empty();
  (csv && outPath == "-" ? llvm::errs() : llvm::outs()) << report.summary;
  if (csv)
    TRY(write(report.csv, outPath));
  return std::move(report.verdict);
}

// The table and, with -o FILE.json, a config; or the config alone.
static Status runParams() {
  std::string command = "--params";
  TRY(refuseFlags(command, {&passCategory(), &importCategory()}, {&explain}));
  if (emitKind != "summary" && emitKind != "config")
    return Status::error("--emit " + emitKind +
                         " needs a model; with --params it is summary or config");
  TRY_ASSIGN(PlanConfig config, configFromFlags(/*updates=*/{}, /*assume=*/true));
  TRY(resolveAutos(config, /*hidden=*/0));
  TRY_ASSIGN(ParamsPlan plan, planParams(paramCount, config));
  if (emitKind == "config") {
    TRY(std::move(plan.fits));
    return write(printConfig(plan.config), outPath);
  }
  bool wantsConfig = llvm::StringRef(outPath).endswith(".json");
  TRY(write(plan.text, wantsConfig ? std::string("-") : outPath.getValue()));
  TRY(std::move(plan.fits));
  return wantsConfig ? write(printConfig(plan.config), outPath) : Status();
}

static Status run() {
  if (layoutPath.getNumOccurrences() || checkPath.getNumOccurrences())
    return runLayout();
  for (const cl::opt<std::string> *o : {&capacity, &timeLimit})
    if (o->getNumOccurrences())
      return Status::error("--" + o->ArgStr.str() + " needs --layout FILE.csv");
  static const std::vector<std::string> kinds = {"summary",  "ir",     "schedule", "memory",
                                                 "timeline", "pareto", "json",     "config"};
  if (!llvm::is_contained(kinds, emitKind)) {
    std::string near = nearest(emitKind, kinds);
    return Status::error(
        "--emit " + emitKind +
        ": expected summary, ir, schedule, memory, timeline, pareto, json or config" +
        (near.empty() ? "" : "; did you mean " + near + "?"));
  }
  if (asksForTargets() && modelPath.empty() && !paramCount.getNumOccurrences())
    return write(targetList(), outPath);
  if (paramCount.getNumOccurrences())
    return runParams();
  if (explain && emitKind != "summary" && emitKind != "json")
    return Status::error("--explain is about the summary, not --emit " + emitKind);
  if (modelPath.empty())
    return Status::error("no model is given")
        .note("try dsplan model.onnx --stage 3, or dsplan --help");
  TRY_ASSIGN(LoadedModel model, loadModel(modelPath, /*forExec=*/false));
  Status verdict;
  TRY_ASSIGN(std::string out, text(model, verdict));
  TRY(write(out, outPath));
  return verdict;
}

int main(int argc, char **argv) {
  exitOnFatalErrors("dsplan");
  Args args(argc, argv);
  Status s = parseFlags(args, "Plans the training of an ONNX model under ZeRO\n",
                        {&outputCategory, &planCategory(), &passCategory(), &importCategory(),
                         &paramsCategory, &layoutCategory});
  if (s.ok())
    s = run();
  if (!s.ok())
    llvm::errs() << diagnostics(s, "dsplan");
  return static_cast<int>(s.code());
}
