// SPDX-License-Identifier: Apache-2.0
//
// Evaluators of elementwise operators and reductions.
#include "frontend/OnnxEval.h"

#include <algorithm>
#include <cmath>

namespace ds {

EvalResult evalNone(const OnnxNode &, const KnownList &, int) { return KnownList(); }

static Known like(const Known &k, DType t) {
  Known out;
  out.dtype = t;
  out.dims = k.dims;
  out.stored = k.stored;
  return out;
}

static KnownRef share(Known k) { return std::make_shared<Known>(std::move(k)); }

EvalResult evalUnary(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 1 || !in[0])
    return evalError(n, "expected one input");
  const Known &x = *in[0];
  const std::string &op = n.op();
  if (op == "IsNaN") {
    if (!x.floating())
      return evalError(n, "input is " + std::string(text(x.dtype)) + ", expected a float");
    Known out = like(x, DType::Bool);
    for (double v : x.floats)
      out.ints.push_back(std::isnan(v));
    return KnownList{share(std::move(out))};
  }
  Known out = like(x, x.dtype);
  if (!x.floating()) {
    if (op != "Neg" && op != "Abs" && op != "Sign" && op != "Not" && op != "Relu")
      return KnownList();
    bool isSigned = x.dtype == DType::I64 || x.dtype == DType::I32 || x.dtype == DType::I16 ||
                    x.dtype == DType::I8;
    for (int64_t v : x.ints) {
      bool negative = isSigned && v < 0;
      int64_t minus = static_cast<int64_t>(0 - static_cast<uint64_t>(v));
      int64_t r = op == "Neg"    ? minus
                  : op == "Abs"  ? (negative ? minus : v)
                  : op == "Sign" ? (negative ? -1 : v != 0)
                  : op == "Not"  ? v == 0
                                 : (negative ? 0 : v);
      out.ints.push_back(wrapTo(x.dtype, r));
    }
    return KnownList{share(std::move(out))};
  }
  double (*f)(double) = nullptr;
  if (op == "Neg")
    f = [](double v) { return -v; };
  else if (op == "Abs")
    f = [](double v) { return std::fabs(v); };
  else if (op == "Sign")
    f = [](double v) { return v > 0 ? 1.0 : v < 0 ? -1.0 : v; };
  else if (op == "Exp")
    f = [](double v) { return std::exp(v); };
  else if (op == "Log")
    f = [](double v) { return std::log(v); };
  else if (op == "Sqrt")
    f = [](double v) { return std::sqrt(v); };
  else if (op == "Reciprocal")
    f = [](double v) { return 1 / v; };
  else if (op == "Tanh")
    f = [](double v) { return std::tanh(v); };
  else if (op == "Sigmoid")
    f = [](double v) { return 1 / (1 + std::exp(-v)); };
  else if (op == "Erf")
    f = [](double v) { return std::erf(v); };
  else if (op == "Sin")
    f = [](double v) { return std::sin(v); };
  else if (op == "Cos")
    f = [](double v) { return std::cos(v); };
  else if (op == "Floor")
    f = [](double v) { return std::floor(v); };
  else if (op == "Ceil")
    f = [](double v) { return std::ceil(v); };
  else if (op == "Round")
    f = [](double v) { return std::nearbyint(v); };
  else if (op == "Relu")
    f = [](double v) { return v > 0 ? v : v == v ? 0.0 : v; };
  if (!f)
    return KnownList();
  for (double v : x.floats)
    out.floats.push_back(roundTo(x.dtype, f(v)));
  return KnownList{share(std::move(out))};
}

static int64_t powInt(int64_t b, int64_t e) {
  if (e < 0)
    return b == 1 ? 1 : b == -1 ? (e % 2 ? -1 : 1) : 0;
  uint64_t r = 1, x = static_cast<uint64_t>(b);
  for (; e; e >>= 1, x *= x)
    if (e & 1)
      r *= x;
  return static_cast<int64_t>(r);
}

// Looked up once per node, not per element.
enum class Bin { Add, Sub, Mul, Div, Mod, Pow, Max, Min, Eq, Lt, Le, Gt, Ge, And, Or, Xor };

