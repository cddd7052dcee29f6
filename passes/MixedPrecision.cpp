// SPDX-License-Identifier: Apache-2.0
//
// mixed-precision: the types of bf16 and fp16 training. Parameters, activations and, through autodiff, gradients are
// 16 bits wide; losses, and what loses its meaning in few digits, stay f32.
//   %h = matmul %x, @w : f32[8,5]   ->   %x.bf16 = cast %x {to="bf16"}; %h = matmul %x.bf16, @w : bf16[8,5]
// fp16 also gets `scalar @loss_scale`, which autodiff and attach-optimizer use. Masters come with the optimizer.
// Constants are converted where they lie; a finite one stays finite.
#include "passes/Precision.h"

#include "ir/GraphBuilder.h"
#include "passes/Passes.h"

#include "llvm/ADT/DenseMap.h"
#include "llvm/ADT/DenseSet.h"

#include <algorithm>
#include <cmath>

namespace ds {

Symbol *findLossScale(const Module &m) {
  for (Symbol *s : m.symbols())
    if (s->symbolKind == SymbolKind::Scalar && llvm::StringRef(s->name).startswith("loss_scale"))
      return s;
  return nullptr;
}

Symbol *masterOf(const Op &optimizer) {
  Value *p = optimizer.operands[1];
  while (p->def) // own @l0, or what a transfer brought
    p = p->def->operands[0];
  return static_cast<Symbol *>(p);
}

// The first bucket that what is made of v is bound to.
static Symbol *boundBucket(const Value *v) {
  for (Op *user : v->users) {
    for (Symbol *s : user->bound)
      if (s->symbolKind == SymbolKind::Bucket)
        return s;
    if (user->numNamed() > 0)
      if (Symbol *s = boundBucket(user->result()))
        return s;
  }
  return nullptr;
}

Symbol *optimizedBucket(const Op &optimizer) {
  if (Symbol *s = masterOf(optimizer); s->symbolKind == SymbolKind::Bucket)
    return s;
  if (Symbol *s = optimizer.boundTo(0); s && s->symbolKind == SymbolKind::Bucket)
    return s; // rounded in the same op
  return boundBucket(optimizer.result());
}

namespace {

// In what type an op computes.
enum class Rule {
  Half, // 16 bits: kernels add in f32
  Wide, // f32: few digits would be wrong by much (e^x), or the result is one number that all depends on
  Follows, // f32 if an operand that is no constant is f32, else 16 bits
};

Rule ruleOf(OpKind k) {
  switch (k) {
  case OpKind::Matmul:
  case OpKind::Linear:
  case OpKind::Conv:
  case OpKind::Softmax:
  case OpKind::LayerNorm:
  case OpKind::RmsNorm:
  case OpKind::Attention:
  case OpKind::BatchNorm:    // statistics are f32
  case OpKind::CrossEntropy: // logits; the loss is f32
  case OpKind::LinearCrossEntropy:
    return Rule::Half;
  case OpKind::Exp:
  case OpKind::Log:
  case OpKind::LogSoftmax:
  case OpKind::Sqrt:
  case OpKind::Reciprocal:
  case OpKind::Sin:
  case OpKind::Cos:
  case OpKind::Mse: // the target is data
  case OpKind::Track:
    return Rule::Wide;
  default:
    return Rule::Follows;
  }
}

class Narrowing {
public:
  Narrowing(Module &m, Program &p, DType half) : module(m), program(p), b(m, p), half(half) {}

  Status run() {
    for (Symbol *s : module.symbols())
      if (s->symbolKind == SymbolKind::Param && !s->running && isFloat(s->type.dtype))
        s->type.dtype = half;
    llvm::SmallVector<Op *, 64> ops;
    for (Op &op : program.ops)
      ops.push_back(&op);
    for (Op *op : ops)
      TRY(visit(*op));
    for (Value *&v : program.returns)
      if (v->type.rank() == 0 && isFloat(v->type.dtype)) {
        b.before = nullptr;
        v = inType(v, wide);
      }
    return {};
  }

private:
  // Counts of labels and their inverse are f64 in every precision.
  static bool isCount(const Value *v) { return v->type.dtype == DType::F64; }

  static bool isConstant(const Value *v) {
    if (v->isSymbol())
      return static_cast<const Symbol *>(v)->symbolKind == SymbolKind::Const;
    return v->def && v->def->kind == OpKind::Fill;
  }

