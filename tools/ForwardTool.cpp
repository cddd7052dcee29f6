// SPDX-License-Identifier: Apache-2.0
#include "tools/ForwardTool.h"

#include "ir/Philox.h"
#include "passes/PassManager.h"
#include "runtime/Convert.h"
#include "runtime/Forward.h"
#include "tools/ArrayFiles.h"
#include "tools/Devices.h"
#include "tools/ForwardModel.h"
#include "tools/GenerateTool.h"
#include "tools/PlanArgs.h"
#include "tools/Workspace.h"

#include "llvm/ADT/STLExtras.h"
#include "llvm/ADT/StringRef.h"
#include "llvm/Support/raw_ostream.h"

#include <set>

namespace cl = llvm::cl;

namespace ds {

static cl::OptionCategory category("Running the model once");
cl::OptionCategory &forwardCategory() { return category; }
static cl::opt<bool> forward("forward", cl::cat(category),
                             cl::desc("Run the model forward instead of training it"));
static cl::opt<bool> vjp("vjp", cl::cat(category),
                         cl::desc("Compute the gradients of the outputs times their cotangents,\n"
                                  "a vector-Jacobian product, instead of training"));
static cl::opt<std::string> wrt("wrt", cl::value_desc("regex"), cl::cat(category),
                                cl::desc("--vjp: inputs, parameters and module paths to\n"
                                         "differentiate for"));
static cl::opt<std::string> feed("feed", cl::value_desc("folder"), cl::cat(category),
                                 cl::desc("Inputs, one <input>.npy or .pb (TensorProto) each"));
static cl::opt<std::string> fetch("fetch", cl::value_desc("folder"), cl::cat(category),
                                  cl::desc("Where results go, one file each, of the kind that "
                                           "is fed"));
static cl::opt<std::string>
    cotangent("cotangent", cl::value_desc("folder|random:seed"), cl::cat(category),
              cl::desc("--vjp: one <output>.npy or .pb for each float\n"
                       "output, or normal numbers, which are written, too"));
static cl::opt<std::string> weights("weights", cl::value_desc("file.safetensors"),
                                    cl::cat(category),
                                    cl::desc("Weights instead of the model's own, as "
                                             "--save-model writes them"));
static cl::opt<int64_t> count("generate", cl::value_desc("n"), cl::cat(category),
                              cl::desc("Write n tokens that follow --prompt: the likeliest, or "
                                       "with --seed\ndrawn ones; for causal language models"));
static cl::opt<std::string> prompt("prompt", cl::value_desc("text"), cl::cat(category),
                                   cl::desc("--generate: what is to be gone on with; without "
                                            "--vocab\nnumbers of tokens, as 1,2,3"));
static cl::opt<std::string> vocabulary("vocab", cl::value_desc("file.json"), cl::cat(category),
                                       cl::desc("--generate: {\"chars\": [...]}, the text of each "
                                                "token"));

static bool generates() { return count.getNumOccurrences() > 0; }
static const char *mode() { return vjp ? "--vjp" : forward ? "--forward" : "--generate"; }

StatusOr<bool> asksForForward() {
  bool any = forward || vjp || generates();
  for (const auto *o : {&wrt, &feed, &fetch, &cotangent, &weights, &prompt, &vocabulary})
    if (!any && o->getNumOccurrences())
      return Status::error("--" + o->ArgStr.str() + " belongs to --forward, --vjp and --generate");
  return any;
}

// Training's flags would do nothing here. Everything about the model, the device and the passes is fine.
static Status refuseOtherFlags() {
  static const std::set<llvm::StringRef> also = {
      "device",   "threads", "config", "deepspeed-config", "dtype", "world-size",
      "num-gpus", "ranks",   "set",    "allow-unknown"};
  Status s;
  for (auto &entry : cl::getRegisteredOptions()) {
    cl::Option *o = entry.second;
    bool ours = llvm::any_of(o->Categories, [](cl::OptionCategory *c) {
      return c == &category || c == &importCategory() || c == &passCategory();
    });
    bool seeds = generates() && entry.first() == "seed";
    if (o->getNumOccurrences() && o->hasArgStr() && !ours && !also.count(entry.first()) && !seeds)
      s.merge(Status::error("--" + entry.first().str() + " is about training, and " + mode() +
                            " does not train"));
  }
  return s;
}

static Status checkFlags(const std::string &path) {
  if (path.empty())
    return Status::error("no model is given").note("dsexec --help shows examples");
  if (forward + vjp + generates() > 1)
    return Status::error("--forward, --vjp and --generate are different runs; give one of them");
  TRY(refuseOtherFlags());
  if (!generates() && (prompt.getNumOccurrences() || vocabulary.getNumOccurrences()))
    return Status::error("--prompt and --vocab belong to --generate");
  if (generates() && (feed.getNumOccurrences() || fetch.getNumOccurrences()))
    return Status::error("--generate feeds the model itself; --feed and --fetch belong to "
                         "--forward and --vjp");
  if (generates() && (prompt.empty() || count < 0))
    return Status::error("--generate takes a number of tokens, and needs --prompt");
  if (!vjp && (wrt.getNumOccurrences() || cotangent.getNumOccurrences()))
    return Status::error("--wrt and --cotangent belong to --vjp");
  if (vjp && (wrt.empty() || cotangent.empty()))
    return Status::error("--vjp needs --wrt REGEX, what to differentiate for, and --cotangent "
                         "FOLDER or random:SEED");
  if (fetch.empty() && !generates() && passOptions().stopAfter.empty())
    return Status::error(std::string(mode()) + " needs --fetch FOLDER, where results go");
  return {};
}

// Standard normal numbers, each output's from a stream of its own.
static Array randomArray(const Type &t, uint64_t seed, uint64_t stream) {
  Philox random{seed, stream};
  Array a{t.dtype, t.dims, std::string(static_cast<size_t>(t.bytes()), '\0')};
  for (int64_t e = 0; e < t.elems(); ++e) {
    auto at = static_cast<uint64_t>(e);
    double v = random.normals(at / 4)[at % 4];
    convert(t.dtype, a.bytes.data() + e * byteSize(t.dtype), DType::F64, &v, 1);
  }
  return a;
}

static const Type &inputType(const Schedule &s, const std::string &name) {
  return s.persistent[static_cast<size_t>(s.findPersistent(name))].type;
}

// Adds the cotangents to what is fed; random ones are written, for whoever checks the result.
static Status addCotangents(const Schedule &s, const std::map<std::string, std::string> &outputs,
                            bool asProto, std::map<std::string, ArrayFile> &feeds) {
  llvm::StringRef spec(cotangent);
  if (spec.consume_front("random:")) {
    uint64_t seed = 0, stream = 0;
    if (spec.getAsInteger(10, seed))
      return Status::error("--cotangent random:" + spec.str() +
                           ": expected a seed, a number from 0");
    for (const auto &[input, output] : outputs) {
      feeds[input] = {"", randomArray(inputType(s, input), seed, ++stream)};
      TRY(writeArray(fetch, input, feeds[input].array, asProto));
    }
    return {};
  }
  TRY_ASSIGN(auto files, readArrays(cotangent));
  Status all;
  for (const auto &[input, output] : outputs) {
    auto it = files.find(fileName(output));
    if (it == files.end())
      all.merge(Status::error("there is no " + fileName(output) +
                              ".npy or .pb, the cotangent of "
                              "output " +
                              output)
                    .at(cotangent));
    else
      feeds[input] = it->second;
    files.erase(fileName(output));
  }
  for (const auto &[name, file] : files)
    all.merge(Status::error("the model has no float output " + name).at(file.path));
  return all;
}

// The arrays as the plan's inputs want them.
static StatusOr<std::map<std::string, Array>> fitted(const Schedule &s,
                                                     std::map<std::string, ArrayFile> feeds) {
  std::map<std::string, Array> out;
  Status all;
  for (const InputInfo &in : s.inputs) {
    auto it = feeds.find(in.name);
    if (it == feeds.end()) {
      all.merge(Status::error("there is no " + in.name + ".npy or .pb, which the model needs as " +
                              inputType(s, in.name).str())
                    .at("--feed " + feed));
      continue;
    }
    StatusOr<Array> a = fitArray(std::move(it->second.array), inputType(s, in.name));
    if (a.ok())
      out[in.name] = std::move(a).take();
    else
      all.merge(std::move(a).status().at(it->second.path));
  }
  TRY(std::move(all));
  return out;
}

// Names that differ may be one file's.
static Status checkResultFiles(const ForwardPlan &plan) {
  std::map<std::string, std::string> taken;
  Status all;
  auto add = [&](const std::string &name) {
    auto [it, fresh] = taken.emplace(fileName(name), name);
    if (!fresh)
      all.merge(Status::error("results " + it->second + " and " + name +
                              " would both be written as " + it->first));
  };
  for (const SchedProgram &p : plan.schedule.programs)
    for (const std::string &name : p.returnNames)
      add(plan.resultNames.at(name));
  for (const auto &[input, output] : plan.cotangents)
    add(input);
  return all;
}

static Status runGenerate(ForwardRequest r, Device device, std::optional<int64_t> seed) {
  GenerateRequest g;
  g.count = count;
  g.prompt = prompt;
  if (seed && *seed < 0)
    return Status::error("--seed cannot be negative");
  g.seed = seed;
  if (!vocabulary.empty()) {
    TRY_ASSIGN(g.vocabulary, Vocabulary::read(vocabulary));
  }
  r.assumeDims = true;
  TRY_ASSIGN(ForwardPlan plan, planForward(r));
  if (!passOptions().stopAfter.empty())
    return {};
  TRY_ASSIGN(auto run,
             Forward::create(std::move(plan.schedule), std::move(device), r.threads, plan.weights));
  TRY_ASSIGN(std::string text, generate(g, *run));
  llvm::outs() << text << "\n";
  return {};
}

Status runForward(const std::string &path, const std::string &deviceName, int threads,
                  std::optional<int64_t> seed) {
  TRY(checkFlags(path));
  TRY_ASSIGN(Device device, findDevice(deviceName));
  planForDevice(device.name);
  std::map<std::string, ArrayFile> feeds;
  if (!feed.empty()) {
    TRY_ASSIGN(feeds, readArrays(feed));
  }
  ForwardRequest r;
  r.path = path;
  r.vjp = vjp;
  r.wrt = wrt;
  r.weights = weights;
  r.threads = threads;
  if (generates())
    return runGenerate(std::move(r), std::move(device), seed);
  for (const auto &[name, file] : feeds)
    r.feeds[name] = {file.path, file.array};
  TRY_ASSIGN(ForwardPlan plan, planForward(r));
  if (!passOptions().stopAfter.empty())
    return {};
  TRY(checkResultFiles(plan));
  TRY(makeFolder(fetch));
  bool asProto = !feeds.empty() && llvm::all_of(feeds, [](const auto &f) {
    return llvm::StringRef(f.second.path).endswith(".pb");
  });
  if (vjp)
    TRY(addCotangents(plan.schedule, plan.cotangents, asProto, feeds));
  TRY_ASSIGN(auto arrays, fitted(plan.schedule, std::move(feeds)));
  TRY_ASSIGN(auto run,
             Forward::create(std::move(plan.schedule), std::move(device), threads, plan.weights));
  for (const std::string &note : run->notes())
    llvm::outs() << note << "\n";
  TRY_ASSIGN(auto results, run->run(arrays));
  for (const auto &[name, array] : results) {
    const std::string &as = plan.resultNames.at(name);
    TRY(writeArray(fetch, as, array, asProto));
    llvm::outs() << fileName(as) << (asProto ? ".pb" : ".npy") << ": "
                 << Type(array.dtype, array.dims).str() << "\n";
  }
  return {};
}

} // namespace ds
