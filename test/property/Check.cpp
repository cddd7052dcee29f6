// SPDX-License-Identifier: Apache-2.0
#include "test/property/Check.h"

#include "kernels/Registry.h"
#include "test/property/Gradients.h"
#include "test/property/Train.h"

#include <cmath>
#include <fmt/format.h>

namespace ds::property {

Device refDevice() {
  auto find = [](const char *op, DType t) { return findKernel(refKernels(), op, t); };
  return {"ref", {{"ref", find}}};
}

namespace {

// Planning and running are told apart by where the error arises: errors of a run name a rank or a device.
Failure failed(const char *what, const Status &s) {
  std::string kind = s.code() == Code::Internal ? "internal" : "error";
  return {kind, fmt::format("{}:\n{}", what, s.str())};
}

Failure compareBits(const char *what, const std::vector<double> &a, const std::vector<double> &b) {
  for (size_t i = 0; i < a.size() || i < b.size(); ++i)
    if (i >= a.size() || i >= b.size() || (a[i] != b[i] && !(std::isnan(a[i]) && std::isnan(b[i]))))
      return {"bits", i < a.size() && i < b.size()
                          ? fmt::format("{} {}: {:.17g}, partner {:.17g}", what, i, a[i], b[i])
                          : fmt::format("{}: {} values, partner {}", what, a.size(), b.size())};
  return {};
}

Failure sameBits(const Trained &a, const Trained &b) {
  if (Failure f = compareBits("loss of update", a.losses, b.losses))
    return f;
  if (Failure f = compareBits("gradient norm of update", a.norms, b.norms))
    return f;
  if (Failure f = compareBits("clip factor of update", a.clips, b.clips))
    return f;
  if (Failure f = compareBits("learning rate of update", a.rates, b.rates))
    return f;
  if (Failure f = compareBits("loss scale of update", a.scales, b.scales))
    return f;
  if (a.weights.size() != b.weights.size())
    return {"bits", "different parameters"};
  for (const auto &[name, w] : a.weights) {
    auto other = b.weights.find(name);
    if (other == b.weights.end())
      return {"bits", "partner has no parameter " + name};
    if (Failure f = compareBits((name + " at").c_str(), w, other->second))
      return f;
  }
  return {};
}

// Relative to the tensor's largest element, or to 1.
Failure compareNear(const std::string &what, const std::vector<double> &a,
                    const std::vector<double> &b) {
  double size = 1;
  for (double v : b)
    size = std::max(size, std::fabs(v));
  for (size_t i = 0; i < b.size(); ++i)
    if (!(std::fabs(a[i] - b[i]) <= 1e-10 * size))
      return {"reference",
              fmt::format("{} {}: {:.17g}, one rank has {:.17g}", what, i, a[i], b[i])};
  return {};
}

Failure nearReference(const Trained &a, const Trained &b) {
  if (Failure f = compareNear("loss of update", a.losses, b.losses))
    return f;
  if (Failure f = compareNear("gradient norm of update", a.norms, b.norms))
    return f;
  if (Failure f = compareNear("learning rate of update", a.rates, b.rates))
    return f;
  for (const auto &[name, w] : b.weights) {
    auto mine = a.weights.find(name);
    if (mine == a.weights.end() || mine->second.size() != w.size())
      return {"reference", "no parameter " + name};
    if (Failure f = compareNear(name + " at", mine->second, w))
      return f;
  }
  return {};
}

Failure finite(const Trained &t) {
  if (t.skipped)
    return {"finite", "an update was skipped"};
  for (const auto *list : {&t.losses, &t.norms})
    for (double v : *list)
      if (!std::isfinite(v))
        return {"finite", fmt::format("loss or norm is {}", v)};
  return {};
}

// Adam divides by the root of the second moment, which makes noise of a zero gradient a full step: a large eps
// keeps the comparison of runs that round differently sensible.
PlanConfig inF64(PlanConfig c) {
  c.dtype = "f64";
  c.precision = {};
  c.commType = "";
  c.optimizer.eps = 1e-2;
  return c;
}

PlanConfig oneRank(PlanConfig c) {
  PlanConfig plain;
  c.stage = 0;
  c.world = c.gradAccum = 1;
  c.microBatch = c.trainBatch;
  c.reduceBucketSize = plain.reduceBucketSize;
  c.allgatherBucketSize = plain.allgatherBucketSize;
  c.persistenceThreshold = plain.persistenceThreshold;
  c.reduce = c.recompute = c.offloadOptimizer = c.offloadParam = "";
  c.offloadRatio = plain.offloadRatio;
  c.offloadBuffers = plain.offloadBuffers;
  c.subGroupSize = plain.subGroupSize;
  return c;
}

} // namespace

Failure check(const Case &c, const Device &device) {
  auto runOf = [&](bool whole, const PlanConfig &config, RunSetup setup) -> StatusOr<Trained> {
    setup.updates = c.updates;
    setup.dataSeed = c.dataSeed;
    TRY_ASSIGN(std::unique_ptr<Module> m, readModule(c, whole));
    return train(*m, config, setup, device);
  };
  StatusOr<Trained> run = runOf(false, c.config, {});
  if (!run.ok())
    return failed("config", run.status());
  if (!c.config.precision.isHalf()) // 16 bits may overflow; then nothing may move
    if (Failure f = finite(*run))
      return f;
  StatusOr<Trained> partner =
      runOf(false, c.partner,
            {1, 1, /*arenaFill=*/0xff, /*throughText=*/true, c.seed % 2 ? c.updates / 2 : 0});
  if (!partner.ok())
    return failed("partner", partner.status());
  if (Failure f = sameBits(*run, *partner))
    return f;
  StatusOr<Trained> exact = runOf(false, inF64(c.config), {});
  if (!exact.ok())
    return failed("config in f64", exact.status());
  StatusOr<Trained> reference = runOf(true, oneRank(inF64(c.config)), {});
  if (!reference.ok())
    return failed("one rank", reference.status());
  if (Failure f = nearReference(*exact, *reference))
    return f;
  return checkGradients(c, device);
}

} // namespace ds::property
