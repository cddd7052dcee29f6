// SPDX-License-Identifier: Apache-2.0
#include "test/unit/OpHarness.h"

#include "ir/Shapes.h"
#include "runtime/Convert.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <random>

namespace ds::optest {

static void put(DType t, void *data, int64_t i, double v) {
  convert(t, static_cast<uint8_t *>(data) + i * byteSize(t), DType::F64, &v, 1);
}

static int64_t product(const Dims &d) {
  int64_t n = 1;
  for (int64_t x : d)
    n *= x;
  return n;
}

Tensor::Tensor(DType t, Dims d, std::vector<double> values)
    : dtype(t), dims(std::move(d)), v(std::move(values)) {
  EXPECT_EQ(product(dims), elems());
}

double Tensor::at(const Dims &index) const {
  int64_t n = 0;
  for (size_t i = 0; i < dims.size(); ++i)
    n = n * dims[i] + index[i];
  return v[n];
}

Tensor scalar(double v) { return {DType::F64, {}, {v}}; }
Tensor flagTensor(bool v) { return {DType::Bool, {}, {v ? 1.0 : 0.0}}; }

void forEachIndex(const Dims &d, const std::function<void(const Dims &)> &f) {
  Dims index(d.size());
  for (int64_t n = 0; n < product(d); ++n) {
    int64_t rest = n;
    for (size_t i = d.size(); i-- > 0;) {
      index[i] = rest % d[i];
      rest /= d[i];
    }
    f(index);
  }
}

Tensor tabulate(DType t, Dims d, const std::function<double(const Dims &)> &f) {
  std::vector<double> v;
  forEachIndex(d, [&](const Dims &index) {
    uint64_t stored = 0;
    put(t, &stored, 0, f(index));
    v.push_back(toDouble(t, &stored, 0));
  });
  return {t, std::move(d), std::move(v)};
}

Tensor uniform(DType t, Dims d, uint32_t seed, double low, double high) {
  std::mt19937 engine(seed);
  return tabulate(t, std::move(d), [&](const Dims &) {
    double v = low + static_cast<double>(engine()) / 4294967296.0 * (high - low);
    return isFloat(t) ? v : std::floor(v);
  });
}

Dims broadcastIndex(const Dims &index, const Dims &dims) {
  Dims out(dims.size());
  for (size_t i = 0; i < dims.size(); ++i)
    out[i] = dims[i] == 1 ? 0 : index[index.size() - dims.size() + i];
  return out;
}

namespace {

/// A tensor in memory: row-major, or with the axes' order turned round, gaps between elements and an offset.
struct Memory {
  static constexpr uint64_t kPattern = 0x7ff4dead7ff4dead; // NaN in every float type
  DType dtype;
  Dims dims, strides;
  std::vector<uint64_t> words;
  int64_t offset = 0, slots = 1;

  Memory(DType t, const Dims &d, bool strided) : dtype(t), dims(d), strides(d.size()) {
    int64_t step = strided ? 2 : 1;
    for (size_t k = 0; k < d.size(); ++k) {
      size_t axis = strided ? k : d.size() - 1 - k;
      strides[axis] = step;
      step *= std::max<int64_t>(d[axis], 1);
    }
    offset = strided ? 3 : 0;
    slots = step + offset + 1;
    words.assign(slots * byteSize(t) / 8 + 1, kPattern);
  }