static Bin binOp(const std::string &op) {
  static const std::pair<const char *, Bin> kOps[] = {
      {"Add", Bin::Add},    {"Sum", Bin::Add},
      {"Sub", Bin::Sub},    {"Mul", Bin::Mul},
      {"Div", Bin::Div},    {"Mod", Bin::Mod},
      {"Pow", Bin::Pow},    {"Max", Bin::Max},
      {"Min", Bin::Min},    {"Equal", Bin::Eq},
      {"Less", Bin::Lt},    {"LessOrEqual", Bin::Le},
      {"Greater", Bin::Gt}, {"GreaterOrEqual", Bin::Ge},
      {"And", Bin::And},    {"Or", Bin::Or},
      {"Xor", Bin::Xor}};
  for (auto &[name, bin] : kOps)
    if (op == name)
      return bin;
  assert(false && "a row of OnnxOps.def names evalBinary for another operator");
  return Bin::Add;
}

// Integer results; false for division by zero.
static bool intOp(Bin op, DType t, bool fmod, int64_t a, int64_t b, int64_t &r) {
  bool big = t == DType::U64;
  uint64_t ua = static_cast<uint64_t>(a), ub = static_cast<uint64_t>(b);
  auto less = [&](int64_t x, int64_t y) {
    return big ? static_cast<uint64_t>(x) < static_cast<uint64_t>(y) : x < y;
  };
  switch (op) {
  case Bin::Add:
    r = static_cast<int64_t>(ua + ub);
    break;
  case Bin::Sub:
    r = static_cast<int64_t>(ua - ub);
    break;
  case Bin::Mul:
    r = static_cast<int64_t>(ua * ub);
    break;
  case Bin::Div:
  case Bin::Mod:
    if (b == 0)
      return false;
    if (big)
      r = static_cast<int64_t>(op == Bin::Div ? ua / ub : ua % ub);
    else if (b == -1)
      r = op == Bin::Div ? static_cast<int64_t>(0 - ua) : 0;
    else if (op == Bin::Div)
      r = a / b;
    else {
      r = a % b;
      if (!fmod && r != 0 && (r < 0) != (b < 0)) // Mod takes the divisor's sign
        r += b;
    }
    break;
  case Bin::Pow:
    r = powInt(a, b);
    break;
  case Bin::Max:
    r = less(a, b) ? b : a;
    break;
  case Bin::Min:
    r = less(b, a) ? b : a;
    break;
  case Bin::Eq:
    r = a == b;
    break;
  case Bin::Lt:
    r = less(a, b);
    break;
  case Bin::Le:
    r = !less(b, a);
    break;
  case Bin::Gt:
    r = less(b, a);
    break;
  case Bin::Ge:
    r = !less(a, b);
    break;
  case Bin::And:
    r = a && b;
    break;
  case Bin::Or:
    r = a || b;
    break;
  case Bin::Xor:
    r = (a != 0) != (b != 0);
    break;
  }
  return true;
}

static double floatOp(Bin op, double a, double b) {
  switch (op) {
  case Bin::Add:
    return a + b;
  case Bin::Sub:
    return a - b;
  case Bin::Mul:
    return a * b;
  case Bin::Div:
    return a / b;
  case Bin::Pow:
    return std::pow(a, b);
  case Bin::Mod:
    return std::fmod(a, b);
  case Bin::Max:
  case Bin::Min:
    if (a != a || b != b)
      return a != a ? a : b;
    return op == Bin::Max ? std::max(a, b) : std::min(a, b);
  case Bin::Eq:
    return a == b;
  case Bin::Lt:
    return a < b;
  case Bin::Le:
    return a <= b;
  case Bin::Gt:
    return a > b;
  case Bin::Ge:
    return a >= b;
  default:
    return 0; // logic on floats is refused before
  }
}

static bool isComparison(Bin op) { return op >= Bin::Eq; }

