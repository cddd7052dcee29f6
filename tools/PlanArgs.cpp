// SPDX-License-Identifier: Apache-2.0
#include "tools/PlanArgs.h"

#include "frontend/ConfigFile.h"
#include "frontend/Units.h"
#include "ir/GraphText.h"
#include "passes/HiddenSize.h"
#include "tools/Advice.h"
#include "tools/Diagnostics.h"
#include "tools/Fit.h"
#include "tools/PlanGathered.h"
#include "tools/PlanOffload.h"
#include "tools/PlanRecompute.h"
#include "tools/ReadModule.h"
#include "tools/Workspace.h"

#include <chrono>
#include <thread>

namespace cl = llvm::cl;

namespace ds {

static cl::OptionCategory category("Planning"), passes("Passes");
llvm::cl::OptionCategory &planCategory() { return category; }
llvm::cl::OptionCategory &passCategory() { return passes; }

static cl::opt<std::string>
    configPath("config", cl::value_desc("ds_config.json"), cl::cat(category),
               cl::desc("DeepSpeed-style configuration (also --deepspeed-config)"));
static cl::alias configAlias("deepspeed-config", cl::aliasopt(configPath),
                             cl::desc("Same as --config"), cl::cat(category));
static cl::opt<std::string>
    stage("stage", cl::value_desc("0..3"), cl::cat(category),
          cl::desc("ZeRO stage: 1 shards optimizer states, 2 gradients, 3 parameters"));
static cl::opt<std::string> world("world-size", cl::value_desc("N"), cl::cat(category),
                                  cl::desc("Number of ranks (also --num-gpus, --ranks)"));
static cl::alias worldAlias1("num-gpus", cl::aliasopt(world), cl::desc("Same as --world-size"),
                             cl::cat(category));
static cl::alias worldAlias2("ranks", cl::aliasopt(world), cl::desc("Same as --world-size"),
                             cl::cat(category));
static cl::opt<std::string> microBatch("micro-batch", cl::value_desc("N"), cl::cat(category),
                                       cl::desc("Rows per rank and micro-batch"));
static cl::opt<std::string> gradAccum("grad-accum", cl::value_desc("N"), cl::cat(category),
                                      cl::desc("Micro-batches per update"));
static cl::opt<std::string> optimizer("optimizer", cl::value_desc("adamw|adam|sgd"),
                                      cl::cat(category), cl::desc("Optimizer"));
static cl::opt<std::string> lr("lr", cl::value_desc("X"), cl::cat(category),
                               cl::desc("Learning rate"));
static cl::opt<std::string> loss("loss", cl::value_desc("SPEC"), cl::cat(category),
                                 cl::desc("ce:logits=L,labels=Y[,ignore_index=-100][,shift=1],\n"
                                          "mse:prediction=P,target=Y or output:NAME"));
static cl::opt<std::string> trainable("trainable", cl::value_desc("REGEX"), cl::cat(category),
                                      cl::desc("Train only these parameters"));
static cl::opt<std::string> freeze("freeze", cl::value_desc("REGEX"), cl::cat(category),
                                   cl::desc("Do not train these parameters"));
static cl::opt<std::string> reduce("reduce", cl::value_desc("boundary|every"), cl::cat(category),
                                   cl::desc("When gradients are reduced under accumulation"));
static cl::opt<std::string> reduction(
    "reduction", cl::value_desc("native|exact"), cl::cat(category),
    cl::desc("How CUDA devices add over ranks: as NCCL does, or in rank order, so that\n"
             "all stages have the same bits (default: native; without NCCL always exact)"));
static cl::opt<std::string>
    offloading("offload", cl::value_desc("none|auto"), cl::cat(category),
               cl::desc("auto: move what has to, so that the plan fits\n--device-memory at the "
                        "least predicted time"));
static cl::opt<std::string>
    offloadOptimizer("offload-optimizer", cl::value_desc("none|cpu|nvme"), cl::cat(category),
                     cl::desc("Where optimizer states lie; the host updates them"));
static cl::opt<std::string> offloadParam("offload-param", cl::value_desc("none|cpu|nvme"),
                                         cl::cat(category),
                                         cl::desc("Where parameters lie between uses"));
static cl::opt<std::string> offloadActivations(
    "offload-activations", cl::value_desc("REGEX"), cl::cat(category),
    cl::desc("Values and module paths: these wait for the backward\nphase in host memory"));
static cl::opt<std::string> nvmePath("nvme-path", cl::value_desc("FOLDER"), cl::cat(category),
                                     cl::desc("Folder on a local disk for what goes to nvme"));
static cl::opt<std::string> carry("carry", cl::value_desc("on|off"), cl::cat(category),
                                  cl::desc("What runs on from update into the next micro-batch\n"
                                           "(default: where it costs no memory)"));
static cl::opt<std::string> fuse("fuse", cl::value_desc("on|off"), cl::cat(category),
                                 cl::desc("One op in the place of several, such as attention\n"
                                          "(default: on, where it pays)"));
static cl::opt<std::string>
    recomputed("recompute", cl::value_desc("none|layers|auto|REGEX"), cl::cat(category),
               cl::desc("What backward computes again instead of keeping: all inside\n"
                        "of layers, as little as the device's memory asks for, or\n"
                        "values and modules by name"));
static cl::opt<bool> evalProgram("eval", cl::cat(category),
                                 cl::desc("Plan a program for dsexec --eval-data, too"));
static cl::opt<std::string> dtype("dtype", cl::value_desc("f32|f64"), cl::cat(category),
                                  cl::desc("Element type to compute in (default: the model's)"));
static cl::opt<std::string>
    target("target", cl::value_desc("NAME|FILE.json"), cl::cat(category),
           cl::desc("Device to plan for, a name (dsplan --target list) or a description;\n"
                    "exit code 2 if a rank needs more memory than it has"));
static cl::opt<std::string> deviceMemory("device-memory", cl::value_desc("24GiB"),
                                         cl::cat(category),
                                         cl::desc("Memory of a rank's device, instead of the "
                                                  "target's"));
static cl::opt<std::string> hostMemory("host-memory", cl::value_desc("64GiB"), cl::cat(category),
                                       cl::desc("Main memory that a rank may use for what is\n"
                                                "offloaded (default: the target's)"));
static cl::opt<std::string> memoryReserve("memory-reserve", cl::value_desc("1GiB"),
                                          cl::cat(category),
                                          cl::desc("What of it library contexts take, instead of "
                                                   "the target's"));
static cl::list<std::string> settings("set", cl::value_desc("key=value"), cl::cat(category),
                                      cl::desc("Set any config key; may be repeated"));
static cl::list<std::string> allowUnknown("allow-unknown", cl::value_desc("PATH"),
                                          cl::cat(category),
                                          cl::desc("Admit one unknown config key"));

static cl::list<std::string> printBefore("print-before", cl::CommaSeparated,
                                         cl::value_desc("pass|all"), cl::cat(passes),
                                         cl::desc("Print the module before a pass"));
static cl::list<std::string> printAfter("print-after", cl::CommaSeparated,
                                        cl::value_desc("pass|all"), cl::cat(passes),
                                        cl::desc("Print the module after a pass"));
static cl::opt<std::string>
    stopAfter("stop-after", cl::value_desc("pass"), cl::cat(passes),
              cl::desc("Run up to and including this pass (with --emit ir)"));
static cl::opt<bool> verifyEach("verify-each", cl::cat(passes),
                                cl::desc("Verify the module after every pass"));
static cl::opt<int64_t> bisectLimit("opt-bisect-limit", cl::init(-1), cl::value_desc("n"),
                                    cl::cat(passes),
                                    cl::desc("Run only the first n optional passes"));

// What later work brings is refused by name, not ignored.
static cl::opt<std::string> compat("compat", cl::value_desc("none"), cl::cat(category),
                                   cl::desc("Only none so far"));

static Status refusePostponed() {
  Status s;
  for (const auto *o : {&compat})
    if (o->getNumOccurrences() && o->getValue() != "none")
      s.merge(Status::error("--" + o->ArgStr.str() + " " + o->getValue() +
                            " is not supported yet; leave the flag out"));
  return s;
}

static Status optionalInt(const cl::opt<std::string> &o, std::optional<int64_t> &out) {
  if (!o.getNumOccurrences())
    return {};
  auto v = parseInt(o);
  if (!v.ok())
    return std::move(v).status().at("--" + o.ArgStr.str());
  out = *v;
  return {};
}

static void optionalText(const cl::opt<std::string> &o, std::optional<std::string> &out) {
  if (o.getNumOccurrences())
    out = o.getValue();
}

static Status overridesFromFlags(ConfigOverrides &o) {
  Status s;
  optionalText(loss, o.loss);
  optionalText(trainable, o.trainable);
  optionalText(freeze, o.freeze);
  optionalText(reduce, o.reduce);
  optionalText(reduction, o.reduction);
  optionalText(carry, o.carry);
  optionalText(fuse, o.fuse);
  optionalText(recomputed, o.recompute);
  optionalText(offloading, o.offload);
  optionalText(offloadOptimizer, o.offloadOptimizer);
  optionalText(offloadParam, o.offloadParam);
  optionalText(nvmePath, o.nvmePath);
  optionalText(offloadActivations, o.offloadActivations);
  optionalText(dtype, o.dtype);
  optionalText(target, o.target);
  optionalText(deviceMemory, o.deviceMemory);
  optionalText(hostMemory, o.hostMemory);
  optionalText(memoryReserve, o.memoryReserve);
  optionalText(optimizer, o.optimizer);
  s.merge(optionalInt(stage, o.stage));
  s.merge(optionalInt(world, o.world));
  s.merge(optionalInt(microBatch, o.microBatch));
  s.merge(optionalInt(gradAccum, o.gradAccum));
  if (lr.getNumOccurrences()) {
    auto v = parseDouble(lr);
    if (v.ok())
      o.lr = *v;
    else
      s.merge(std::move(v).status().at("--lr"));
  }
  for (const std::string &kv : settings) {
    size_t eq = kv.find('=');
    if (eq == std::string::npos)
      s.merge(Status::error("expected key=value, found '" + kv + "'").at("--set"));
    else
      o.set.emplace_back(kv.substr(0, eq), kv.substr(eq + 1));
  }
  for (const std::string &path : allowUnknown)
    o.allowUnknown.push_back(path);
  return s;
}

// An assumed micro-batch gives way to the number of rows that the model states.
static void adoptRows(LoadedModel &l) {
  PlanConfig &c = l.config;
  int64_t rows = l.report.leading;
  auto source = c.source.find("train_micro_batch_size_per_gpu");
  if (source == c.source.end() || source->second != "assumed" || rows <= 0 || rows == c.microBatch)
    return;
  c.microBatch = rows;
  c.trainBatch = rows * c.gradAccum * c.world;
  for (std::string &a : c.assumptions)
    if (llvm::StringRef(a).startswith("micro-batch "))
      a = "micro-batch " + std::to_string(rows) + ", the rows of the model's inputs";
}

static Status guessLoss(LoadedModel &l, bool forExec) {
  if (l.config.loss.kind != LossConfig::Kind::None)
    return {};
  Program *micro = l.module->program("micro");
  std::string guess;
  if (!l.report.losses.empty())
    guess = "output:" + l.report.losses[0];
  else if (micro && micro->returns.size() == 1 && isFloat(micro->returns[0]->type.dtype))
    guess = micro->returns[0]->type.rank() == 0
                ? "output:" + micro->returns[0]->name
                : "ce:logits=" + micro->returns[0]->name + ",labels=labels";
  if (guess.empty() || forExec) {
    std::string outputs;
    for (Value *v : micro ? llvm::ArrayRef<Value *>(micro->returns) : llvm::ArrayRef<Value *>())
      outputs += (outputs.empty() ? "" : ", ") + v->name + " : " + v->type.str();
    return Status::error("no loss is given; the model's outputs are " + outputs)
        .note("try --loss " +
              (guess.empty() ? std::string("ce:logits=NAME,labels=labels") : guess));
  }
  TRY_ASSIGN(l.config.loss, parseLoss(guess));
  l.config.source["dsplan.loss"] = "assumed";
  l.config.assumptions.push_back("loss " + guess + "; --loss sets it");
  return {};
}

StatusOr<PlanConfig> configFromFlags(const std::optional<int64_t> &updates, bool assume,
                                     const Settings &more) {
  TRY(refusePostponed());
  ConfigOverrides o;
  TRY(overridesFromFlags(o));
  o.assume = assume;
  o.updates = updates;
  o.set.insert(o.set.end(), more.begin(), more.end());
  TRY_ASSIGN(PlanConfig c, readConfig(configPath, o));
  TRY(memoryLimit(c).status()); // a wrong target is told before the model is read
  return c;
}

// same: the model as it was read before, if that is what would be read again.
static StatusOr<LoadedModel> load(const ModelRequest &request, const Settings &more,
                                  const LoadedModel *same) {
  LoadedModel l;
  l.request = request;
  TRY_ASSIGN(l.config, configFromFlags(request.updates, /*assume=*/!request.forExec, more));
  auto start = std::chrono::steady_clock::now();
  if (same) {
    l.module = clone(*same->module);
    l.report = same->report;
  } else {
    TRY_ASSIGN(l.module, readModule(request.path, l.config, l.report,
                                    /*exampleDims=*/!request.forExec));
  }
  TRY(resolveAutos(l.config, hiddenSize(*l.module)));
  l.config.eval |= evalProgram || request.wantEval;
  l.importMs =
      std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - start).count();
  for (const auto &[name, extent] : l.report.exampleDims)
    l.config.assumptions.push_back(name + " " + std::to_string(extent) +
                                   ", as the model was exported; --dim " + name + "=N sets it");
  adoptRows(l);
  TRY(guessLoss(l, request.forExec));
  return l;
}

