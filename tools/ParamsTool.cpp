// SPDX-License-Identifier: Apache-2.0
#include "tools/ParamsTool.h"

#include "frontend/Units.h"

#include <functional>

namespace ds {

std::array<StateBytes, 2> stateBytes(const OptimizerConfig &o) {
  int64_t moments = o.type != "sgd" ? 8 : o.momentum > 0 ? 4 : 0;
  return {StateBytes{"fp32", 4, 4, moments}, StateBytes{"16-bit", 2, 2, 4 + moments}};
}

StageStates stageStates(const StateBytes &b, int64_t params, int64_t world, int64_t stage) {
  int64_t share = (params + world - 1) / world;
  return {b.param * (stage >= 3 ? share : params), b.grad * (stage >= 2 ? share : params),
          b.optimizer * (stage >= 1 ? share : params)};
}

int64_t stageTraffic(const StateBytes &b, int64_t params, int64_t world, int64_t stage) {
  int64_t share = (params + world - 1) / world;
  return b.param * share * (world - 1) * (stage >= 3 ? 3 : 2);
}

static constexpr int64_t kMostParams =
    1'000'000'000'000'000; // 16 bytes each, thrice, over 2^20 ranks

static StatusOr<int64_t> parseParams(const std::string &count) {
  StatusOr<int64_t> n = parseCount(count);
  if (!n.ok() || *n < 1 || *n > kMostParams)
    return Status::error("--params " + count +
                         ": expected a number of parameters up to 1e15, such as "
                         "7e9, 7B or 124M");
  return n;
}

static std::string row(const std::string &name, const std::function<std::string(int64_t)> &cell) {
  std::string line = "  " + name + std::string(28 - std::min<size_t>(name.size(), 27), ' ');
  for (int64_t stage = 0; stage <= 3; ++stage) {
    std::string text = cell(stage);
    line += std::string(text.size() < 12 ? 12 - text.size() : 1, ' ') + text;
  }
  return line + "\n";
}

static std::string table(const StateBytes &b, int64_t params, const PlanConfig &c,
                         const std::optional<MemoryLimit> &limit) {
  auto states = [&](int64_t stage) { return stageStates(b, params, c.world, stage); };
  std::string out = "\n" + std::string(b.name) +
                    ", bytes per parameter: " + std::to_string(b.param) + " + " +
                    std::to_string(b.grad) + " + " + std::to_string(b.optimizer) + "\n";
  out += row("", [](int64_t s) { return "stage " + std::to_string(s); });
  out += row("parameters", [&](int64_t s) { return bytesText(states(s).params); });
  out += row("gradients", [&](int64_t s) { return bytesText(states(s).grads); });
  out += row("optimizer states", [&](int64_t s) { return bytesText(states(s).optimizer); });
  out += row("total per rank", [&](int64_t s) { return bytesText(states(s).total()); });
  if (limit)
    out += row("spare of " + limit->name,
               [&](int64_t s) { return bytesText(limit->available() - states(s).total()); });
  return out + row("sent per rank and update",
                   [&](int64_t s) { return bytesText(stageTraffic(b, params, c.world, s)); });
}

// The first stage that fits, or -1.
static int64_t firstFit(const StateBytes &b, int64_t params, int64_t world,
                        const MemoryLimit &limit) {
  for (int64_t stage = 0; stage <= 3; ++stage)
    if (stageStates(b, params, world, stage).total() <= limit.available())
      return stage;
  return -1;
}

static std::string fitText(const StateBytes &b, int64_t params, int64_t world,
                           const MemoryLimit &limit) {
  int64_t stage = firstFit(b, params, world, limit);
  std::string name = b.name;
  if (stage >= 0)
    return name + ": stage " + std::to_string(stage) + " is the first that fits; " +
           bytesText(limit.available() - stageStates(b, params, world, stage).total()) +
           " remain for activations and buffers\n";
  int64_t each = b.param + b.grad + b.optimizer, most = limit.available() / each;
  return name + ": no stage fits; stage 3 does " +
         (most > 0 ? "from " + std::to_string((params + most - 1) / most) + " ranks on\n"
                   : "on no number of ranks\n");
}

StatusOr<ParamsPlan> planParams(const std::string &count, const PlanConfig &config) {
  TRY_ASSIGN(int64_t params, parseParams(count));
  TRY_ASSIGN(std::optional<MemoryLimit> limit, memoryLimit(config));
  ParamsPlan plan;
  plan.config = config;
  PlanConfig &c = plan.config;
  std::array<StateBytes, 2> precisions = stateBytes(c.optimizer);
  const StateBytes &trained = precisions[c.precision.isHalf() ? 1 : 0];
  bool given = c.source.count("zero_optimization.stage") != 0;
  int64_t first = limit ? firstFit(trained, params, c.world, *limit) : 3;
  if (!given) {
    c.stage = first < 0 ? 3 : first;
    c.source["zero_optimization.stage"] =
        limit ? "derived: the first that fits " + limit->name : "assumed";
    if (!limit)
      c.assumptions.push_back("stage 3, the least memory; --target and --stage choose another");
  }
  std::string &out = plan.text;
  out = countText(params) + " parameters, " + std::to_string(c.world) + " ranks, " +
        c.optimizer.type + "; states only: no activations, no buffers\n";
  for (const std::string &a : c.assumptions)
    out += "assumed: " + a + "\n";
  for (const std::string &n : c.noEffect)
    out += "no effect: " + n + "\n";
  for (const StateBytes &b : precisions)
    out += table(b, params, c, limit);
  if (!limit)
    return plan;
  out += "\n" + limit->name + ": " + bytesText(limit->capacity) + ", " + bytesText(limit->reserve) +
         " of it for library contexts\n";
  for (const StateBytes &b : precisions)
    out += fitText(b, params, c.world, *limit);
  int64_t need = stageStates(trained, params, c.world, c.stage).total();
  if (need > limit->available())
    plan.fits =
        Status::error("plan does not fit: at stage " + std::to_string(c.stage) + " a rank needs " +
                          bytesText(need) + " for its states in " + trained.name + ", and " +
                          limit->name + " leaves " + bytesText(limit->available()),
                      Code::DoesNotFit);
  return plan;
}

} // namespace ds