static EvalResult binary(const OnnxNode &n, KnownRef a, KnownRef b) {
  Bin op = binOp(n.op());
  std::optional<Dims> dims = broadcast(a->dims, b->dims);
  if (!dims)
    return evalError(n, "shapes " + dimsText(a->dims) + " and " + dimsText(b->dims) +
                            " do not broadcast");
  if (a->dtype != b->dtype) {
    if (op != Bin::Pow)
      return evalError(n, "element types differ: " + std::string(text(a->dtype)) + " and " +
                              std::string(text(b->dtype)));
    return KnownList();
  }
  std::optional<Dims> stored = broadcast(a->stored, b->stored);
  if (!stored || product(*stored) > kMaxComputed)
    return KnownList();
  Known out;
  out.dims = *dims;
  bool compare = isComparison(op);
  out.dtype = compare ? DType::Bool : a->dtype;
  bool zero = false, fmod = n.i("fmod", 0) != 0;
  if (a->floating()) {
    if (op >= Bin::And)
      return evalError(n, "expected bool inputs");
    forEachBroadcast({a.get(), b.get()}, out, [&](int64_t, const int64_t *at) {
      double r = floatOp(op, a->floats[at[0]], b->floats[at[1]]);
      if (compare)
        out.ints.push_back(r != 0);
      else
        out.floats.push_back(roundTo(out.dtype, r));
    });
  } else {
    forEachBroadcast({a.get(), b.get()}, out, [&](int64_t, const int64_t *at) {
      int64_t r = 0;
      zero |= !intOp(op, a->dtype, fmod, a->ints[at[0]], b->ints[at[1]], r);
      out.ints.push_back(wrapTo(out.dtype, r));
    });
  }
  if (zero)
    return evalError(n, "integer division by zero");
  return KnownList{out.storedElems() <= kMaxCompress ? compressed(std::move(out))
                                                     : share(std::move(out))};
}

// Also the variadic Max, Min and Sum.
EvalResult evalBinary(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty())
    return evalError(n, "expected inputs");
  for (const KnownRef &k : in)
    if (!k)
      return evalError(n, "an input is missing");
  KnownRef r = in[0];
  for (size_t i = 1; i < in.size(); ++i) {
    TRY_ASSIGN(KnownList out, binary(n, r, in[i]));
    if (out.empty())
      return KnownList();
    r = out[0];
  }
  return KnownList{r};
}

EvalResult evalWhere(const OnnxNode &n, const KnownList &in, int) {
  if (in.size() != 3 || !in[0] || !in[1] || !in[2])
    return evalError(n, "expected three inputs");
  const Known &c = *in[0], &x = *in[1], &y = *in[2];
  std::optional<Dims> dims = broadcast(x.dims, y.dims);
  dims = dims ? broadcast(*dims, c.dims) : dims;
  if (!dims)
    return evalError(n, "shapes " + dimsText(c.dims) + ", " + dimsText(x.dims) + " and " +
                            dimsText(y.dims) + " do not broadcast");
  if (x.dtype != y.dtype || c.dtype != DType::Bool)
    return evalError(n, "expected a bool condition and two inputs of one type");
  std::optional<Dims> stored = broadcast(x.stored, y.stored);
  stored = stored ? broadcast(*stored, c.stored) : stored;
  if (!stored || product(*stored) > kMaxComputed)
    return KnownList();
  Known out;
  out.dims = *dims;
  out.dtype = x.dtype;
  forEachBroadcast({&c, &x, &y}, out, [&](int64_t, const int64_t *at) {
    if (x.floating())
      out.floats.push_back(c.ints[at[0]] ? x.floats[at[1]] : y.floats[at[2]]);
    else
      out.ints.push_back(c.ints[at[0]] ? x.ints[at[1]] : y.ints[at[2]]);
  });
  return KnownList{compressed(std::move(out))};
}

EvalResult evalClip(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0] || in[0]->floating())
    return KnownList(); // floats are left to the program: their bounds are never shapes
  for (size_t i = 1; i < in.size(); ++i)
    if (in[i] && (in[i]->dtype != in[0]->dtype || in[i]->elems() != 1))
      return evalError(n, "bound " + std::to_string(i) + " is " + std::string(text(in[i]->dtype)) +
                              dimsText(in[i]->dims) + ", expected one " +
                              std::string(text(in[0]->dtype)));
  Known out = *in[0];
  for (int64_t &v : out.ints) {
    if (in.size() > 1 && in[1])
      intOp(Bin::Max, out.dtype, false, v, in[1]->ints[0], v);
    if (in.size() > 2 && in[2])
      intOp(Bin::Min, out.dtype, false, v, in[2]->ints[0], v);
  }
  return KnownList{share(std::move(out))};
}