StatusOr<LoadedModel> loadModel(const std::string &path, bool forExec, bool wantEval,
                                const std::optional<int64_t> &updates) {
  TRY_ASSIGN(LoadedModel l, load({path, forExec, wantEval, updates}, {}, nullptr));
  if (l.config.offload != "auto")
    TRY(chooseGathered(l));
  else if (Status s = chooseOffload(l); !s.ok())
    return withAdvice(std::move(s), l, nullptr);
  return l;
}

StatusOr<LoadedModel> loadWith(const LoadedModel &model, const Settings &more) {
  bool reread = llvm::any_of(more, [](const auto &kv) { return kv.first == "micro_batch"; });
  TRY_ASSIGN(LoadedModel l, load(model.request, more, reread ? nullptr : &model));
  TRY(l.config.offload == "auto" ? chooseOffload(l) : chooseGathered(l));
  return l;
}

bool asksForTargets() { return target == "list"; }

PassOptions passOptions() {
  PassOptions o;
  o.printBefore = {printBefore.begin(), printBefore.end()};
  o.printAfter = {printAfter.begin(), printAfter.end()};
  o.stopAfter = stopAfter;
  o.verifyEach = verifyEach;
  o.bisectLimit = bisectLimit;
  o.out = &llvm::outs();
  return o;
}

