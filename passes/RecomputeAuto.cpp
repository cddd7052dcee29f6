// SPDX-License-Identifier: Apache-2.0
#include "passes/RecomputeAuto.h"

#include <limits>

namespace ds {

static RecomputeModel modelOf(Program &p, const Schedule &s, const Rates &r) {
  RecomputeModel m(p, s, r);
  m.readMemory(s);
  return m;
}

RecomputeChooser::RecomputeChooser(Program &p, const Schedule &s, const Rates &r)
    : model(modelOf(p, s, r)),
      chain(std::make_unique<BlockChain>(recomputeBlocks(p, model), model)) {}
RecomputeChooser::RecomputeChooser(RecomputeModel m, std::vector<Launches> blocks)
    : model(std::move(m)), chain(std::make_unique<BlockChain>(std::move(blocks), model)) {}
RecomputeChooser::~RecomputeChooser() = default;

RecomputeChooser::Choice RecomputeChooser::choose(int64_t bytes) const {
  constexpr int kRounds = 6;
  // Long chains of blocks that are alike need few states to be near the best.
  const size_t states = chain->blocks.size() > 48 ? 512 : 4096;
  Choice best;
  best.peak = std::numeric_limits<int64_t>::max();
  auto consider = [&](const std::vector<int> &options) {
    RecomputeModel::Load load = model.load(chain->repeated(model, options));
    Choice c;
    c.peak = load.peak();
    c.seconds = load.seconds;
    c.fits = c.peak <= bytes;
    bool better = c.fits != best.fits ? c.fits
                  : c.fits            ? c.seconds < best.seconds
                                      : c.peak < best.peak;
    if (!better)
      return c.peak;
    for (int k = 0; k < model.firstBackward; ++k)
      if (load.isRepeated[k])
        c.values.push_back(model.launches[k].op->result()->name);
    best = std::move(c);
    return best.peak;
  };
  // Windows overlap a little and what lives beside them moves, so the chain's budget follows the real peak.
  int64_t budget = bytes;
  for (int round = 0; round < kRounds; ++round) {
    std::vector<int> options = assignOptions(chain->options, budget, states);
    if (options.empty())
      break;
    int64_t over = consider(options) - bytes;
    if (over == 0 || (over < 0 && round > 0))
      break;
    budget -= over;
  }
  if (!best.fits)
    consider(assignOptions(chain->options, leastBudget(chain->options), states));
  return best;
}

} // namespace ds