// Cast and CastLike.
EvalResult evalCast(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0] || (n.op() == "CastLike" && (in.size() < 2 || !in[1])))
    return evalError(n, "an input is missing");
  DType to = DType::F32;
  if (n.op() == "CastLike") {
    to = in[1]->dtype;
  } else {
    TRY_ASSIGN(to, coreType(static_cast<int>(n.i("to", 0))));
  }
  const Known &x = *in[0];
  if (x.dtype == to)
    return KnownList{in[0]};
  Known out = like(x, to);
  if (!x.floating() && !out.floating()) {
    for (int64_t v : x.ints)
      out.ints.push_back(wrapTo(to, v));
  } else if (x.floating() && out.floating()) {
    for (double v : x.floats)
      out.floats.push_back(roundTo(to, v));
  } else if (out.floating()) {
    for (int64_t v : x.ints)
      out.floats.push_back(roundTo(to, x.dtype == DType::U64
                                           ? static_cast<double>(static_cast<uint64_t>(v))
                                           : static_cast<double>(v)));
  } else {
    for (double v : x.floats) {
      if (to != DType::Bool && !(std::fabs(v) < 9.2e18))
        return evalError(n, "cannot convert " + doubleText(v) + " to " + std::string(text(to)));
      out.ints.push_back(to == DType::Bool ? v != 0 : wrapTo(to, static_cast<int64_t>(v)));
    }
  }
  return KnownList{share(std::move(out))};
}

EvalResult evalReduce(const OnnxNode &n, const KnownList &in, int) {
  if (in.empty() || !in[0])
    return evalError(n, "an input is missing");
  if (in[0]->elems() > kMaxKnown)
    return KnownList();
  Known x = expanded(*in[0]);
  int64_t rank = static_cast<int64_t>(x.dims.size());
  TRY_ASSIGN(auto axes, evalAxes(n, in, 1, rank));
  if (!axes || axes->empty()) {
    if (n.i("noop_with_empty_axes", 0))
      return KnownList{in[0]};
    axes.emplace();
    for (int64_t a = 0; a < rank; ++a)
      axes->push_back(a);
  }
  Dims kept = x.dims, shape;
  for (int64_t a : *axes)
    kept[a] = 1;
  bool keepdims = n.i("keepdims", 1) != 0;
  for (int64_t a = 0; a < rank; ++a)
    if (keepdims || !std::binary_search(axes->begin(), axes->end(), a))
      shape.push_back(kept[a]);
  const std::string &op = n.op();
  bool sum = op == "ReduceSum", prod = op == "ReduceProd", max = op == "ReduceMax";
  if (!sum && !prod && product(x.dims) == 0)
    return evalError(n, "has no elements to reduce");
  Known out;
  out.dtype = x.dtype;
  out.dims = out.stored = shape;
  size_t count = static_cast<size_t>(product(shape));
  Dims keptStrides = stridesOf(kept), strides = stridesOf(x.dims);
  std::vector<bool> seen(count);
  if (x.floating())
    out.floats.assign(count, prod ? 1 : 0);
  else
    out.ints.assign(count, prod ? 1 : 0);
  for (int64_t i = 0; i < product(x.dims); ++i) {
    int64_t to = 0;
    for (int64_t a = 0; a < rank; ++a)
      to += kept[a] == 1 ? 0 : i / strides[a] % x.dims[a] * keptStrides[a];
    if (x.floating()) {
      double v = x.floats[i], &r = out.floats[to];
      r = sum ? r + v : prod ? r * v : !seen[to] ? v : max ? std::max(r, v) : std::min(r, v);
    } else {
      int64_t v = x.ints[i], &r = out.ints[to];
      uint64_t ur = static_cast<uint64_t>(r), uv = static_cast<uint64_t>(v);
      r = sum         ? static_cast<int64_t>(ur + uv)
          : prod      ? static_cast<int64_t>(ur * uv)
          : !seen[to] ? v
          : max       ? std::max(r, v)
                      : std::min(r, v);
    }
    seen[to] = true;
  }
  for (double &v : out.floats)
    v = roundTo(out.dtype, v);
  for (int64_t &v : out.ints)
    v = wrapTo(out.dtype, v);
  return KnownList{compressed(std::move(out))};
}

} // namespace ds