StatusOr<bool> runPipeline(Module &m, const PlanConfig &c, const std::vector<std::string> &flags) {
  PassOptions options = passOptions();
  TRY(runPasses(m, c, flags, options));
  if (!options.stopAfter.empty())
    return false;
  TRY(verifyModule(m));
  return true;
}

int threadsOfRank(const PlanConfig &c) {
  return std::max<int>(1, std::thread::hardware_concurrency() / static_cast<int>(c.world));
}

void LoadedModel::keep(RecomputePlan p) {
  found = std::make_shared<FoundPlan>(FoundPlan{config, threadsOfRank(config), std::move(p)});
}

// What was planned already, if nobody watches passes.
static std::optional<RecomputePlan> foundPlan(const LoadedModel &model, const PlanConfig &c,
                                              int threads) {
  FoundPlan *f = model.found.get();
  if (!f || f->threads != threads || f->config != c || passOptions().watches())
    return std::nullopt;
  return std::exchange(f->plan, std::nullopt);
}

StatusOr<Schedule> plan(const LoadedModel &model, const PlanConfig &config, int threads,
                        std::unique_ptr<Module> *module) {
  PlanConfig c = config;
  if (threads <= 0)
    threads = threadsOfRank(c);
  TRY_ASSIGN(c.workspaceBytes, workspaceRule(c, threads));
  RecomputePlan p;
  if (std::optional<RecomputePlan> found = foundPlan(model, config, threads)) {
    p = std::move(*found);
  } else if (!c.recompute.empty() && c.recompute != "none") {
    TRY_ASSIGN(p, planRecompute(*model.module, c));
    // What was chosen for other threads may need more workspace with these.
    if (!c.recomputeValues.empty() && c.stage == model.config.stage &&
        !checkFits(p.schedule, c).ok()) {
      c.recomputeValues.clear();
      c.recomputeSweeps.clear();
      TRY_ASSIGN(p, planRecompute(*model.module, c));
    }
    c.recompute = p.mode;
    c.recomputeValues = p.values;
    c.recomputeSweeps = p.sweeps;
  }
  if (!p.module || passOptions().watches()) {
    p.module = clone(*model.module);
    TRY_ASSIGN(bool whole, runPipeline(*p.module, c, defaultPipeline()));
    p.schedule = {};
    if (whole) {
      TRY_ASSIGN(p.schedule, scheduleModule(*p.module, c));
    }
  }
  if (!p.schedule.programs.empty())
    TRY(verifySchedule(p.schedule));
  if (module)
    *module = std::move(p.module);
  return std::move(p.schedule);
}