  Status visit(Op &op) {
    b.before = &op;
    b.origin = op.origin;
    b.phase = op.phase;
    bool counts = llvm::any_of(op.results, [](Value *r) { return isCount(r); });
    if (counts || op.kind == OpKind::Fill) // a fill takes its user's type
      return {};
    DType type = typeOf(op);
    for (const char *attr : {"to", "dtype"})
      if (const AttrValue *v = op.attrs.find(attr))
        if (auto d = dtypeFromText(std::get<std::string>(*v)); d && isFloat(*d))
          op.attrs.set(attr, std::string(text(type)));
    if (op.kind == OpKind::Pad && isFloat(op.result()->type.dtype))
      op.attrs.set("value", finite(op.attrs.f("value"), type));
    for (size_t i = 0; op.kind != OpKind::Cast && i < op.operands.size(); ++i)
      if (Value *v = op.operands[i]; isFloat(v->type.dtype) && !isCount(v))
        op.setOperand(static_cast<int>(i), inType(v, type));
    llvm::SmallVector<Type, 4> operands, results;
    for (Value *v : op.operands)
      operands.push_back(v->type);
    TRY(inferTypes(op.kind, operands, op.attrs, module, results));
    for (size_t i = 0; i < results.size(); ++i)
      op.results[i]->type = results[i];
    return {};
  }

  // Squares whose mean is taken, as normalisations do.
  static bool isSummed(const Op &op) {
    bool squares =
        op.kind == OpKind::Pow || (op.kind == OpKind::Mul && op.operands[0] == op.operands[1]);
    return squares && !op.result()->users.empty() &&
           llvm::all_of(op.result()->users, [](Op *u) { return u->kind == OpKind::ReduceSum; });
  }

  DType typeOf(const Op &op) const {
    Rule rule = ruleOf(op.kind);
    bool isWide = rule == Rule::Wide || isSummed(op);
    for (const Value *v : op.operands)
      if (rule == Rule::Follows && isFloat(v->type.dtype) && !isConstant(v))
        isWide |=
            v->type.dtype == wide ? !v->isSymbol() && v->kind != ValueKind::Input : isCount(v);
    return isWide ? wide : half;
  }

  static double finite(double v, DType t) {
    return std::isfinite(v) ? std::clamp(v, -largest(t), largest(t)) : v;
  }

  // v in another float type, in front of the op that is visited.
  Value *inType(Value *v, DType type) {
    if (v->type.dtype == type)
      return v;
    std::string to(text(type)), name = v->name + "." + to;
    if (v->def && v->def->kind == OpKind::Fill) {
      Attrs attrs = v->def->attrs;
      attrs.set("dtype", to);
      attrs.set("value", finite(attrs.f("value"), type));
      return b.op(OpKind::Fill, {}, name, std::move(attrs));
    }
    Value *&known = (type == wide ? widened : narrowed)[v];
    if (known)
      return known;
    if (!isConstant(v))
      return known = b.op(OpKind::Cast, {v}, name, {{"to", to}});
    auto *s = static_cast<Symbol *>(v);
    Type t = s->type;
    t.dtype = type;
    Symbol *copy = module.addSymbol(SymbolKind::Const, module.uniqueSymbolName(name), t);
    copy->source = s->source;
    copy->trainable = s->trainable;
    copy->exportName = s->exportName;
    return known = copy;
  }

  Module &module;
  Program &program;
  Builder b;
  DType half, wide = DType::F32;
  llvm::DenseMap<Value *, Value *> widened, narrowed;
};

} // namespace

Status mixedPrecision(Module &m, const PlanConfig &c) {
  const PrecisionConfig &p = c.precision;
  if (!p.isHalf())
    return {};
  if (p.fp16 && p.bf16)
    return Status::error("mixed-precision: fp16 and bf16 are both on; choose one");
  Program *micro = m.program("micro");
  if (!micro)
    return Status::error("mixed-precision: there is no func @micro");
  for (const Symbol *s : m.symbols())
    if (s->symbolKind == SymbolKind::Param && s->type.dtype == DType::F64)
      return Status::error("mixed-precision: @" + s->name +
                           " is f64; 16-bit training starts from f32 or 16 bits");
  TRY(Narrowing(m, *micro, p.type()).run());
  if (p.fp16) {
    Symbol *s =
        m.addSymbol(SymbolKind::Scalar, m.uniqueSymbolName("loss_scale"), Type(DType::F64, {}));
    s->source.kind = Source::Kind::Splat;
    s->source.value =
        p.isDynamic() ? std::ldexp(1.0, static_cast<int>(p.initialScalePower)) : p.lossScale;
  }
  return {};
}

} // namespace ds
