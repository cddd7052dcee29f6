// SPDX-License-Identifier: Apache-2.0
#include "tools/ForwardModel.h"

#include "passes/PassManager.h"
#include "passes/Passes.h"
#include "runtime/Safetensors.h"
#include "tools/PlanArgs.h"
#include "tools/ReadModule.h"
#include "tools/Workspace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"

#include <thread>

namespace ds {

static const std::string &fileNameOf(const Symbol &s) {
  return s.exportName.empty() ? s.name : s.exportName;
}

// One rank, no optimizer, no loss: what the config says about them does not matter.
static StatusOr<PlanConfig> forwardConfig(const ForwardRequest &r) {
  TRY_ASSIGN(PlanConfig c, configFromFlags(std::nullopt, /*assume=*/true));
  auto world = c.source.find("dsplan.world_size");
  if (c.world > 1 && world != c.source.end() && world->second != "assumed")
    return Status::error(std::string(r.vjp ? "--vjp" : "--forward") +
                         " runs on one rank, and the world size is " + std::to_string(c.world) +
                         " (" + world->second + "); leave it out or set it to 1");
  c.world = 1;
  c.microBatch = c.trainBatch = c.gradAccum = 1;
  c.source["train_micro_batch_size_per_gpu"] = "assumed"; // rows of the model win
  c.stage = 0;
  c.loss = {};
  if (r.vjp)
    c.wrt = r.wrt;
  return c;
}

// A file that is fed and goes nowhere is most likely misspelt.
static Status checkFeeds(const ForwardRequest &r, const std::vector<std::string> &inputs) {
  Status all;
  for (const auto &[name, fed] : r.feeds) {
    if (llvm::is_contained(inputs, name))
      continue;
    std::string near = nearest(name, inputs), list;
    for (const std::string &in : inputs)
      list += (list.empty() ? "" : ", ") + in;
    all.merge(Status::error("the model has no input " + name +
                            (near.empty() ? "; its inputs are " + (list.empty() ? "none" : list)
                                          : "; did you mean " + near + "?"))
                  .at(fed.path));
  }
  return all;
}

static StatusOr<std::unique_ptr<Module>> load(const ForwardRequest &r, const PlanConfig &c) {
  ImportReport report;
  if (!isOnnxPath(r.path) || r.assumeDims) {
    TRY_ASSIGN(std::unique_ptr<Module> m, readModule(r.path, c, report, r.assumeDims));
    if (Program *p = m->program("micro"))
      for (Value *in : p->inputs)
        if (in->input.fromData())
          report.inputs.push_back(in->name);
    TRY(checkFeeds(r, report.inputs));
    return m;
  }
  StatusOr<std::unique_ptr<Module>> m = importFed(r.path, c, r.feeds, report);
  if (m.ok() || !report.inputs.empty())
    TRY(checkFeeds(r, report.inputs));
  return m;
}

// Every parameter comes from the file, and nothing in it is left over: else it belongs to another model.
static StatusOr<std::vector<WeightRange>> findWeights(const Module &m, const std::string &path) {
  std::vector<WeightRange> out;
  if (path.empty())
    return out;
  TRY_ASSIGN(File file, File::openRead(path));
  TRY_ASSIGN(SafetensorsHeader h, SafetensorsHeader::read(file));
  Status all;
  std::vector<std::string> names;
  for (const Symbol *s : m.symbols()) {
    if (s->symbolKind != SymbolKind::Param)
      continue;
    std::string name = fileNameOf(*s);
    names.push_back(name);
    auto it = h.tensors.find(name);
    if (it == h.tensors.end())
      all.merge(Status::error("there is no " + name + ", a parameter of the model").at(path));
    else if (it->second.dims != s->type.dims || !isFloat(it->second.dtype))
      all.merge(Status::error(name + " is " + Type(it->second.dtype, it->second.dims).str() +
                              ", the model's parameter is " + s->type.str())
                    .at(path));
    else
      out.push_back({s->name, path, it->second.offset, it->second.dtype});
  }
  for (const auto &[name, entry] : h.tensors)
    if (!llvm::is_contained(names, name)) {
      std::string near = nearest(name, names);
      all.merge(Status::error("the model has no parameter " + name +
                              (near.empty() ? "" : "; the nearest is " + near))
                    .at(path));
    }
  TRY(std::move(all));
  return out;
}

// Results are called as in the model: outputs by their names, gradients by those of what they belong to.
static void nameResults(const Module &m, const Program &before, const Program &after, bool vjp,
                        ForwardPlan &plan) {
  if (!vjp)
    for (Value *v : after.returns)
      plan.resultNames[v->name] = v->name;
  for (Value *in : before.inputs)
    if (vjp)
      plan.resultNames[in->name + ".grad"] = in->name;
  for (const Symbol *s : m.symbols())
    if (vjp)
      plan.resultNames[s->name + ".grad"] = fileNameOf(*s);
}

static StatusOr<ForwardPlan> fromSchedule(const ForwardRequest &r) {
  if (r.vjp || !r.weights.empty())
    return Status::error("--vjp and --weights need the model, not a finished plan").at(r.path);
  ForwardPlan plan;
  PlanConfig c;
  TRY_ASSIGN(plan.schedule, planFromArgs(r.path, r.threads, c));
  std::vector<std::string> inputs;
  for (const InputInfo &in : plan.schedule.inputs)
    inputs.push_back(in.name);
  TRY(checkFeeds(r, inputs));
  for (const SchedProgram &p : plan.schedule.programs)
    for (const std::string &name : p.returnNames)
      plan.resultNames[name] = name;
  return plan;
}

StatusOr<ForwardPlan> planForward(const ForwardRequest &r) {
  if (llvm::StringRef(r.path).endswith(".dsched"))
    return fromSchedule(r);
  ForwardPlan plan;
  TRY_ASSIGN(PlanConfig c, forwardConfig(r));
  TRY_ASSIGN(std::unique_ptr<Module> m, load(r, c));
  Program *micro = m->program("micro");
  if (!micro)
    return Status::error("the module has no func @micro").at(r.path);
  TRY_ASSIGN(plan.weights, findWeights(*m, r.weights));
  std::unique_ptr<Module> before = clone(*m);
  int threads = r.threads > 0 ? r.threads : std::max<int>(1, std::thread::hardware_concurrency());
  TRY_ASSIGN(c.workspaceBytes, workspaceRule(c, threads));
  TRY_ASSIGN(bool whole, runPipeline(*m, c, forwardPipeline(r.vjp)));
  if (!whole)
    return plan;
  const Program &forward = *m->program("forward"), &original = *before->program("micro");
  nameResults(*before, original, forward, r.vjp, plan);
  if (r.vjp)
    for (Value *y : original.returns)
      if (isFloat(y->type.dtype))
        plan.cotangents[y->name + ".cotangent"] = y->name;
  TRY_ASSIGN(plan.schedule, scheduleModule(*m, c));
  TRY(verifySchedule(plan.schedule));
  return plan;
}

} // namespace ds
