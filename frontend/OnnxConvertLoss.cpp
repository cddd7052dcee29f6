// SPDX-License-Identifier: Apache-2.0
//
// Losses inside the graph (a model exported with labels) and If. The plain cross-entropy becomes the fused
// core op, with the classes as the last axis; weights, reduction none and NegativeLogLikelihoodLoss are
// composed: the log-probability of the label is picked by comparing a class index with it.
#include "frontend/OnnxEval.h"

namespace ds {
namespace {

struct Loss {
  Converter &c;
  int64_t rank, classes;
  std::optional<int64_t> ignore;
  std::string reduction;

  // Class axis 1 moved to the end.
  StatusOr<Value *> classesLast(Value *x, const char *suffix) {
    std::vector<int64_t> perm = {0};
    for (int64_t a = 2; a < rank; ++a)
      perm.push_back(a);
    perm.push_back(1);
    return c.transpose(x, perm, suffix);
  }

  // Bool per label: it counts.
  StatusOr<Value *> counted(Value *labels) {
    EMIT(ig, c.scalar(labels->type.dtype, static_cast<double>(*ignore)));
    EMIT(eq, c.emit(OpKind::Eq, {labels, ig}, {}, ".ignored"));
    return c.emit(OpKind::Not, {eq}, {}, ".counted");
  }

  // 1 / number of counted labels, as the fused op wants it.
  StatusOr<Value *> inverseCount(Value *labels) {
    if (reduction == "sum")
      return c.scalar(DType::F64, 1);
    if (!ignore)
      return c.scalar(DType::F64, 1.0 / static_cast<double>(labels->type.elems()));
    EMIT(keep, counted(labels));
    EMIT(n, c.cast(keep, DType::F64, ".ones"));
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < labels->type.rank(); ++a)
      axes.push_back(a);
    EMIT(count, c.reduceSum(n, axes, false, ".count"));
    return c.emit(OpKind::InvCount, {count}, {}, ".inv");
  }

  // The general form on log-probabilities with the classes last.
  StatusOr<Value *> picked(Value *logp, Value *labels, const OnnxVal &weight) {
    DType t = logp->type.dtype;
    Dims columns = labels->type.dims;
    columns.push_back(1);
    EMIT(column, c.reshape(labels, columns, ".column"));
    EMIT(index, c.iota(labels->type.dtype, {classes}, 0, 0, 1));
    EMIT(hit, c.emit(OpKind::Eq, {column, index}, {}, ".hit"));
    EMIT(zero, c.scalar(t, 0));
    int64_t last = static_cast<int64_t>(columns.size()) - 1;
    EMIT(selected, c.emit(OpKind::Where, {hit, logp, zero}, {}, ".selected"));
    EMIT(own, c.reduceSum(selected, {last}, false, ".own"));
    TRY_ASSIGN(own, c.emit(OpKind::Neg, {own}, {}, ".nll"));
    Value *w = nullptr; // weight of each label; null: all one
    if (weight) {
      EMIT(table, c.value(weight));
      EMIT(sel, c.emit(OpKind::Where, {hit, table, zero}, {}, ".weights"));
      TRY_ASSIGN(w, c.reduceSum(sel, {last}, false, ".weight"));
    }
    if (ignore) {
      if (!w) {
        TRY_ASSIGN(w, c.scalar(t, 1));
      }
      EMIT(keep, counted(labels));
      TRY_ASSIGN(w, c.emit(OpKind::Where, {keep, w, zero}, {}, ".kept"));
    }
    Value *rows = own;
    if (w) {
      TRY_ASSIGN(rows, c.emit(OpKind::Mul, {own, w}, {}, reduction == "none" ? "" : ".rows"));
    }
    if (reduction == "none")
      return rows;
    std::vector<int64_t> axes;
    for (int64_t a = 0; a < rows->type.rank(); ++a)
      axes.push_back(a);
    EMIT(sum, c.reduceSum(rows, axes, false, reduction == "sum" ? "" : ".sum"));
    if (reduction == "sum")
      return sum;
    if (!w) {
      EMIT(n, c.scalar(t, static_cast<double>(labels->type.elems())));
      return c.emit(OpKind::Div, {sum, n});
    }
    // No label counts: the loss is 0, as the fused op has it, and not 0 / 0.
    EMIT(total, c.reduceSum(w, axes, false, ".total"));
    EMIT(none, c.scalar(t, 0));
    EMIT(empty, c.emit(OpKind::Eq, {total, none}, {}, ".empty"));
    EMIT(one, c.scalar(t, 1));
    TRY_ASSIGN(total, c.emit(OpKind::Where, {empty, one, total}, {}, ".divisor"));
    return c.emit(OpKind::Div, {sum, total});
  }
};

} // namespace

Status convertCrossEntropyLoss(Converter &c) {
  TRY(c.wantTensors(2, 3));
  bool fromLogits = c.node->op() == "SoftmaxCrossEntropyLoss";
  Loss l{c, c.rank(0), 0, std::nullopt, c.node->s("reduction", "mean")};
  if (l.reduction != "mean" && l.reduction != "sum" && l.reduction != "none")
    return c.error("reduction is '" + l.reduction + "', expected mean, sum or none");
  Dims want = c.dims(0);
  if (want.size() < 2)
    return c.error("scores have shape " + dimsText(want) + ", expected [N, C, ...]");
  l.classes = want[1];
  want.erase(want.begin() + 1);
  if (c.dims(1) != want)
    return c.error("labels have shape " + dimsText(c.dims(1)) + ", expected " + dimsText(want));
  if (c.node->attr("ignore_index"))
    l.ignore = c.node->i("ignore_index", 0);
  EMIT(scores, c.value(0));
  EMIT(labels, c.value(1));
  if (labels->kind == ValueKind::Input) {
    labels->input.bound = l.classes;
    if (l.ignore) {
      labels->input.hasIgnore = true;
      labels->input.ignoreIndex = *l.ignore;
    }
  }
  EMIT(last, l.classesLast(scores, ".scores"));
  OnnxVal weight = c.has(2) ? c.in[2] : OnnxVal();
  bool fused = fromLogits && !weight && l.reduction != "none";
  if (fused) {
    EMIT(inv, l.inverseCount(labels));
    std::vector<std::string> names = {c.name, c.name + ".lse"};
    TRY_ASSIGN(Op * op, c.importer.create(c.b, OpKind::CrossEntropy, {last, labels, inv}, names,
                                          {{"ignore_index", l.ignore.value_or(-100)}}));
    c.out = {OnnxVal(op->result())};
  } else {
    Value *logp = last;
    if (fromLogits) {
      TRY_ASSIGN(logp, c.emit(OpKind::LogSoftmax, {last}, {}, ".logp"));
    }
    EMIT(v, l.picked(logp, labels, weight));
    c.out = {OnnxVal(v)};
  }
  if (fromLogits && c.wantsOutput(1)) {
    EMIT(logp, c.emit(OpKind::LogSoftmax, {scores}, {{"axis", int64_t(1)}}, ".log_prob"));
    c.out.emplace_back(logp);
  }
  return {};
}

// The importer inlines the branch; only conditions that depend on data get here.
Status convertIf(Converter &c) {
  return c.error(
      "its condition depends on the model's inputs, so its branches cannot be planned; fix the "
      "input with --const NAME=VALUE or --bind NAME=@FILE.pb, or compute both branches and "
      "choose with Where");
}

} // namespace ds
