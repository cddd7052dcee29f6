// SPDX-License-Identifier: Apache-2.0
//
// Shape rules of the update program: norm, clipping, optimizers and the scalars that they read.
// Scalars: lr and decay f64[groups]; clip, b1t, b2t f64[]; step i64[]; skip bool[].
#include "ir/ShapesCommon.h"

#include "ir/Bins.h"

#include <algorithm>

namespace ds {

// sum_squares: gradient shards to exact bins.
Status shapeSumSquares(const ShapeArgs &c) {
  for (size_t i = 0; i < c.in.size(); ++i) {
    int at = static_cast<int>(i);
    TRY(wantKind(c, at, Kinds::Arith, "sum_squares_1"));
    TRY(wantVector(c, at, c.in[i].dtype, "sum_squares_1"));
  }
  return addResult(c, DType::I64, {kBinSlots});
}

// clip_factor (bins[, scale]) -> norm, factor, skip.
Status shapeClipFactor(const ShapeArgs &c) {
  TRY(wantType(c, 0, DType::I64, {kBinSlots}, "clip_factor_1"));
  if (c.in.size() > 1)
    TRY(wantType(c, 1, DType::F64, {}, "clip_factor_3"));
  if (!(c.attrs.f("max_norm") >= 0))
    return c.error("max_norm " + doubleText(c.attrs.f("max_norm")) + " is less than 0",
                   "clip_factor_2");
  TRY(addResult(c, DType::F64, {}));
  TRY(addResult(c, DType::F64, {}));
  return addResult(c, DType::Bool, {});
}

// inv_count (n) -> 1/n.
Status shapeInvCount(const ShapeArgs &c) {
  TRY(wantType(c, 0, DType::F64, {}, "inv_count_1"));
  return addResult(c, DType::F64, {});
}

// lr_schedule (lr, step, skip) -> lr. step is the number of updates applied before this one.
Status shapeLrSchedule(const ShapeArgs &c) {
  TRY(wantVector(c, 0, DType::F64, "lr_schedule_1"));
  TRY(wantType(c, 1, DType::I64, {}, "lr_schedule_1"));
  TRY(wantType(c, 2, DType::Bool, {}, "lr_schedule_1"));
  std::string kind = c.attrs.s("kind");
  static const std::vector<std::string> kinds = {"constant", "warmup", "warmup_decay",
                                                 "warmup_cosine"};
  if (std::find(kinds.begin(), kinds.end(), kind) == kinds.end()) {
    std::string hint = nearest(kind, kinds);
    return c.error("kind=\"" + kind +
                       "\", expected constant, warmup, warmup_decay or warmup_cosine" +
                       (hint.empty() ? "" : "; did you mean " + hint),
                   "lr_schedule_2");
  }
  if (kind != "constant" && c.attrs.i("warmup") < 2)
    return c.error("warmup " + std::to_string(c.attrs.i("warmup")) + " is less than 2",
                   "lr_schedule_3");
  return addResult(c, DType::F64, c.in[0].dims);
}

// advance (s, skip) -> s * mul + add. A counter (i64) takes whole numbers.
Status shapeAdvance(const ShapeArgs &c) {
  if (c.in[0].dtype != DType::F64 && c.in[0].dtype != DType::I64)
    return c.error("operand 0 is " + typeText(c.in[0]) + ", expected f64 or i64", "advance_1");
  TRY(wantType(c, 1, DType::Bool, {}, "advance_1"));
  TRY(wantFits(c, c.attrs.f("mul", 1), c.in[0].dtype, "advance_2"));
  TRY(wantFits(c, c.attrs.f("add"), c.in[0].dtype, "advance_2"));
  return addResult(c, c.in[0].dtype, c.in[0].dims);
}

// loss_scale (scale, since, left, skip) -> scale, since, left.
Status shapeLossScale(const ShapeArgs &c) {
  TRY(wantType(c, 0, DType::F64, {}, "loss_scale_1"));
  TRY(wantType(c, 1, DType::I64, {}, "loss_scale_1"));
  TRY(wantType(c, 2, DType::I64, {}, "loss_scale_1"));
  TRY(wantType(c, 3, DType::Bool, {}, "loss_scale_1"));
  for (const char *name : {"window", "hysteresis"})
    if (c.attrs.i(name) < 1)
      return c.error(std::string(name) + " " + std::to_string(c.attrs.i(name)) + " is less than 1",
                     "loss_scale_2");
  if (!(c.attrs.f("min") > 0))
    return c.error("min " + doubleText(c.attrs.f("min")) + " is not above 0", "loss_scale_3");
  for (int i = 0; i < 3; ++i)
    TRY(addResult(c, c.in[i].dtype, {}));
  return {};
}

// Operand 0 is a gradient, 1 a parameter shard, then `states` states: vectors of one type.
static Status wantStates(const ShapeArgs &c, int states, const char *rule) {
  TRY(wantKind(c, 1, Kinds::Arith, rule));
  TRY(wantVector(c, 1, c.in[1].dtype, rule));
  for (int i = 0; i < states + 2; ++i)
    TRY(wantType(c, i, c.in[1].dtype, c.in[1].dims, rule));
  return {};
}

// From operand i on: lr, decay, clip, skip.
static Status wantScalars(const ShapeArgs &c, int i, const char *rule) {
  TRY(wantVector(c, i, DType::F64, rule));
  TRY(wantType(c, i + 1, DType::F64, c.in[i].dims, rule));
  TRY(wantType(c, i + 2, DType::F64, {}, rule));
  return wantType(c, i + 3, DType::Bool, {}, rule);
}

// sgd (g, p, m, lr, decay, clip, skip) -> p, m.
Status shapeSgd(const ShapeArgs &c) {
  TRY(wantStates(c, 1, "sgd_1"));
  TRY(wantScalars(c, 3, "sgd_2"));
  if (c.attrs.f("dampening") != 0)
    return c.error("dampening " + doubleText(c.attrs.f("dampening")) + ", expected 0", "sgd_3");
  for (int i = 1; i < 3; ++i)
    TRY(addResult(c, c.in[i].dtype, c.in[i].dims));
  return {};
}

static Status wantAdam(const ShapeArgs &c) {
  TRY(wantStates(c, 2, "adam_1"));
  TRY(wantScalars(c, 4, "adam_2"));
  TRY(wantType(c, 8, DType::F64, {}, "adam_2"));
  TRY(wantType(c, 9, DType::F64, {}, "adam_2"));
  for (const char *name : {"b1", "b2"})
    if (double b = c.attrs.f(name); !(b >= 0 && b < 1))
      return c.error(std::string(name) + "=" + doubleText(b) + " is not in [0, 1)", "adam_3");
  return {};
}

static Status addAdamResults(const ShapeArgs &c) {
  for (int i = 1; i < 4; ++i)
    TRY(addResult(c, c.in[i].dtype, c.in[i].dims));
  return {};
}

// adam (g, p, m, v, lr, decay, clip, skip, b1t, b2t) -> p, m, v.
Status shapeAdam(const ShapeArgs &c) {
  TRY(wantAdam(c));
  return addAdamResults(c);
}

// adam_round: the same operands -> rounded, p, m, v.
Status shapeAdamRound(const ShapeArgs &c) {
  TRY(wantAdam(c));
  TRY_ASSIGN(DType to, dtypeAttr(c, "to", "adam_round_1"));
  if (accumType(to) == to || accumType(to) != c.in[1].dtype)
    return c.error("rounds " + typeText(c.in[1]) + " to " + std::string(text(to)) +
                       ", expected f32 to bf16 or f16",
                   "adam_round_1");
  TRY(addResult(c, to, c.in[1].dims));
  return addAdamResults(c);
}

} // namespace ds
