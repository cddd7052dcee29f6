// SPDX-License-Identifier: Apache-2.0
//
// attach-loss: makes the loss the first returned value of @micro, weighted so that the sum over ranks and
// micro-batches is the mean over the window (D7): the loss op multiplies by @inv_count, the inverse of the
// window's global count of label elements.
//   return %logits   ->   %loss, %lse = cross_entropy %logits, %labels, @inv_count; return %loss
// Adds the labels input if the graph has none, the input %count that feeds @inv_count, and the bounds that
// the loader checks integer inputs against.
#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

namespace ds {

namespace {

std::string namesOf(llvm::ArrayRef<Value *> values) {
  std::string s;
  for (Value *v : values)
    s += (s.empty() ? "%" : ", %") + v->name;
  return s.empty() ? "none" : s;
}

class LossAttacher {
public:
  LossAttacher(Module &m, Program &p, const LossConfig &c)
      : module(m), program(p), config(c), builder(m, p) {
    builder.origin.pass = "attach-loss";
  }

  StatusOr<Value *> run() {
    inv = module.addSymbol(SymbolKind::Scalar, module.uniqueSymbolName("inv_count"),
                           Type(DType::F64, {}));
    inv->source.kind = Source::Kind::Splat;
    inv->source.value = 1;
    switch (config.kind) {
    case LossConfig::Kind::CrossEntropy:
      return crossEntropy();
    case LossConfig::Kind::Mse:
      return mse();
    case LossConfig::Kind::Output:
      return output();
    case LossConfig::Kind::None:
      break;
    }
    return Status::error("attach-loss: no loss is given; outputs are " + namesOf(program.returns))
        .note("give one, e.g. --loss ce:logits=" +
              (program.returns.empty() ? std::string("NAME") : program.returns[0]->name) +
              ",labels=labels, --loss mse:..., or --loss output:NAME");
  }

private:
  StatusOr<Value *> value(const std::string &name, const char *role) {
    for (Value *v : program.returns)
      if (v->name == name)
        return v;
    if (Value *v = program.find(name))
      return v;
    std::vector<std::string> known;
    for (Value *v : program.returns)
      known.push_back(v->name);
    std::string near = nearest(name, known);
    return Status::error("--loss: " + std::string(role) + " '" + name +
                         "' is not a value of the graph" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"))
        .note("outputs are " + namesOf(program.returns));
  }

  StatusOr<Value *> labelsInput(const Type &type) {
    std::string name = config.labels.empty() ? "labels" : config.labels;
    if (Value *v = program.find(name)) {
      if (v->kind != ValueKind::Input)
        return Status::error("--loss: labels '" + name +
                             "' is computed by the graph, expected an input");
      if (v->type.dims != type.dims || isFloat(v->type.dtype) != isFloat(type.dtype))
        return Status::error("--loss: input '" + name + "' is " + v->type.str() +
                             ", the loss needs " + type.str());
      if (v->users.empty()) // else it is data too, such as the token ids themselves
        v->input.role = InputMeta::Role::Label;
      return v;
    }
    Value *v = module.addInput(program, name, type);
    v->input.role = InputMeta::Role::Label;
    return v;
  }

  void addCount(Value *labels) {
    Value *count = module.addInput(program, program.uniqueName("count"), Type(DType::F64, {}));
    count->input.role = InputMeta::Role::Count;
    if (!labels)
      return;
    count->input.countOf = labels->name;
    if (config.kind == LossConfig::Kind::CrossEntropy) {
      count->input.hasIgnore = true;
      count->input.ignoreIndex = config.ignoreIndex;
      count->input.skip = config.shift;
    }
  }

  static void setLabelMeta(Value &labels, int64_t classes, int64_t ignore, int64_t skip) {
    InputMeta &m = labels.input;
    m.bound = classes;
    if (m.role != InputMeta::Role::Label)
      return;
    m.hasIgnore = true;
    m.ignoreIndex = ignore;
    m.skip = skip;
  }

  // The slice that drops the first (or last) element of an axis before v, if there is one; `root` is where v comes from.
  static const Op *shiftBehind(Value *v, bool first, Value **root = nullptr) {
    const Op *found = nullptr;
    for (;; v = v->def->operands[0]) {
      if (root)
        *root = v;
      const Op *op = v->def;
      if (!op || (op->kind != OpKind::Reshape && op->kind != OpKind::Cast &&
                  op->kind != OpKind::Transpose && op->kind != OpKind::Slice))
        return found;
      if (op->kind != OpKind::Slice)
        continue;
      const std::vector<int64_t> &dims = op->operands[0]->type.dims,
                                 starts = op->attrs.list("starts"),
                                 limits = op->attrs.list("limits");
      for (size_t a = 1; a + (first ? 0 : 1) < dims.size();
           ++a) // the last axis of logits are the classes
        if (first ? starts[a] == 1 && limits[a] == dims[a]
                  : starts[a] == 0 && limits[a] == dims[a] - 1)
          found = op;
    }
  }

  // All but the last (of logits) or the first (of labels) positions along the sequence axis.
  Value *shifted(Value *v, int64_t axis, bool first) {
    std::vector<int64_t> starts(v->type.rank(), 0), limits = v->type.dims;
    std::vector<int64_t> strides(v->type.rank(), 1);
    (first ? limits[axis] : starts[axis]) += first ? -config.shift : config.shift;
    return builder.op(OpKind::Slice, {v}, v->name + ".shifted",
                      {{"starts", starts}, {"limits", limits}, {"strides", strides}});
  }

  StatusOr<Value *> crossEntropy() {
    TRY_ASSIGN(Value * logits, value(config.logits, "logits"));
    const std::vector<int64_t> &dims = logits->type.dims;
    if (dims.size() < 2 || !isFloat(logits->type.dtype))
      return Status::error("--loss ce: logits %" + logits->name + " is " + logits->type.str() +
                           ", expected a float tensor [.., classes]");
    std::vector<int64_t> rows(dims.begin(), dims.end() - 1);
    TRY_ASSIGN(Value * labels, labelsInput(Type(DType::I64, rows)));
    setLabelMeta(*labels, dims.back(), config.ignoreIndex, config.shift);
    addCount(labels);
    if (config.shift) {
      if (const Op *slice = shiftBehind(logits, /*first=*/false))
        return Status::error(
                   "--loss ce: shift=1, but the graph has dropped the last position of %" +
                   logits->name + " itself, in %" + slice->result()->name)
            .note("exactly one shift is needed: leave shift=1 out");
      int64_t axis = static_cast<int64_t>(rows.size()) - 1;
      if (rows[axis] <= config.shift)
        return Status::error("--loss: shift=" + std::to_string(config.shift) +
                             " leaves nothing of " + std::to_string(rows[axis]) + " positions");
      logits = shifted(logits, axis, /*first=*/true);
      labels = shifted(labels, axis, /*first=*/false);
    }
    TRY_ASSIGN(Op * op,
               builder.tryCreate(OpKind::CrossEntropy, {logits, labels, inv}, {"loss", "loss.lse"},
                                 {{"ignore_index", config.ignoreIndex}}));
    return op->result();
  }

  StatusOr<Value *> mse() {
    TRY_ASSIGN(Value * prediction, value(config.logits, "prediction"));
    TRY_ASSIGN(Value * target, labelsInput(prediction->type));
    addCount(target);
    TRY_ASSIGN(Op * op, builder.tryCreate(OpKind::Mse, {prediction, target, inv}, {"loss"}));
    return op->result();
  }

  // The graph has its own loss, a mean of this micro-batch: the window's is the mean of these.
  StatusOr<Value *> output() {
    TRY_ASSIGN(Value * v, value(config.logits, "output"));
    if (v->type.elems() != 1 || !isFloat(v->type.dtype))
      return Status::error("--loss output: %" + v->name + " is " + v->type.str() +
                           ", expected one float");
    addCount(nullptr);
    markLabels();
    if (v->type.rank() != 0)
      v = builder.op(OpKind::Reshape, {v}, v->name, {{"dims", std::vector<int64_t>{}}});
    Value *factor = inv;
    if (v->type.dtype != DType::F64)
      factor = builder.op(OpKind::Cast, {inv}, "inv", {{"to", std::string(text(v->type.dtype))}});
    return builder.op(OpKind::Mul, {v, factor}, "loss");
  }

  // Integer inputs that only the graph's own cross-entropy reads are labels, which it may have shifted.
  void markLabels() {
    for (Op &op : program.ops) {
      if (op.kind != OpKind::CrossEntropy)
        continue;
      Value *root = nullptr;
      const Op *shift = shiftBehind(op.operands[1], /*first=*/true, &root);
      if (root->kind != ValueKind::Input || root->users.size() != 1)
        continue;
      root->input.role = InputMeta::Role::Label;
      setLabelMeta(*root, op.operands[0]->type.dims.back(), op.attrs.i("ignore_index"),
                   shift ? 1 : 0);
    }
  }

  Module &module;
  Program &program;
  const LossConfig &config;
  Builder builder;
  Symbol *inv = nullptr;
};

// An integer input that indexes axis k of a tensor must lie below its extent.
void setBounds(Program &p) {
  for (Value *in : p.inputs) {
    llvm::SmallVector<Value *, 8> work{in};
    while (!work.empty()) {
      Value *v = work.pop_back_val();
      for (Op *user : v->users) {
        if (user->kind == OpKind::Cast || user->kind == OpKind::Reshape)
          work.push_back(user->result());
        if (user->kind != OpKind::Gather || user->operands[1] != v)
          continue;
        const Type &table = user->operands[0]->type;
        int64_t axis = user->attrs.i("axis");
        int64_t extent = table.dims[axis < 0 ? axis + table.rank() : axis];
        if (in->input.bound == 0 || extent < in->input.bound)
          in->input.bound = extent;
      }
    }
  }
}

} // namespace

Status attachLoss(Module &m, const PlanConfig &c) {
  Program *p = m.program("micro");
  if (!p)
    return Status::error("attach-loss: the module has no func @micro");
  if (!c.wrt.empty())
    return Status::error("attach-loss: dsplan.wrt is for dsexec --vjp; training differentiates for "
                         "parameters, which --trainable and --freeze choose");
  TRY_ASSIGN(Value * loss, LossAttacher(m, *p, c.loss).run());
  p->returns.clear();
  p->returns.push_back(loss);
  setBounds(*p);
  return {};
}

} // namespace ds
