// SPDX-License-Identifier: Apache-2.0
//
// The gradient is what one update of plain SGD with rate 1 takes away. A kink between the two points of a difference makes
// it wrong at that distance only, so a slope counts as confirmed if one of three distances gives it.
#include "test/property/Gradients.h"

#include "passes/Passes.h"
#include "test/property/Train.h"

#include <cmath>
#include <cstring>
#include <fmt/format.h>

namespace ds::property {

namespace {

using Tensors = std::map<std::string, std::vector<double>>;

class Slopes {
public:
  Slopes(const Case &c, const Device &device) : c(c), device(device), signs(c.seed * 2 + 1) {
    config.microBatch = config.trainBatch = c.config.microBatch;
    config.gradAccum = 1;
    config.optimizer.type = "sgd";
    config.optimizer.lr = 1;
    config.clip = 0;
    config.dtype = "f64";
    config.loss = c.config.loss;
    config.fuse = c.config.fuse;
  }

  Failure run() {
    if (Status s = start(); !s.ok())
      return {"internal", s.str()};
    std::vector<std::string> all;
    for (const auto &[name, g] : gradient)
      all.push_back(name);
    if (Failure f = along(all))
      return f;
    for (size_t i = 0; i < all.size() && i < 6; ++i)
      if (Failure f = along({all[i]}))
        return f;
    return {};
  }

private:
  Status start() {
    TRY_ASSIGN(Trained none, runFrom({}, 0));
    weights = none.weights;
    TRY_ASSIGN(Trained one, runFrom({}, 1));
    loss = one.losses[0];
    for (const auto &[name, w] : weights) {
      std::vector<double> &g = gradient[name];
      for (size_t i = 0; i < w.size(); ++i) {
        g.push_back(w[i] - one.weights[name][i]);
        norm += g[i] * g[i];
      }
    }
    norm = std::sqrt(norm);
    return {};
  }

  // Trains from these weights instead of the module's own.
  StatusOr<Trained> runFrom(const Tensors &from, int updates) {
    TRY_ASSIGN(std::unique_ptr<Module> m, readModule(c, /*whole=*/false));
    TRY(convertFloat(*m, config));
    for (Symbol *s : m->symbols()) {
      auto w = from.find(s->name);
      if (s->symbolKind != SymbolKind::Param || w == from.end())
        continue;
      s->source = Source();
      s->source.kind = Source::Kind::Hex;
      s->source.stored = DType::F64;
      s->source.bytes.assign(reinterpret_cast<const char *>(w->second.data()),
                             w->second.size() * sizeof(double));
    }
    return train(*m, config, {updates, c.dataSeed}, device);
  }

  bool isTrained(const std::string &name) {
    auto m = readModule(c, false);
    Symbol *s = (*m)->symbol(name);
    return s && s->trainable;
  }

  Failure along(const std::vector<std::string> &names) {
    Tensors direction;
    double expected = 0;
    for (const std::string &name : names) {
      if (!isTrained(name))
        continue;
      for (double g : gradient[name]) {
        double sign = signs.chance(50) ? 1 : -1;
        direction[name].push_back(sign);
        expected += sign * g;
      }
    }
    if (direction.empty())
      return {};
    std::string tried;
    for (double h : {1e-5, 1e-6, 1e-7}) {
      double values[2];
      for (int side : {0, 1}) {
        Tensors moved = weights;
        for (const auto &[name, d] : direction)
          for (size_t i = 0; i < d.size(); ++i)
            moved[name][i] += (side ? h : -h) * d[i];
        StatusOr<Trained> r = runFrom(moved, 1);
        if (!r.ok())
          return {"internal", r.status().str()};
        values[side] = r->losses[0];
      }
      double slope = (values[1] - values[0]) / (2 * h);
      double allowed = 1e-5 * std::max(std::fabs(expected), 1e-2 * norm) +
                       1e-14 * std::max(1.0, std::fabs(loss)) / h;
      if (std::fabs(slope - expected) <= allowed)
        return {};
      tried += fmt::format(" {:.9g} (h {:g})", slope, h);
    }
    return {"gradient", fmt::format("along {}{}: gradient gives {:.9g}, differences{}", names[0],
                                    names.size() > 1 ? " and all others" : "", expected, tried)};
  }

  const Case &c;
  const Device &device;
  Choices signs;
  PlanConfig config;
  Tensors weights, gradient;
  double loss = 0, norm = 0;
};

} // namespace

Failure checkGradients(const Case &c, const Device &device) { return Slopes(c, device).run(); }

} // namespace ds::property