  uint8_t *data() { return reinterpret_cast<uint8_t *>(words.data()) + offset * byteSize(dtype); }
  int64_t at(const Dims &index) const {
    int64_t n = 0;
    for (size_t i = 0; i < dims.size(); ++i)
      n += index[i] * strides[i];
    return n;
  }
  void write(const Tensor &t) {
    forEachIndex(dims, [&](const Dims &i) { put(dtype, data(), at(i), t.at(i)); });
  }
  Tensor read() {
    std::vector<double> v;
    forEachIndex(dims, [&](const Dims &i) { v.push_back(toDouble(dtype, data(), at(i))); });
    return {dtype, dims, std::move(v)};
  }
  bool gapsIntact() {
    std::vector<bool> used(slots);
    forEachIndex(dims, [&](const Dims &i) { used[offset + at(i)] = true; });
    std::vector<uint64_t> pattern(words.size(), kPattern);
    auto *have = reinterpret_cast<uint8_t *>(words.data());
    auto *want = reinterpret_cast<uint8_t *>(pattern.data());
    int64_t size = byteSize(dtype);
    for (int64_t i = 0; i < slots; ++i)
      if (!used[i] && std::memcmp(have + i * size, want + i * size, size))
        return false;
    return true;
  }
  DsTensor tensor(bool withData) {
    return {withData ? data() : nullptr, dims.data(), strides.data(),
            static_cast<int32_t>(dims.size()), static_cast<uint8_t>(dtype)};
  }
};

std::vector<DsAttr> kernelAttrs(const OpInfo &op, const Attrs &attrs) {
  std::vector<DsAttr> list;
  for (const AttrSpec &spec : op.attrs) {
    DsAttr a = {};
    a.name = spec.name.c_str();
    a.kind = spec.kind;
    const AttrValue &v = *attrs.find(spec.name);
    if (auto *b = std::get_if<bool>(&v))
      a.i = *b;
    else if (auto *n = std::get_if<int64_t>(&v))
      a.i = *n;
    else if (auto *f = std::get_if<double>(&v))
      a.f = *f;
    else if (auto *s = std::get_if<std::string>(&v))
      a.s = s->c_str();
    else if (auto *l = std::get_if<std::vector<int64_t>>(&v)) {
      a.list = l->data();
      a.count = static_cast<int64_t>(l->size());
    }
    list.push_back(a);
  }
  return list;
}

struct Runner {
  const Call &call;
  const OpInfo &op;
  const Attrs &attrs;
  const std::vector<Type> &outTypes;
  const DsKernel &kernel;

  /// Whether result 0 may lie where the operand does, and both have one layout.
  bool mayLieOver(size_t in) const {
    const Tensor &t = call.ins[in];
    return mayOverwrite(op.kind, static_cast<int>(in)) && t.dims == outTypes[0].dims &&
           byteSize(t.dtype) == byteSize(outTypes[0].dtype);
  }

