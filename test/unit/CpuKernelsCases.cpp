// SPDX-License-Identifier: Apache-2.0
#include "test/unit/CpuKernelsCases.h"

#include "ir/Shapes.h"
#include "test/unit/CpuCases.h"

#include <algorithm>
#include <map>

namespace ds::test {

Cases casesOf(const std::string &op) {
  engine.seed(20240607);
  static const std::map<std::string, Cases (*)(const std::string &)> table = {
      {"relu_grad", gradCases},
      {"gelu_grad", gradCases},
      {"tanh_grad", gradCases},
      {"pow", powCases},
      {"where", whereCases},
      {"cast", castCases},
      {"pointwise", pointwiseCases},
      {"dropout", dropoutCases},
      {"concat", concatCases},
      {"gather", gatherCases},
      {"gather_grad", gatherCases},
      {"matmul", matmulCases},
      {"linear", linearCases},
      {"linear_grad", linearCases},
      {"linear_gelu_grad", linearCases},
      {"conv", convCases},
      {"conv_grad_input", convCases},
      {"conv_grad_weight", convCases},
      {"batch_norm", batchNormCases},
      {"batch_norm_grad", batchNormCases},
      {"max_pool", poolCases},
      {"max_pool_grad", poolCases},
      {"avg_pool", poolCases},
      {"avg_pool_grad", poolCases},
      {"layer_norm", layerNormCases},
      {"layer_norm_grad", layerNormCases},
      {"add_layer_norm", layerNormCases},
      {"add_rms_norm", rmsNormCases},
      {"rms_norm", rmsNormCases},
      {"rms_norm_grad", rmsNormCases},
      {"attention", attentionCases},
      {"attention_grad", attentionCases},
      {"linear_cross_entropy", linearLossCases},
      {"linear_cross_entropy_grad", linearLossCases},
      {"pack", packCases},
      {"accumulate", accumulateCases},
  };
  if (auto it = table.find(op); it != table.end())
    return it->second(op);
  auto in = [&](std::initializer_list<const char *> names) {
    return std::find(names.begin(), names.end(), op) != names.end();
  };
  if (in({"neg", "abs", "sign", "exp", "log", "sqrt", "reciprocal", "tanh", "sigmoid", "erf",
          "floor", "ceil", "round", "relu", "gelu", "sin", "cos"}))
    return unaryCases(op);
  if (in({"add", "sub", "mul", "div", "max", "min"}))
    return binaryCases(op);
  if (op == "mod")
    return divisionCases(op);
  if (in({"copy", "transpose", "broadcast", "slice", "reverse", "trilu", "pad"}))
    return moveCases(op);
  if (in({"reduce_sum", "reduce_max", "reduce_min"}))
    return reduceCases(op);
  if (in({"softmax", "log_softmax", "softmax_grad"}))
    return softmaxCases(op);
  if (in({"cross_entropy", "cross_entropy_grad", "mse", "mse_grad"}))
    return lossCases(op);
  if (in({"adam", "adam_round", "sgd", "sum_squares"}))
    return updateCases(op);
  if (in({"eq", "lt", "le", "gt", "ge"}))
    return compareCases(op);
  if (in({"and", "or", "xor", "not"}))
    return logicCases(op);
  if (in({"is_nan", "is_inf"}))
    return testCases(op);
  if (op == "track")
    return trackCases(op);
  if (in({"fill", "iota"}))
    return makeCases(op);
  if (in({"advance", "clip_factor", "inv_count", "loss_scale", "lr_schedule"}))
    return scalarCases(op);
  return {};
}

Allowance allowanceOf(const std::string &op) {
  constexpr double kUlp = 1.2e-7; // of an f32, relative, at most
  static const std::map<std::string, Allowance> table = {
      {"exp", {1e-45, 1 * kUlp}},
      {"log", {1e-45, 1 * kUlp}},
      {"tanh", {1e-45, 2 * kUlp}},
      {"sigmoid", {1e-45, 2 * kUlp}},
      {"erf", {1e-45, 2 * kUlp}},
      {"gelu", {1e-7, 4 * kUlp}},
      {"gelu_grad", {2e-7, 6 * kUlp}},
      {"tanh_grad", {3e-7, 2 * kUlp}},
      {"pow", {1e-45, 2 * kUlp}},
      {"pointwise", {2e-6, 1e-6}},
      {"reduce_sum", {2e-4, 4 * kUlp}},
      {"softmax", {1e-12, 2e-6}},
      {"log_softmax", {1e-6, 1e-6}},
      {"softmax_grad", {3e-7, 2e-6}},
      {"matmul", {2e-5, 2e-6}},
      {"linear", {2e-5, 2e-6}},
      {"linear_grad", {2e-5, 2e-6}},
      {"linear_gelu_grad", {2e-5, 3e-6}},
      {"conv", {2e-5, 2e-6}},
      {"conv_grad_input", {2e-5, 2e-6}},
      {"conv_grad_weight", {2e-5, 2e-6}},
      {"batch_norm", {2e-6, 2e-6}},
      {"batch_norm_grad", {2e-4, 4e-6}},
      {"max_pool_grad", {2e-6, 4 * kUlp}},
      {"avg_pool", {1e-12, kUlp}},
      {"avg_pool_grad", {1e-6, 4 * kUlp}},
      {"layer_norm", {1e-6, 1e-6}},
      {"layer_norm_grad", {2e-4, 4e-6}},
      {"add_layer_norm", {1e-6, 1e-6}},
      {"add_rms_norm", {1e-7, 1e-6}},
      {"rms_norm", {1e-7, 1e-6}},
      {"rms_norm_grad", {2e-4, 4e-6}},
      {"attention", {3e-6, 3e-6}},
      {"attention_grad", {2e-5, 4e-6}},
      {"cross_entropy", {0, 1e-6}},
      {"cross_entropy_grad", {1e-9, 1e-6}},
      {"linear_cross_entropy", {1e-6, 2e-6}},
      {"linear_cross_entropy_grad", {2e-6, 4e-6}},
      {"mse", {0, 1e-6}},
      {"mse_grad", {1e-8, 4 * kUlp}},
  };
  auto it = table.find(op);
  return it == table.end() ? Allowance{} : it->second;
}

std::vector<KernelCase> inPlace(const KernelCase &c) {
  std::vector<KernelCase> out;
  for (int k = 0; k < static_cast<int>(c.ins.size()); ++k) {
    const Tensor &in = c.ins[k], &to = c.outs[0];
    if (!mayOverwrite(*opFromText(c.op), k) || in.dims != to.dims || in.layout != to.layout ||
        byteSize(in.dtype) != byteSize(to.dtype))
      continue;
    out.push_back(c);
    out.back().tied.assign(c.outs.size(), -1);
    out.back().tied[0] = k;
    out.back().name += ", over operand " + std::to_string(k);
  }
  return out;
}

RunResult runApart(KernelTable table, const KernelCase &c, const RunOptions &o) {
  auto run = [&](const KernelCase &part) {
    return runKernel(*findKernel(table, part.op.c_str(), part.ins[0].dtype), part, o);
  };
  auto made = [](Tensor t, const std::vector<uint8_t> &bytes) {
    t.values = numbers(bytes, t.dtype);
    return t;
  };
  KernelCase norm = c, sum{"", "add", {}, {}, {c.outs[0]}, {}, {}};
  if (c.op.starts_with("add_")) { // first the sum
    sum.ins = {c.ins[0], c.ins[1]};
    RunResult first = run(sum);
    norm.op = c.op.substr(4);
    norm.ins.erase(norm.ins.begin());
    norm.ins[0] = made(c.outs[0], first.bytes[0]);
    norm.outs.erase(norm.outs.begin());
    RunResult second = run(norm);
    second.bytes.insert(second.bytes.begin(), first.bytes[0]);
    return second;
  }
  norm.ins.pop_back();
  RunResult first = run(norm);
  sum.ins = {made(c.outs[0], first.bytes[0]), c.ins.back()};
  first.bytes[0] = run(sum).bytes[0];
  return first;
}

// Statistics, accumulators.
static bool staysWide(const KernelCase &c, size_t operand) {
  return ((c.op == "layer_norm_grad" || c.op == "batch_norm_grad") &&
          (operand == 3 || operand == 4)) ||
         (c.op == "cross_entropy_grad" && operand == 2) ||
         (c.op == "attention_grad" && operand == 5) || (c.op == "rms_norm_grad" && operand == 3) ||
         (c.op == "accumulate" && c.ins.size() == 2 && operand == 0);
}

bool inHalf(KernelCase &c, DType half, int64_t largest) {
  bool any = false;
  std::vector<Type> ins, outs;
  for (size_t i = 0; i < c.ins.size(); ++i) {
    Tensor &t = c.ins[i];
    if (t.elems() > largest)
      return false;
    if (t.dtype == DType::F32 && !staysWide(c, i)) {
      t.dtype = half;
      any = true;
    }
    ins.emplace_back(t.dtype, t.dims);
  }
  std::optional<OpKind> kind = opFromText(c.op);
  Attrs attrs = c.attrs;
  if (!any || !kind || !completeAttrs(attrs, info(*kind).attrs, c.op).ok() ||
      !inferShape({*kind, ins, attrs, {}, outs}).ok() || outs.size() != c.outs.size())
    return false;
  for (size_t i = 0; i < outs.size(); ++i)
    c.outs[i].dtype = outs[i].dtype;
  c.name += " in " + std::string(text(half));
  return true;
}

Allowance halfAllowanceOf(const std::string &op, DType half) {
  Allowance a = allowanceOf(op);
  if (a.atol > 0 || a.rtol > 0)
    a.rtol += half == DType::BF16 ? 0x1p-7 : 0x1p-10;
  if (op.starts_with("linear_cross_entropy")) // logits are rounded, too
    a.atol += half == DType::BF16 ? 2e-3 : 2.5e-4;
  if (half == DType::F16 && a.atol > 0)
    a.atol += 0x1p-24; // among subnormals
  return a;
}

} // namespace ds::test
