// SPDX-License-Identifier: Apache-2.0
#include "test/bench/KernelShapes.h"

#include <algorithm>

namespace ds::test {

namespace {

using Dims = std::vector<int64_t>;

Tensor like(Dims dims, DType t = DType::F32) { return {t, std::move(dims), {}, Layout::Dense}; }
Tensor scalarOf(double v, DType t = DType::F64, Dims dims = {}) {
  return tensor(t, std::move(dims), [=] { return v; });
}

struct Maker {
  int64_t batch, seq, width, heads, vocab, head, rows;
  Dims x, hidden, scores, q;
  double gemm, attention; // flops: of a product of x with one column; of scores

  explicit Maker(const Gpt2Shape &s)
      : batch(s.batch), seq(s.seq), width(s.width), heads(s.heads), vocab(s.vocab),
        head(width / heads), rows(batch * seq), x{batch, seq, width}, hidden{batch, seq, 4 * width},
        scores{batch, heads, seq, seq}, q{batch, heads, seq, head},
        gemm(2.0 * static_cast<double>(rows * width)),
        attention(2.0 * static_cast<double>(batch * heads * seq * seq * head)) {}

  /// Repeats after a while.
  Tensor numbers(Dims dims, double low = -1, double high = 1, DType t = DType::F32) const {
    constexpr size_t kPeriod = 65537;
    uint64_t seed = 88172645463325252u;
    Tensor out{t, std::move(dims), {}, Layout::Dense};
    out.values.resize(std::min(static_cast<size_t>(out.elems()), kPeriod));
    for (double &v : out.values) {
      seed ^= seed << 13;
      seed ^= seed >> 7;
      seed ^= seed << 17;
      v = low + (high - low) * static_cast<double>(seed >> 11) / 9007199254740992.0;
      if (!isFloat(t))
        v = static_cast<double>(static_cast<int64_t>(v));
    }
    return out;
  }
  KernelCase unary(const char *op, Dims d, Attrs a = {}) const {
    return {"", op, std::move(a), {numbers(d, -3, 3)}, {like(d)}, {}, {}};
  }
  KernelCase binary(const char *op, Dims a, Dims b, Attrs attrs = {}) const {
    return {"", op, std::move(attrs), {numbers(a), numbers(b)}, {like(a)}, {}, {}};
  }
  KernelCase matmul(Dims a, Dims b, Dims out, bool ta = false, bool tb = false) const {
    return {"",
            "matmul",
            Attrs{{"trans_a", ta}, {"trans_b", tb}},
            {numbers(a), numbers(b)},
            {like(out)},
            {},
            {}};
  }
};

struct List {
  std::vector<ShapeCase> cases;
  void add(std::string name, std::function<KernelCase()> make, double flops = 0) {
    cases.push_back({std::move(name), std::move(make), flops});
  }
};

} // namespace

static void products(const Maker &m, List &list) {
  list.add(
      "matmul qkv x W",
      [m] {
        return m.matmul(m.x, {m.width, 3 * m.width}, {m.batch, m.seq, 3 * m.width});
      },
      m.gemm * 3 * static_cast<double>(m.width));
  list.add(
      "matmul proj x W",
      [m] {
        return m.matmul(m.x, {m.width, m.width}, m.x);
      },
      m.gemm * static_cast<double>(m.width));
  list.add(
      "matmul fc x W",
      [m] {
        return m.matmul(m.x, {m.width, 4 * m.width}, m.hidden);
      },
      m.gemm * 4 * static_cast<double>(m.width));
  list.add(
      "matmul fcproj x W",
      [m] {
        return m.matmul(m.hidden, {4 * m.width, m.width}, m.x);
      },
      m.gemm * 4 * static_cast<double>(m.width));
  list.add(
      "matmul fc dy W^T",
      [m] {
        return m.matmul(m.hidden, {m.width, 4 * m.width}, m.x, false, true);
      },
      m.gemm * 4 * static_cast<double>(m.width));
  list.add(
      "matmul fc x^T dy",
      [m] {
        return m.matmul({m.rows, m.width}, {m.rows, 4 * m.width}, {m.width, 4 * m.width}, true);
      },
      m.gemm * 4 * static_cast<double>(m.width));
  list.add(
      "matmul head x W^T",
      [m] {
        return m.matmul(m.x, {m.vocab, m.width}, {m.batch, m.seq, m.vocab}, false, true);
      },
      m.gemm * static_cast<double>(m.vocab));
  list.add(
      "matmul head dy W",
      [m] {
        return m.matmul({m.batch, m.seq, m.vocab}, {m.vocab, m.width}, m.x);
      },
      m.gemm * static_cast<double>(m.vocab));
  list.add(
      "matmul head dy^T x",
      [m] {
        return m.matmul({m.rows, m.vocab}, {m.rows, m.width}, {m.vocab, m.width}, true);
      },
      m.gemm * static_cast<double>(m.vocab));
  list.add(
      "matmul q k^T", [m] { return m.matmul(m.q, m.q, m.scores, false, true); }, m.attention);
  list.add(
      "matmul p v", [m] { return m.matmul(m.scores, m.q, m.q); }, m.attention);
  list.add(
      "matmul p^T dy", [m] { return m.matmul(m.scores, m.q, m.q, true); }, m.attention);
}

// With a causal mask: half of the scores.
static void attention(const Maker &m, List &list) {
  const Attrs attrs{{"scale", 0.125}, {"causal", true}, {"rows_first", false}};
  const Dims lse{m.batch, m.heads, m.seq};
  list.add(
      "attention",
      [m, attrs, lse] {
        return KernelCase{"",
                          "attention",
                          attrs,
                          {m.numbers(m.q), m.numbers(m.q), m.numbers(m.q)},
                          {like(m.q), like(lse)},
                          {},
                          {}};
      },
      m.attention);
  list.add(
      "attention_grad",
      [m, attrs, lse] {
        return KernelCase{"",
                          "attention_grad",
                          attrs,
                          {m.numbers(m.q), m.numbers(m.q), m.numbers(m.q), m.numbers(m.q),
                           m.numbers(m.q), m.numbers(lse, 4, 7)},
                          {like(m.q), like(m.q), like(m.q)},
                          {},
                          {}};
      },
      2.5 * m.attention);
}

static void elements(const Maker &m, List &list) {
  list.add("add residual", [m] { return m.binary("add", m.x, m.x); });
  list.add("add bias", [m] { return m.binary("add", m.hidden, {4 * m.width}); });
  list.add("mul scalar", [m] { return m.binary("mul", m.scores, {}); });
  list.add("add mask", [m] { return m.binary("add", m.scores, {1, 1, m.seq, m.seq}); });
  list.add("gelu tanh", [m] { return m.unary("gelu", m.hidden, Attrs{{"tanh", true}}); });
  list.add("gelu erf", [m] { return m.unary("gelu", m.hidden); });
  list.add("gelu_grad tanh", [m] {
    return m.binary("gelu_grad", m.hidden, m.hidden, Attrs{{"tanh", true}});
  });
  list.add("tanh", [m] { return m.unary("tanh", m.hidden); });
  list.add("exp", [m] { return m.unary("exp", m.hidden); });
  list.add("erf", [m] { return m.unary("erf", m.hidden); });
  list.add("pow 3", [m] {
    return KernelCase{
        "", "pow", {}, {m.numbers(m.hidden), scalarOf(3, DType::F32)}, {like(m.hidden)}, {}, {}};
  });
  list.add("where mask", [m] {
    return KernelCase{"",
                      "where",
                      {},
                      {m.numbers({1, 1, m.seq, m.seq}, 0, 2, DType::Bool), m.numbers(m.scores),
                       scalarOf(-1e9, DType::F32)},
                      {like(m.scores)},
                      {},
                      {}};
  });
}

static void rows(const Maker &m, List &list) {
  list.add("softmax", [m] { return m.unary("softmax", m.scores); });
  list.add("softmax_grad", [m] { return m.binary("softmax_grad", m.scores, m.scores); });
  list.add("layer_norm", [m] {
    return KernelCase{"",
                      "layer_norm",
                      {},
                      {m.numbers(m.x), m.numbers({m.width}), m.numbers({m.width})},
                      {like(m.x), like({m.batch, m.seq}), like({m.batch, m.seq})},
                      {},
                      {}};
  });
  list.add("layer_norm_grad", [m] {
    return KernelCase{"",
                      "layer_norm_grad",
                      {},
                      {m.numbers(m.x), m.numbers(m.x), m.numbers({m.width}),
                       m.numbers({m.batch, m.seq}), m.numbers({m.batch, m.seq}, 1, 2)},
                      {like(m.x), like({m.width}), like({m.width})},
                      {},
                      {}};
  });
  list.add("reduce_sum rows", [m] {
    return KernelCase{"",
                      "reduce_sum",
                      Attrs{{"axes", Dims{0, 1}}},
                      {m.numbers(m.hidden)},
                      {like({4 * m.width})},
                      {},
                      {}};
  });
  list.add("reduce_sum last", [m] {
    return KernelCase{"",
                      "reduce_sum",
                      Attrs{{"axes", Dims{3}}},
                      {m.numbers(m.scores)},
                      {like({m.batch, m.heads, m.seq})},
                      {},
                      {}};
  });
  list.add("reduce_max last", [m] {
    return KernelCase{"",
                      "reduce_max",
                      Attrs{{"axes", Dims{3}}},
                      {m.numbers(m.scores)},
                      {like({m.batch, m.heads, m.seq})},
                      {},
                      {}};
  });
}

static void moves(const Maker &m, List &list) {
  list.add("transpose 0213", [m] {
    return KernelCase{"",
                      "transpose",
                      Attrs{{"perm", Dims{0, 2, 1, 3}}},
                      {m.numbers({m.batch, m.seq, m.heads, m.head})},
                      {like(m.q)},
                      {},
                      {}};
  });
  list.add("transpose 0132", [m] {
    return KernelCase{"",
                      "transpose",
                      Attrs{{"perm", Dims{0, 1, 3, 2}}},
                      {m.numbers(m.q)},
                      {like({m.batch, m.heads, m.head, m.seq})},
                      {},
                      {}};
  });
  list.add("slice qkv", [m] {
    return KernelCase{"",
                      "slice",
                      Attrs{{"starts", Dims{0, 0, m.width}},
                            {"limits", Dims{m.batch, m.seq, 2 * m.width}},
                            {"strides", Dims{1, 1, 1}}},
                      {m.numbers({m.batch, m.seq, 3 * m.width})},
                      {like(m.x)},
                      {},
                      {}};
  });
  list.add("concat qkv", [m] {
    return KernelCase{"",
                      "concat",
                      Attrs{{"axis", int64_t(2)}},
                      {m.numbers(m.x), m.numbers(m.x), m.numbers(m.x)},
                      {like({m.batch, m.seq, 3 * m.width})},
                      {},
                      {}};
  });
  list.add("gather tokens", [m] {
    return KernelCase{"",
                      "gather",
                      {},
                      {m.numbers({m.vocab, m.width}),
                       m.numbers({m.batch, m.seq}, 0, static_cast<double>(m.vocab), DType::I64)},
                      {like(m.x)},
                      {},
                      {}};
  });
  list.add("gather_grad tokens", [m] {
    return KernelCase{
        "",
        "gather_grad",
        Attrs{{"dims", Dims{m.vocab, m.width}}},
        {m.numbers(m.x), m.numbers({m.batch, m.seq}, 0, static_cast<double>(m.vocab), DType::I64)},
        {like({m.vocab, m.width})},
        {},
        {}};
  });
}

static void lossAndUpdate(const Maker &m, List &list) {
  list.add("cross_entropy", [m] {
    return KernelCase{"",
                      "cross_entropy",
                      {},
                      {m.numbers({m.batch, m.seq, m.vocab}),
                       m.numbers({m.batch, m.seq}, 0, static_cast<double>(m.vocab), DType::I64),
                       scalarOf(1.0 / static_cast<double>(m.rows))},
                      {like({}), like({m.batch, m.seq})},
                      {},
                      {}};
  });
  list.add("cross_entropy_grad", [m] {
    return KernelCase{"",
                      "cross_entropy_grad",
                      {},
                      {m.numbers({m.batch, m.seq, m.vocab}),
                       m.numbers({m.batch, m.seq}, 0, static_cast<double>(m.vocab), DType::I64),
                       m.numbers({m.batch, m.seq}, 10, 12),
                       scalarOf(1.0 / static_cast<double>(m.rows))},
                      {like({m.batch, m.seq, m.vocab})},
                      {},
                      {}};
  });
  list.add("accumulate", [m] {
    return KernelCase{"",
                      "accumulate",
                      {},
                      {m.numbers({m.vocab * m.width}), m.numbers({m.vocab * m.width})},
                      {like({m.vocab * m.width})},
                      {0},
                      {}};
  });
  list.add("sum_squares", [m] {
    return KernelCase{
        "", "sum_squares", {}, {m.numbers({m.vocab * m.width})}, {like({67}, DType::I64)}, {}, {}};
  });
  list.add("adam", [m] {
    Dims n = {m.vocab * m.width};
    return KernelCase{"",
                      "adam",
                      {},
                      {m.numbers(n), m.numbers(n), m.numbers(n), m.numbers(n, 0, 1),
                       scalarOf(1e-3, DType::F64, {1}), scalarOf(0.1, DType::F64, {1}), scalarOf(1),
                       scalarOf(0, DType::Bool), scalarOf(0.9), scalarOf(0.999)},
                      {like(n), like(n), like(n)},
                      {1, 2, 3},
                      {}};
  });
}

std::vector<ShapeCase> gpt2Kernels(const Gpt2Shape &shape) {
  const Maker m(shape);
  List list;
  for (auto *group : {products, attention, elements, rows, moves, lossAndUpdate})
    group(m, list);
  return std::move(list.cases);
}

double bytesOf(const KernelCase &c) {
  int64_t bytes = 0;
  for (const auto *list : {&c.ins, &c.outs})
    for (const Tensor &t : *list)
      bytes += t.elems() * byteSize(t.dtype);
  return static_cast<double>(bytes);
}

} // namespace ds::test
