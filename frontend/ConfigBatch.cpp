// SPDX-License-Identifier: Apache-2.0
//
// train = micro x accumulation x world. DeepSpeed's table of derivations, without its integer divisions that
// do not come out even.
#include "frontend/ConfigFile.h"

namespace ds {

namespace {

constexpr const char *kTrain = "train_batch_size", *kMicro = "train_micro_batch_size_per_gpu",
                     *kAccum = "gradient_accumulation_steps", *kWorld = "world size";

std::string number(int64_t n) { return std::to_string(n); }

// "train_batch_size is 10, which is not a multiple of ... = 4 x 2 = 8; nearest are 8 and 16".
Status notMultiple(int64_t train, int64_t unit, const std::string &names,
                   const std::string &values) {
  std::string nearest;
  if (int64_t below = train / unit * unit; below > 0)
    nearest = number(below);
  if (int64_t above = 0; !__builtin_mul_overflow(train / unit + 1, unit, &above))
    nearest = nearest.empty() ? "the nearest is " + number(above)
                              : "the nearest are " + nearest + " and " + number(above);
  else
    nearest = "the nearest is " + nearest;
  return Status::error(std::string(kTrain) + " is " + number(train) +
                       ", which is not a multiple of " + names + " = " + values + "; " + nearest);
}

Status tooLarge(const std::string &names, const std::string &values) {
  return Status::error(names + " = " + values + " is more than a 64-bit number holds");
}

// other := train / (given x world), where `given` may be left out (null name).
Status divide(const PlanConfig &c, const char *name, int64_t given, int64_t &other) {
  std::string names = name ? std::string(name) + " x " + kWorld : kWorld;
  std::string values = name ? number(given) + " x " + number(c.world) : number(c.world);
  int64_t unit = c.world;
  if (name && __builtin_mul_overflow(given, c.world, &unit))
    return tooLarge(names, values);
  if (c.trainBatch % unit)
    return notMultiple(c.trainBatch, unit, names, name ? values + " = " + number(unit) : values);
  other = c.trainBatch / unit;
  return {};
}

Status multiply(const PlanConfig &c, int64_t &product) {
  if (__builtin_mul_overflow(c.microBatch, c.gradAccum, &product) ||
      __builtin_mul_overflow(product, c.world, &product))
    return tooLarge(std::string(kMicro) + " x " + kAccum + " x " + kWorld,
                    number(c.microBatch) + " x " + number(c.gradAccum) + " x " + number(c.world));
  return {};
}

// All three are given and do not agree.
Status disagree(const PlanConfig &c, int64_t product) {
  std::string text = std::string(kTrain) + " is " + number(c.trainBatch) + ", but " + kMicro +
                     " x " + kAccum + " x " + kWorld + " = " + number(c.microBatch) + " x " +
                     number(c.gradAccum) + " x " + number(c.world) + " = " + number(product) +
                     "; set " + kTrain + " to " + number(product);
  auto orSet = [&](const char *name, int64_t a, int64_t b) { // a x b divides product: no overflow
    if (c.trainBatch % (a * b) == 0)
      text += std::string(" or ") + name + " to " + number(c.trainBatch / (a * b));
  };
  orSet(kAccum, c.microBatch, c.world);
  orSet(kMicro, c.gradAccum, c.world);
  orSet("the world size", c.microBatch, c.gradAccum);
  return Status::error(text + ", or leave one of them out");
}

} // namespace

Status resolveBatch(PlanConfig &c) {
  auto derived = [&](const char *key, const std::string &how) {
    c.source[key] = "derived: " + how;
  };
  if (c.world < 1)
    return Status::error("the world size is " + number(c.world) + ", expected at least 1");
  for (auto [key, value] :
       {std::pair(kTrain, c.trainBatch), {kMicro, c.microBatch}, {kAccum, c.gradAccum}})
    if (value < 0)
      return Status::error(std::string(key) + " is " + number(value) + ", expected at least 1");
  if (!c.trainBatch && !c.microBatch)
    return Status::error("no batch size is given: set " + std::string(kMicro) +
                         " (--micro-batch) or " + kTrain);
  if (!c.trainBatch) {
    if (!c.gradAccum) {
      c.gradAccum = 1;
      derived(kAccum, "1 unless two sizes ask for more");
    }
    TRY(multiply(c, c.trainBatch));
    derived(kTrain, "micro-batch x accumulation x world size");
    return {};
  }
  if (c.microBatch && c.gradAccum) {
    int64_t product = 0;
    TRY(multiply(c, product));
    return product == c.trainBatch ? Status() : disagree(c, product);
  }
  if (c.microBatch) {
    TRY(divide(c, kMicro, c.microBatch, c.gradAccum));
    derived(kAccum, "train batch / (micro-batch x world size)");
    return {};
  }
  bool hadAccum = c.gradAccum != 0;
  TRY(divide(c, hadAccum ? kAccum : nullptr, c.gradAccum, c.microBatch));
  derived(kMicro,
          hadAccum ? "train batch / (accumulation x world size)" : "train batch / world size");
  if (!hadAccum) {
    c.gradAccum = 1;
    derived(kAccum, "1 unless two sizes ask for more");
  }
  return {};
}

} // namespace ds
