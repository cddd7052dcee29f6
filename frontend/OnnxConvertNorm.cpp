// SPDX-License-Identifier: Apache-2.0
//
// Layer and batch normalisation. The core ops always have the statistics, whatever the model asks for.
#include "frontend/OnnxEval.h"
#include "frontend/OnnxImporter.h"
#include "ir/GraphBatchNorm.h"

namespace ds {

Status convertLayerNormalization(Converter &c) {
  TRY(c.wantTensors(2, 3));
  int64_t rank = c.rank(0);
  TRY_ASSIGN(int64_t axis, c.axis(c.node->i("axis", -1), rank));
  double eps = meantBy(static_cast<float>(c.node->f("epsilon", 1e-5f)));
  const Dims d = c.dims(0);
  Dims tail(d.begin() + axis, d.end());
  EMIT(x, c.value(0));
  EMIT(scale, c.value(1));
  TRY_ASSIGN(scale, c.broadcastTo(scale, tail, ".scale"));
  llvm::SmallVector<Value *, 3> operands = {x, scale};
  if (c.has(2)) {
    EMIT(bias, c.value(2));
    TRY_ASSIGN(bias, c.broadcastTo(bias, tail, ".bias"));
    operands.push_back(bias);
  }
  std::vector<std::string> names = {c.name, c.name + ".mean", c.name + ".rstd"};
  TRY_ASSIGN(Op * op,
             c.importer.create(c.b, OpKind::LayerNorm, operands, names,
                               {{"axis", axis == rank - 1 ? int64_t(-1) : axis}, {"eps", eps}}));
  c.out = {OnnxVal(op->result(0))};
  // Outputs Mean and InvStdDev keep the normalised axes with extent 1.
  Dims kept(d.begin(), d.begin() + axis);
  kept.resize(d.size(), 1);
  for (int i = 1; i < 3; ++i)
    if (c.wantsOutput(i)) {
      c.out.resize(static_cast<size_t>(i) + 1);
      EMIT(v, c.reshape(op->result(i), kept, i == 1 ? ".mean.kept" : ".rstd.kept"));
      c.out[i] = v;
    }
  return {};
}

namespace {

using BatchNorm = ImportOptions::BatchNorm;

bool keepsStatistics(const Converter &c) {
  return c.importer.options.batchNorm == BatchNorm::Batch;
}

/// Whether the micro-batch's own statistics count.
bool trains(const Converter &c) {
  if (c.importer.options.batchNorm != BatchNorm::Exported)
    return keepsStatistics(c);
  return c.node->opset >= 14 ? c.node->i("training_mode", 0) != 0
                             : c.node->proto->output_size() > 1;
}

/// What the stored statistics become: keep * old + (1 - keep) * new.
StatusOr<Value *> updated(Converter &c, Value *stored, Value *batch, double scale,
                          const std::string &suffix) {
  double keep = meantBy(static_cast<float>(c.node->f("momentum", 0.9f)));
  if (!(keep >= 0 && keep <= 1))
    return c.error("momentum " + doubleText(keep) + " is not in [0, 1]");
  EMIT(next, c.emit(OpKind::Track, {stored, batch}, {{"keep", keep}, {"scale", scale}}, suffix));
  if (keepsStatistics(c))
    TRY(c.b.tryCreate(OpKind::Copy, {next}, {}, {}, {static_cast<Symbol *>(stored)}).status());
  return next;
}

/// Inputs 3 and 4 are stored statistics: those of this node alone (Importer::findRunning).
Status wantStored(Converter &c) {
  for (size_t i = 3; i < 5; ++i)
    if (const Value *v = c.in[i].value;
        !v || !v->isSymbol() || !static_cast<const Symbol *>(v)->running)
      return c.error("input " + std::to_string(i) +
                     " is no initializer, so there is no place for running statistics; "
                     "normalise by the given ones with --bn frozen");
  return {};
}

Status byBatch(Converter &c, Value *x, Value *scale, Value *bias, double eps) {
  if (keepsStatistics(c))
    TRY(wantStored(c));
  double count = 1;
  for (size_t i = 0; i < x->type.dims.size(); ++i)
    count *= i == 1 ? 1 : static_cast<double>(x->type.dims[i]);
  bool asOnnx = c.importer.options.bnVarOnnx || !keepsStatistics(c);
  if (count < 2 && !asOnnx)
    return c.error("a micro-batch has one value per channel: it has no variance; use more samples, "
                   "--bn frozen or --bn-var onnx");
  EMIT(mean, c.value(3));
  EMIT(var, c.value(4));
  std::vector<std::string> names = {c.name, c.name + ".mean", c.name + ".var"};
  TRY_ASSIGN(Op * op,
             c.importer.create(c.b, OpKind::BatchNorm, {x, scale, bias}, names, {{"eps", eps}}));
  EMIT(nextMean, updated(c, mean, op->result(1), 1, ".mean.new"));
  EMIT(nextVar, updated(c, var, op->result(2), asOnnx ? 1 : count / (count - 1), ".var.new"));
  c.out = {OnnxVal(op->result(0)), OnnxVal(nextMean), OnnxVal(nextVar)};
  if (c.node->opset < 14) // saved_mean, saved_var
    c.out.insert(c.out.end(), {OnnxVal(op->result(1)), OnnxVal(op->result(2))});
  return {};
}

} // namespace

Status convertBatchNormalization(Converter &c) {
  TRY(c.wantTensors(5, 5));
  if (!c.node->i("spatial", 1))
    return c.error("spatial=0 is not supported");
  double eps = meantBy(static_cast<float>(c.node->f("epsilon", 1e-5f)));
  if (c.rank(0) < 2)
    return c.error("input has shape " + dimsText(c.dims(0)) +
                   ", expected batch, channels and more");
  for (size_t i = 1; i < 5; ++i)
    if (c.dims(i) != Dims{c.dims(0)[1]})
      return c.error("input " + std::to_string(i) + " has shape " + dimsText(c.dims(i)) +
                     ", expected [" + std::to_string(c.dims(0)[1]) + "]");
  EMIT(x, c.value(0));
  EMIT(scale, c.value(1));
  EMIT(bias, c.value(2));
  if (trains(c))
    return byBatch(c, x, scale, bias, eps);
  EMIT(mean, c.value(3));
  EMIT(var, c.value(4));
  auto make = [&](OpKind k, llvm::ArrayRef<Value *> operands, Attrs attrs,
                  const std::string &suffix) { return c.emit(k, operands, attrs, suffix); };
  TRY(c.result(normaliseBy(make, x, scale, bias, mean, var, eps)));
  c.out.insert(c.out.end(), {OnnxVal(mean), OnnxVal(var)});
  return {};
}

} // namespace ds
