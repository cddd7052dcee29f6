// SPDX-License-Identifier: Apache-2.0
//
// Dropout. Each active node has a key of its own, its number in the model, so that no two draw the same mask.
#include "frontend/OnnxImporter.h"

namespace ds {

// training_mode is an input from opset 12 on; before, the operator only passes its input on.
static StatusOr<bool> isActive(Converter &c) {
  using Mode = ImportOptions::Dropout;
  if (c.importer.options.dropout != Mode::Auto)
    return c.importer.options.dropout == Mode::On;
  if (c.node->opset < 12 || !c.has(2))
    return false;
  TRY_ASSIGN(double mode, c.knownScalar(2, "training_mode"));
  return mode != 0;
}

static StatusOr<double> ratioOf(Converter &c, bool active) {
  double ratio = c.node->opset < 12 ? c.node->f("ratio", 0.5) : 0.5;
  if (c.node->opset >= 12 && c.has(1)) {
    if (!active && !c.in[1].known) // of no importance
      return ratio;
    TRY_ASSIGN(ratio, c.knownScalar(1, "ratio"));
  }
  ratio = meantBy(static_cast<float>(ratio));
  if (active && !(ratio >= 0 && ratio < 1))
    return c.error("the ratio is " + doubleText(ratio) + ", expected at least 0 and less than 1");
  return ratio;
}

static Value *rngInput(Importer &im) {
  for (Value *in : im.program->inputs)
    if (in->input.role == InputMeta::Role::Rng)
      return in;
  Value *in =
      im.module->addInput(*im.program, im.program->uniqueName("rng"), Type(DType::U64, {2}));
  in->input.role = InputMeta::Role::Rng;
  return in;
}

// Inactive dropout passes its input on, with a mask that is all true. The mask of an active one is what the same
// key leaves of ones.
Status convertDropout(Converter &c) {
  TRY(c.wantTensors(1, 3));
  TRY_ASSIGN(bool active, isActive(c));
  TRY_ASSIGN(double ratio, ratioOf(c, active));
  active &= ratio != 0;
  if (ratio != 0)
    ++(active ? c.importer.report.activeDropout : c.importer.report.inactiveDropout);
  if (!active) {
    c.out = {c.in[0]};
    if (c.wantsOutput(1))
      c.out.push_back(makeSplat(DType::Bool, c.dims(0), 1));
    return {};
  }
  Value *rng = rngInput(c.importer);
  Attrs attrs{{"ratio", ratio}, {"key", c.importer.report.activeDropout}};
  EMIT(x, c.value(0));
  EMIT(y, c.emit(OpKind::Dropout, {x, rng}, attrs));
  c.out = {y};
  if (!c.wantsOutput(1))
    return {};
  EMIT(ones, c.fill(x->type.dtype, x->type.dims, 1));
  EMIT(kept, c.emit(OpKind::Dropout, {ones, rng}, attrs, ".kept"));
  EMIT(zero, c.scalar(x->type.dtype, 0));
  EMIT(mask, c.emit(OpKind::Gt, {kept, zero}, {}, ".mask"));
  c.out.push_back(mask);
  return {};
}

} // namespace ds
