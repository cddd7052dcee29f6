// SPDX-License-Identifier: Apache-2.0
#include "tools/SelfCheck.h"

#include "tools/AllocCount.h"

#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cmath>
#include <fmt/format.h>

namespace ds {

namespace {

/// What a run leaves behind that another one must leave too.
struct Result {
  std::vector<UpdateResult> updates;
  std::vector<std::vector<std::byte>> kept; // weights and states, by buffer and rank
};

void say(const std::string &line) {
  llvm::outs() << "self-check: " << line << "\n";
  llvm::outs().flush();
}

Status failed(const std::string &what) {
  return Status::internal("self-check: " + what)
      .note("please report this with the command line, the model and the config");
}

bool isKept(const Buffer &b) {
  return b.kind == BufferKind::Param || b.kind == BufferKind::State || b.kind == BufferKind::Scalar;
}

Status keepBuffers(const Trainer &t, Result &r) {
  const Schedule &s = t.schedule();
  for (const Buffer &b : s.persistent)
    if (isKept(b))
      for (int rank = 0; rank < s.world(); ++rank) {
        TRY_ASSIGN(std::vector<std::byte> bytes, t.readBuffer(b.name, rank));
        r.kept.push_back(std::move(bytes));
      }
  return {};
}

StatusOr<Result> run(Trainer &t, int64_t updates, const char *how) {
  Result r;
  for (int64_t u = 0; u < updates; ++u) {
    TRY_ASSIGN(UpdateResult result, t.step());
    say(fmt::format("{}: update {}/{}  loss {:.6g}  norm {:.4g}  {:.0f} ms", how, u + 1, updates,
                    result.loss, result.gradNorm, result.stepMs));
    r.updates.push_back(result);
  }
  TRY(keepBuffers(t, r));
  return r;
}

StatusOr<Result> watched(const SelfCheckRuns &c) {
  RunOptions o = c.options;
  o.watch = true;
  o.arenaFill = 0xff;
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(c.plan, c.device, o));
  TRY_ASSIGN(Result r, run(*t, c.updates, "one by one"));
  auto [instructions, launches] = t->watched();
  say(fmt::format(
      "ok: {} instructions changed only what they declare; {} launches gave the same bits "
      "three times, on copies between guards",
      instructions, launches));
  return r;
}

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

Status sameBits(const Schedule &s, const Result &a, const Result &b) {
  for (size_t u = 0; u < a.updates.size(); ++u)
    if (!same(a.updates[u].loss, b.updates[u].loss) ||
        !same(a.updates[u].gradNorm, b.updates[u].gradNorm))
      return failed(
          fmt::format("update {}: loss {:.9g}, norm {:.9g} one by one, but {:.9g}, {:.9g} with "
                      "streams",
                      u + 1, a.updates[u].loss, a.updates[u].gradNorm, b.updates[u].loss,
                      b.updates[u].gradNorm));
  size_t k = 0;
  for (const Buffer &buffer : s.persistent)
    if (isKept(buffer))
      for (int rank = 0; rank < s.world(); ++rank, ++k)
        if (a.kept[k] != b.kept[k])
          return failed(fmt::format("rank {}: {} ends with other bits when streams overlap", rank,
                                    buffer.name));
  say(fmt::format(
      "ok: the same losses, norms and {} weights and states on {} ranks, bit for bit, with all "
      "streams",
      k / static_cast<size_t>(s.world()), s.world()));
  return {};
}

Status threaded(const SelfCheckRuns &c, const Result &expected) {
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(c.plan, c.device, c.options));
  TRY_ASSIGN(Result r, run(*t, c.updates, "with streams"));
  TRY(sameBits(t->schedule(), expected, r));
  if (!canCountAllocations()) {
    say("skipped: allocations cannot be counted in this build");
    return {};
  }
  startCounting();
  Status stepped;
  for (int64_t u = 0; u < c.updates && stepped.ok(); ++u)
    stepped = t->step().status();
  AllocCounts n = stopCounting();
  TRY(std::move(stepped));
  if (n.ours != 0 || n.frees != n.oneDnn)
    return failed(
        fmt::format("{} updates made {} allocations ({} more in oneDNN) and {} frees, expected "
                    "none",
                    c.updates, n.ours, n.oneDnn, n.frees));
  say(fmt::format("ok: {} more updates allocated nothing{}", c.updates,
                  n.oneDnn ? fmt::format(" (oneDNN: {}, all freed)", n.oneDnn) : ""));
  return {};
}

/// How far sums in another order may be apart: the norm's and the loss's own rounding, grown by a few updates.
double tolerance(const Schedule &s) {
  for (const BucketInfo &b : s.buckets)
    if (b.dtype != DType::F64)
      return 1e-4;
  return 1e-10;
}

/// Updates that are compared: every one magnifies the rounding of those before it, without bound where the training
/// itself diverges. Four see a warm-up's first steps.
size_t comparable(const Result &ref) {
  double first = ref.updates.empty() ? 0 : ref.updates[0].gradNorm;
  size_t n = 0;
  while (n < std::min<size_t>(ref.updates.size(), 4) &&
         (n == 0 || std::isnan(first) || ref.updates[n].gradNorm <= 10 * first))
    ++n;
  return n;
}

Status againstReference(const SelfCheckRuns &c, const Result &r) {
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(*c.reference, c.device, c.options));
  TRY_ASSIGN(Result ref, run(*t, c.updates, "stage 0 on one rank"));
  double limit = tolerance(c.plan), worst = 0;
  size_t compared = comparable(ref);
  for (size_t u = 0; u < compared; ++u)
    for (auto [a, b, what] : {std::tuple(r.updates[u].loss, ref.updates[u].loss, "loss"),
                              std::tuple(r.updates[u].gradNorm, ref.updates[u].gradNorm, "norm")}) {
      double apart = same(a, b) ? 0 : std::abs(a - b) / std::max(std::abs(b), 1e-30);
      if (!(apart <= limit))
        return failed(fmt::format("update {}: {} {:.9g}, but {:.9g} at stage 0 on one rank", u + 1,
                                  what, a, b));
      worst = std::max(worst, apart);
    }
  std::string which;
  if (compared < ref.updates.size())
    which = fmt::format(" of the first {} updates (later ones magnify rounding)", compared);
  say(fmt::format(
      "ok: losses and norms{} are those of stage 0 on one rank within {:.1e} (limit {:.0e})", which,
      worst, limit));
  return {};
}

} // namespace

Status selfCheck(SelfCheckRuns c) {
  c.options.nvme.checksums = true;
  TRY_ASSIGN(Result r, watched(c));
  TRY(threaded(c, r));
  if (c.reference)
    return againstReference(c, r);
  say("skipped: a finished plan cannot be compared with stage 0; give the model instead");
  return {};
}

} // namespace ds
