// SPDX-License-Identifier: Apache-2.0
//
// Import flags, parsed, and the report as text.
#include "tools/ImportTool.h"

#include "ir/GraphText.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

namespace cl = llvm::cl;

namespace ds {

static cl::OptionCategory category("Model (ONNX)");
cl::OptionCategory &importCategory() { return category; }
static cl::list<std::string> dims("dim", cl::value_desc("name=N"), cl::cat(category),
                                  cl::desc("Value of a symbolic dimension; may be repeated"));
static cl::list<std::string> shapes("shape", cl::value_desc("input=AxB"), cl::cat(category),
                                    cl::desc("All dimensions of an input"));
static cl::list<std::string>
    consts("const", cl::value_desc("input=V"), cl::cat(category),
           cl::desc("Make an input a constant: a number, arange or causal"));
static cl::list<std::string> binds("bind", cl::value_desc("input=@F.pb"), cl::cat(category),
                                   cl::desc("Make an input the tensor in a TensorProto file"));
static cl::opt<std::string>
    dropout("dropout", cl::init("auto"), cl::value_desc("auto|on|off"), cl::cat(category),
            cl::desc("Train with the Dropout that the model marks as active, with all, with none"));
static cl::opt<std::string> bn("bn", cl::init("batch"), cl::value_desc("batch|frozen|exported"),
                               cl::cat(category),
                               cl::desc("BatchNormalization: by the micro-batch's own statistics, "
                                        "by the model's stored ones, or as the node says (the "
                                        "default of --forward)"));
static cl::opt<std::string>
    bnVar("bn-var", cl::init("torch"), cl::value_desc("torch|onnx"), cl::cat(category),
          cl::desc("Variance that BatchNormalization stores: PyTorch's, which divides by one less "
                   "than the count, or ONNX's"));
static cl::opt<std::string>
    tiePolicy("tie-policy", cl::init("split-small"), cl::value_desc("split-small|keep"),
              cl::cat(category),
              cl::desc("Separate small vectors that the exporter merged, or keep them one"));
static cl::opt<bool> noRetie("no-retie", cl::cat(category),
                             cl::desc("Do not tie a head to an embedding with equal contents"));
static cl::opt<bool> missingData("allow-missing-data", cl::cat(category),
                                 cl::desc("Plan a model whose data files are not there"));
static cl::opt<bool> showReport("import-report", cl::cat(category),
                                cl::desc("Print what was found in the model"));

bool isOnnxPath(std::string_view path) {
  llvm::StringRef p(path.data(), path.size());
  return p.endswith(".onnx") || p.endswith(".onnxtext");
}

static StatusOr<std::pair<std::string, std::string>> keyValue(const std::string &flag,
                                                              const std::string &text) {
  size_t eq = text.rfind('=');
  if (eq == std::string::npos || eq == 0 || eq + 1 == text.size())
    return Status::error("--" + flag + " " + text + ": expected NAME=VALUE");
  return std::make_pair(text.substr(0, eq), text.substr(eq + 1));
}

static StatusOr<int64_t> extent(const std::string &flag, llvm::StringRef text) {
  int64_t v = 0;
  if (text.getAsInteger(10, v) || v < 0)
    return Status::error("--" + flag + ": '" + text.str() + "' is not a whole number of 0 or more");
  return v;
}

StatusOr<ImportOptions> importOptions(const PlanConfig &c) {
  ImportOptions o;
  o.microBatch = c.microBatch;
  auto source = c.source.find("train_micro_batch_size_per_gpu");
  o.microBatchAssumed = source != c.source.end() && source->second == "assumed";
  o.trainable = c.trainable;
  o.freeze = c.freeze;
  for (const std::string &d : dims) {
    TRY_ASSIGN(auto kv, keyValue("dim", d));
    TRY_ASSIGN(int64_t v, extent("dim " + kv.first, kv.second));
    o.dims.emplace_back(kv.first, v);
  }
  for (const std::string &s : shapes) {
    TRY_ASSIGN(auto kv, keyValue("shape", s));
    llvm::SmallVector<llvm::StringRef, 4> parts;
    llvm::StringRef(kv.second).split(parts, 'x');
    std::vector<int64_t> &out = o.shapes[kv.first];
    out.clear();
    for (llvm::StringRef p : parts) {
      TRY_ASSIGN(int64_t v, extent("shape " + kv.first, p));
      out.push_back(v);
    }
  }
  for (const std::string &s : consts) {
    TRY_ASSIGN(auto kv, keyValue("const", s));
    o.consts[kv.first] = kv.second;
  }
  for (const std::string &s : binds) {
    TRY_ASSIGN(auto kv, keyValue("bind", s));
    o.binds[kv.first] = kv.second;
  }
  if (dropout != "auto" && dropout != "on" && dropout != "off")
    return Status::error("--dropout " + dropout + ": expected auto, on or off");
  o.dropout = dropout == "on"    ? ImportOptions::Dropout::On
              : dropout == "off" ? ImportOptions::Dropout::Off
                                 : ImportOptions::Dropout::Auto;
  if (bn != "batch" && bn != "frozen" && bn != "exported")
    return Status::error("--bn " + bn + ": expected batch, frozen or exported");
  if (bnVar != "torch" && bnVar != "onnx")
    return Status::error("--bn-var " + bnVar + ": expected torch or onnx");
  using BatchNorm = ImportOptions::BatchNorm;
  o.batchNorm = bn == "batch"    ? BatchNorm::Batch
                : bn == "frozen" ? BatchNorm::Frozen
                                 : BatchNorm::Exported;
  o.bnVarOnnx = bnVar == "onnx";
  if (tiePolicy != "split-small" && tiePolicy != "keep")
    return Status::error("--tie-policy " + tiePolicy + ": expected split-small or keep");
  o.splitSmallTies = tiePolicy != "keep";
  o.retie = !noRetie;
  o.allowMissingData = missingData;
  return o;
}

static StatusOr<std::unique_ptr<Module>> imported(const std::string &path, const ImportOptions &o,
                                                  ImportReport &r) {
  TRY_ASSIGN(std::unique_ptr<Module> m, importOnnx(path, o, &r));
  if (showReport)
    llvm::errs() << reportText(r);
  if (Status s = verifyModule(*m); !s.ok())
    return Status::internal("the importer made a module that does not verify:\n" + s.str())
        .at(path);
  return m;
}

StatusOr<std::unique_ptr<Module>> importModel(const std::string &path, const PlanConfig &c,
                                              ImportReport *report, bool exampleDims) {
  ImportReport local;
  TRY_ASSIGN(ImportOptions o, importOptions(c));
  o.exampleDims = exampleDims;
  return imported(path, o, report ? *report : local);
}

StatusOr<std::unique_ptr<Module>> importFed(const std::string &path, const PlanConfig &c,
                                            std::map<std::string, FedArray> fed,
                                            ImportReport &report) {
  TRY_ASSIGN(ImportOptions o, importOptions(c));
  if (o.dropout == ImportOptions::Dropout::On)
    return Status::error("--dropout on is about training; a model that runs once drops nothing");
  o.microBatch = 0;
  o.fed = std::move(fed);
  if (!bn.getNumOccurrences())
    o.batchNorm = ImportOptions::BatchNorm::Exported;
  for (;;) {
    report = {};
    StatusOr<std::unique_ptr<Module>> m = imported(path, o, report);
    bool more = false;
    for (const std::string &name : report.unknown)
      if (auto it = o.fed.find(name); !m.ok() && it != o.fed.end() && !it->second.constant)
        more = it->second.constant = true;
    if (!more)
      return m;
  }
}

std::string reportText(const ImportReport &r) {
  std::string s;
  auto line = [&](const std::string &t) { s += t + "\n"; };
  auto counted = [](int64_t n, const char *what, int64_t elems) {
    return std::to_string(n) + " " + what + " (" + std::to_string(elems) + " elements)";
  };
  line("opset " + std::to_string(r.opset) + (r.producer.empty() ? "" : ", " + r.producer));
  line(std::to_string(r.nodes) + " nodes, " + std::to_string(r.folded) + " known at plan time, " +
       std::to_string(r.ops) + " ops");
  line(counted(r.params, "trainable parameters", r.paramElems) + ", " +
       counted(r.frozen, "frozen", r.frozenElems) + ", " +
       (r.running ? counted(r.running, "running statistics", r.runningElems) + ", " : "") +
       counted(r.constants, "constants", r.constantElems));
  if (r.activeDropout || r.inactiveDropout)
    line(std::to_string(r.activeDropout) + " Dropout active, " + std::to_string(r.inactiveDropout) +
         " inactive");
  for (const std::string &t : r.ties)
    line("tied: " + t);
  for (const std::string &u : r.unused)
    line("unused: " + u);
  for (const std::string &l : r.losses)
    line("loss in the graph: " + l);
  for (const std::string &w : r.warnings)
    line("warning: " + w);
  return s;
}

} // namespace ds
