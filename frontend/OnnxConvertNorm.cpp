// SPDX-License-Identifier: Apache-2.0
//
// Layer normalisation. The core op always has the mean and the inverse deviation, whatever the model asks for.
#include "frontend/OnnxEval.h"

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

} // namespace ds
