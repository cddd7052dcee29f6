// SPDX-License-Identifier: Apache-2.0
#include "passes/PassManager.h"

#include "ir/GraphText.h"
#include "passes/Passes.h"

#include "llvm/ADT/STLExtras.h"

namespace ds {

const std::vector<PassInfo> &passTable() {
  static const std::vector<PassInfo> rows = {
#define PASS(flag, function, requires_, provides, summary)                                         \
  {flag, function, Fact::requires_, Fact::provides, summary},
#include "passes/Passes.def"
#undef PASS
  };
  return rows;
}

std::vector<std::string> defaultPipeline() {
  std::vector<std::string> flags;
  for (const char *flag : {
#define PASS(flag, function, requires_, provides, summary) flag,
#define FORWARD_PASS(flag, function, requires_, provides, summary)
#include "passes/Passes.def"
#undef PASS
       }) {
    flags.push_back(flag);
    if (flags.back() == "autodiff") // what the reverse walk made and nobody needs
      flags.push_back("canonicalize");
  }
  return flags;
}

std::vector<std::string> forwardPipeline(bool vjp) {
  if (!vjp)
    return {"convert-float", "remove-dropout", "canonicalize", "fuse-attention",
            "fuse-norm",     "fuse-linear",    "form-forward"};
  // What the loss itself needed is dead once form-forward no longer returns it.
  return {"convert-float", "remove-dropout",    "canonicalize", "fuse-attention", "fuse-norm",
          "fuse-linear",   "attach-cotangents", "autodiff",     "form-forward",   "canonicalize"};
}

bool holds(Fact f, const Module &m) {
  const Program *micro = m.program("micro");
  switch (f) {
  case Fact::None:
    return true;
  case Fact::Loss:
    return micro && !micro->returns.empty() && micro->returns[0]->type.rank() == 0 &&
           isFloat(micro->returns[0]->type.dtype);
  case Fact::Grads:
    return micro &&
           llvm::any_of(micro->ops, [](const Op &op) { return op.phase == Phase::Backward; });
  case Fact::Buckets:
    return llvm::any_of(m.symbols(),
                        [](const Symbol *s) { return s->symbolKind == SymbolKind::Bucket; });
  case Fact::Optimizer:
    return m.program("update") != nullptr;
  case Fact::Placed:
    return !m.mesh.empty();
  case Fact::Programs:
    return llvm::any_of(
        m.programs(), [](const Program *p) { return !p->isFunc && p->name.starts_with("micro."); });
  case Fact::Forward:
    return m.program("forward") != nullptr;
  }
  return false;
}

// One rank has no mesh: then a module with an optimizer is placed as it is.
static bool holdsFor(Fact f, const Module &m, const PlanConfig &c) {
  return holds(f == Fact::Placed && c.world <= 1 ? Fact::Optimizer : f, m);
}

static const PassInfo *findPass(const std::string &flag) {
  for (const PassInfo &p : passTable())
    if (flag == p.flag)
      return &p;
  return nullptr;
}

static Status checkFlags(const std::vector<std::string> &flags, bool allowAll) {
  for (const std::string &f : flags) {
    if (findPass(f) || (allowAll && f == "all"))
      continue;
    std::vector<std::string> known;
    for (const PassInfo &p : passTable())
      known.push_back(p.flag);
    std::string near = nearest(f, known);
    return Status::error("unknown pass '" + f + "'" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  return {};
}

static const char *nounOf(Fact f) {
  constexpr const char *nouns[] = {"",          "loss",       "gradients", "buckets",
                                   "optimizer", "placements", "programs",  "forward program"};
  return nouns[static_cast<int>(f)];
}

static Status missing(const PassInfo &p) {
  std::string provider;
  for (const PassInfo &q : passTable())
    if (q.provides == p.requires_ && provider.empty())
      provider = q.flag;
  return Status::error(std::string(p.flag) + ": the module has no " + nounOf(p.requires_) +
                       "; run " + provider + " before it");
}

namespace {

class Runner {
public:
  Runner(Module &m, const PlanConfig &c, const PassOptions &o)
      : m(m), c(c), o(o), start(o.repro ? clone(m) : nullptr) {}
  Status run(const PassInfo &p);

private:
  void print(const std::vector<std::string> &when, const char *word, const PassInfo &p) {
    if (o.out && (llvm::is_contained(when, p.flag) || llvm::is_contained(when, "all")))
      *o.out << "// ----- " << word << " " << p.flag << "\n" << printModule(m);
  }
  bool skips(const PassInfo &p);
  Status internal(const PassInfo &p, const Status &s);

  Module &m;
  const PlanConfig &c;
  const PassOptions &o;
  int64_t optionalPasses = 0; // met so far, for bisecting
  // The module before a pass that fails is made again from here, which costs less than a copy before each.
  std::unique_ptr<Module> start;
  std::vector<PassFn> done;
};

// Optional passes are those that no later one relies on.
bool Runner::skips(const PassInfo &p) {
  if (o.bisectLimit < 0 || p.provides != Fact::None)
    return false;
  bool skip = ++optionalPasses > o.bisectLimit;
  if (o.out)
    *o.out << "// bisect: " << (skip ? "not running" : "running") << " optional pass "
           << optionalPasses << " (" << p.flag << ")\n";
  return skip;
}

Status Runner::internal(const PassInfo &p, const Status &s) {
  Status out;
  for (const ErrorEntry &e : s.entries()) {
    Status one =
        Status::internal("internal error in " + std::string(p.flag) + ": " + e.text).at(e.place);
    for (const std::string &n : e.notes)
      one = std::move(one).note(n);
    out.merge(std::move(one));
  }
  if (!start)
    return out;
  for (PassFn fn : done)
    TRY(fn(*start, c));
  return std::move(out).note(kReproNote + std::string("--passes=") + p.flag + "\n" +
                             printModule(*start));
}

Status Runner::run(const PassInfo &p) {
  if (!holdsFor(p.requires_, m, c))
    return missing(p);
  if (skips(p))
    return {};
  print(o.printBefore, "before", p);
  Status s = p.fn(m, c);
  if (s.code() == Code::Internal)
    return internal(p, s);
  if (!s.ok())
    return std::move(s).note(std::string("in pass ") + p.flag);
  print(o.printAfter, "after", p);
  if (!holdsFor(p.provides, m, c))
    return internal(p, Status::internal(std::string("left no ") + nounOf(p.provides)));
  if (o.verifyEach)
    if (Status v = verifyModule(m); !v.ok())
      return internal(p, v);
  done.push_back(p.fn);
  return {};
}

} // namespace

Status runPasses(Module &m, const PlanConfig &c, const std::vector<std::string> &flags,
                 const PassOptions &o) {
  TRY(checkFlags(flags, /*allowAll=*/false));
  TRY(checkFlags(o.printBefore, /*allowAll=*/true));
  TRY(checkFlags(o.printAfter, /*allowAll=*/true));
  if (!o.stopAfter.empty())
    TRY(checkFlags({o.stopAfter}, /*allowAll=*/false));
  Runner runner(m, c, o);
  for (const std::string &flag : flags) {
    TRY(runner.run(*findPass(flag)));
    if (flag == o.stopAfter)
      break;
  }
  return {};
}

} // namespace ds