StatusOr<Schedule> planFromArgs(const std::string &path, int threads, PlanConfig &config,
                                bool wantEval, std::optional<Schedule> *reference,
                                const std::optional<int64_t> &updates, ImportReport *report) {
  if (!llvm::StringRef(path).endswith(".dsched")) {
    TRY_ASSIGN(LoadedModel l, loadModel(path, /*forExec=*/true, wantEval, updates));
    config = l.config;
    if (report)
      *report = l.report;
    if (reference) {
      PlanConfig one = l.config;
      one.stage = 0;
      one.gradAccum *= one.world;
      one.world = 1;
      one.offloadOptimizer = one.offloadParam = one.offloadActivations = "";
      one.bucketPlaces.clear();
      one.offloadValues.clear();
      TRY_ASSIGN(*reference, plan(l, one, threads));
    }
    TRY_ASSIGN(Schedule s, plan(l, l.config, threads));
    if (Status fits = checkFits(s, l.config); !fits.ok())
      return withAdvice(std::move(fits), l, &s, threads);
    return s;
  }
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getNumOccurrences() && entry.second != &nvmePath &&
        entry.second != &reduction &&
        llvm::any_of(entry.second->Categories, [](cl::OptionCategory *c) {
          return c == &category || c == &passes || c == &importCategory();
        }))
      return Status::error("--" + entry.first().str() +
                           " cannot change a finished plan; plan again with dsplan")
          .at(path);
  config.nvmePath = nvmePath; // a property of the machine, not of the plan
  if (reduction.getNumOccurrences())
    TRY(setConfigKey(config, "dsplan.reduction", reduction).at("--reduction"));
  TRY_ASSIGN(std::string text, readInput(path));
  TRY_ASSIGN(Schedule s, parseSchedule(text, path));
  size_t slash = path.rfind('/');
  s.directory = slash == std::string::npos ? "." : path.substr(0, slash);
  TRY(verifySchedule(s));
  return s;
}

} // namespace ds