  /// over: the operand that result 0 lies over, or -1.
  Outcome once(bool strided, int over = -1) {
    std::vector<Memory> ins, outs;
    for (const Tensor &t : call.ins) {
      ins.emplace_back(t.dtype, t.dims, strided);
      ins.back().write(t);
    }
    for (const Type &t : outTypes)
      outs.emplace_back(t.dtype, t.dims, strided);
    auto target = [&](size_t r) -> Memory & {
      int tied = tiedOperand(op.kind, static_cast<int>(r), static_cast<int>(ins.size()));
      return tied >= 0 ? ins[tied] : r == 0 && over >= 0 ? ins[over] : outs[r];
    };
    std::vector<DsAttr> list = kernelAttrs(op, attrs);
    std::vector<DsTensor> in, out;
    std::vector<const DsRun *> runs;
    std::vector<int32_t> numRuns;
    for (const auto &r : call.runs) {
      runs.push_back(r.data());
      numRuns.push_back(static_cast<int32_t>(r.size()));
    }
    for (Memory &m : ins)
      in.push_back(m.tensor(false));
    for (size_t r = 0; r < outs.size(); ++r) {
      out.push_back(target(r).tensor(false));
      out[r].dtype = static_cast<uint8_t>(outTypes[r].dtype);
    }
    DsLaunch launch = {};
    launch.ins = in.data();
    launch.outs = out.data();
    launch.numIns = static_cast<int32_t>(ins.size());
    launch.numOuts = static_cast<int32_t>(outs.size());
    launch.numAttrs = static_cast<int32_t>(list.size());
    launch.attrs = list.data();
    launch.runs = runs.empty() ? nullptr : runs.data();
    launch.numRuns = runs.empty() ? nullptr : numRuns.data();
    launch.threads = launch.world = 1;
    void *state = nullptr;
    launch.workBytes = kernel.work ? kernel.work(&launch) : 0;
    if (kernel.prepare)
      if (const char *error = kernel.prepare(&launch, &state))
        return {error};
    std::vector<uint8_t> work(launch.workBytes + 256);
    launch.work = reinterpret_cast<void *>((reinterpret_cast<uintptr_t>(work.data()) + 255) &
                                           ~uintptr_t(255));
    for (size_t i = 0; i < ins.size(); ++i)
      in[i] = ins[i].tensor(true);
    for (size_t r = 0; r < outs.size(); ++r) {
      out[r] = target(r).tensor(true);
      out[r].dtype = static_cast<uint8_t>(outTypes[r].dtype);
    }
    const char *error = kernel.run(&launch, state);
    Outcome o = {error ? error : ""};
    if (kernel.destroy)
      kernel.destroy(state);
    for (size_t r = 0; r < outs.size(); ++r) {
      target(r).dtype = outTypes[r].dtype;
      o.outs.push_back(target(r).read());
      o.sameStrided = o.sameStrided && target(r).gapsIntact();
    }
    return o;
  }
};

bool same(double a, double b) { return a == b || (std::isnan(a) && std::isnan(b)); }

} // namespace

Outcome run(const Call &call) {
  const OpInfo &op = info(call.op);
  Attrs attrs = call.attrs;
  if (Status s = completeAttrs(attrs, op.attrs, op.text); !s.ok())
    return {s.str()};
  std::vector<Type> in, outTypes;
  for (const Tensor &t : call.ins)
    in.emplace_back(t.dtype, t.dims);
  if (Status s = inferShape({call.op, in, attrs, {}, outTypes}); !s.ok())
    return {s.str()};
  DType first = in.empty() ? outTypes[0].dtype : in[0].dtype;
  const DsKernel *kernel = findKernel(call.table, std::string(op.text).c_str(), first);
  if (!kernel)
    return {"no kernel for " + std::string(text(first))};
  Runner runner{call, op, attrs, outTypes, *kernel};
  Outcome o = runner.once(false);
  auto agrees = [&](const Outcome &other) {
    bool equal = other.sameStrided && other.error == o.error;
    for (size_t r = 0; o.error.empty() && r < other.outs.size(); ++r)
      for (int64_t i = 0; i < other.outs[r].elems(); ++i)
        equal = equal && same(other.outs[r].v[i], o.outs[r].v[i]);
    return equal;
  };
  for (size_t in = 0; in < call.ins.size(); ++in)
    if (runner.mayLieOver(in) && o.error.empty())
      o.sameInPlace = o.sameInPlace && agrees(runner.once(false, static_cast<int>(in)));
  if (call.stridedToo)
    o.sameStrided = o.sameStrided && agrees(runner.once(true));
  return o;
}

Tensor run1(OpKind op, std::vector<Tensor> ins, Attrs attrs) {
  Outcome o = run({op, std::move(attrs), std::move(ins)});
  EXPECT_EQ(o.error, "") << info(op).text;
  EXPECT_TRUE(o.sameStrided) << info(op).text;
  EXPECT_TRUE(o.sameInPlace) << info(op).text;
  return o.outs.empty() ? Tensor() : o.outs[0];
}

std::string errorOf(OpKind op, std::vector<Tensor> ins, Attrs attrs) {
  Outcome o = run({op, std::move(attrs), std::move(ins)});
  EXPECT_NE(o.error, "") << info(op).text << " accepts what it should refuse";
  return o.error;
}

void expectNear(const Tensor &a, const Tensor &b, double tolerance) {
  ASSERT_EQ(text(a.dtype), text(b.dtype));
  ASSERT_EQ(a.dims, b.dims);
  for (int64_t i = 0; i < a.elems(); ++i) {
    bool ok = same(a.v[i], b.v[i]) ||
              std::fabs(a.v[i] - b.v[i]) <= tolerance * std::fmax(1, std::fabs(b.v[i]));
    ASSERT_TRUE(ok) << "element " << i << " of " << dimsText(a.dims) << ": " << a.v[i]
                    << ", expected " << b.v[i];
  }
}

} // namespace ds::optest
