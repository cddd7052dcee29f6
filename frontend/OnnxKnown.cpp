// SPDX-License-Identifier: Apache-2.0
//
// Arithmetic-free parts of known values: making, converting, broadcasting, compressing.
#include "frontend/OnnxKnown.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <cstring>

namespace ds {

int64_t product(const Dims &d) {
  int64_t n = 1;
  for (int64_t x : d)
    n *= x;
  return n;
}

Dims stridesOf(const Dims &d) {
  Dims s(d.size(), 1);
  for (size_t i = d.size(); i-- > 1;)
    s[i - 1] = s[i] * d[i];
  return s;
}

std::optional<Dims> broadcast(const Dims &a, const Dims &b) {
  Dims out(std::max(a.size(), b.size()));
  for (size_t i = 0; i < out.size(); ++i) {
    int64_t x = i < out.size() - a.size() ? 1 : a[i - (out.size() - a.size())];
    int64_t y = i < out.size() - b.size() ? 1 : b[i - (out.size() - b.size())];
    if (x != y && x != 1 && y != 1)
      return std::nullopt;
    out[i] = x == 1 ? y : x;
  }
  return out;
}

int64_t Known::elems() const { return product(dims); }
int64_t Known::storedElems() const { return product(stored); }

std::optional<double> Known::splat() const {
  if (storedElems() == 0)
    return std::nullopt;
  if (floating()) {
    for (double v : floats)
      if (!(v == floats[0]) || std::signbit(v) != std::signbit(floats[0]))
        return std::nullopt;
    return floats[0];
  }
  for (int64_t v : ints)
    if (v != ints[0])
      return std::nullopt;
  double d = static_cast<double>(ints[0]);
  return std::abs(d) <= 9007199254740992.0 ? std::optional(d) : std::nullopt;
}

double roundTo(DType t, double v) { return t == DType::F32 ? static_cast<float>(v) : v; }

int64_t wrapTo(DType t, int64_t v) {
  switch (t) {
  case DType::Bool:
    return v != 0;
  case DType::I8:
    return static_cast<int8_t>(v);
  case DType::U8:
    return static_cast<uint8_t>(v);
  case DType::I16:
    return static_cast<int16_t>(v);
  case DType::U16:
    return static_cast<uint16_t>(v);
  case DType::I32:
    return static_cast<int32_t>(v);
  case DType::U32:
    return static_cast<uint32_t>(v);
  default:
    return v;
  }
}

double meantBy(float v) {
  if (!std::isfinite(v) || v == 0 || std::fabs(v) > 1e20f)
    return v;
  auto is = [&](double d) { return static_cast<float>(d) == v; };
  double sign = v < 0 ? -1 : 1;
  for (double known : {std::sqrt(2 / M_PI), M_PI, M_LN2, M_LOG2E, M_LN10, 1 / std::sqrt(2 * M_PI)})
    if (is(sign * known))
      return sign * known;
  char text[32];
  for (int digits = 1; digits <= 6; ++digits) {
    std::snprintf(text, sizeof text, "%.*e", digits - 1, static_cast<double>(v));
    double d = std::strtod(text, nullptr);
    if (is(d))
      return d;
  }
  for (int n = 2; n <= 1024; ++n)
    for (double root : {std::sqrt(n), 1 / std::sqrt(n)})
      if (is(sign * root))
        return sign * root;
  return v;
}

KnownRef makeInts(DType t, Dims dims, std::vector<int64_t> values) {
  auto k = std::make_shared<Known>();
  k->dtype = t;
  k->stored = k->dims = std::move(dims);
  k->ints = std::move(values);
  return k;
}

KnownRef makeSplat(DType t, Dims dims, double value) {
  auto k = std::make_shared<Known>();
  k->dtype = t;
  k->stored = k->dims = std::move(dims);
  for (int64_t &d : k->stored)
    d = d == 0 ? 0 : 1;
  size_t n = static_cast<size_t>(k->storedElems());
  if (k->floating())
    k->floats.assign(n, roundTo(t, value));
  else
    k->ints.assign(n, wrapTo(t, static_cast<int64_t>(value)));
  return k;
}

template <typename T> static T load(const char *p) {
  T v;
  std::memcpy(&v, p, sizeof v);
  return v;
}

KnownRef makeFromBytes(DType t, Dims dims, std::string_view bytes) {
  auto k = std::make_shared<Known>();
  k->dtype = t;
  k->stored = k->dims = std::move(dims);
  size_t n = static_cast<size_t>(k->elems()), step = static_cast<size_t>(byteSize(t));
  if (k->floating())
    k->floats.resize(n);
  else
    k->ints.resize(n);
  for (size_t i = 0; i < n; ++i) {
    const char *p = bytes.data() + i * step;
    switch (t) {
    case DType::F64:
      k->floats[i] = load<double>(p);
      break;
    case DType::F32:
      k->floats[i] = load<float>(p);
      break;
    case DType::I64:
    case DType::U64:
      k->ints[i] = load<int64_t>(p);
      break;
    case DType::I32:
    case DType::U32:
      k->ints[i] = wrapTo(t, load<int32_t>(p));
      break;
    case DType::I16:
    case DType::U16:
      k->ints[i] = wrapTo(t, load<int16_t>(p));
      break;
    default:
      k->ints[i] = wrapTo(t, load<int8_t>(p));
    }
  }
  return k;
}

std::string toBytes(const Known &k) {
  Known full = expanded(k);
  std::string out;
  out.reserve(static_cast<size_t>(full.elems() * byteSize(k.dtype)));
  for (double v : full.floats) {
    float f = static_cast<float>(v);
    if (k.dtype == DType::F64)
      out.append(reinterpret_cast<const char *>(&v), 8);
    else
      out.append(reinterpret_cast<const char *>(&f), 4);
  }
  for (int64_t v : full.ints) // little-endian: the low bytes come first
    out.append(reinterpret_cast<const char *>(&v), static_cast<size_t>(byteSize(k.dtype)));
  return out;
}

std::vector<int64_t> Known::list() const {
  if (elems() > (int64_t(1) << 24))
    return {};
  Known full = expanded(*this);
  if (!floating())
    return full.ints;
  std::vector<int64_t> out;
  for (double v : full.floats) // NaN becomes the lowest, which no shape, axis or index can be
    out.push_back(v >= 0x1p63 ? INT64_MAX : v >= -0x1p63 ? static_cast<int64_t>(v) : INT64_MIN);
  return out;
}

void moveElements(const Known &from, const std::vector<int64_t> &map, Known &to) {
  to.dtype = from.dtype;
  auto run = [&](auto &src, auto &dst) {
    dst.resize(map.size());
    for (size_t i = 0; i < map.size(); ++i)
      dst[i] = src[static_cast<size_t>(map[i])];
  };
  if (from.floating())
    run(from.floats, to.floats);
  else
    run(from.ints, to.ints);
}

void forEachBroadcast(const std::vector<const Known *> &operands, Known &result,
                      const std::function<void(int64_t, const int64_t *)> &f) {
  size_t rank = result.dims.size(), n = operands.size();
  result.stored.assign(rank, 1);
  std::vector<Dims> step(n, Dims(rank, 0));
  for (size_t o = 0; o < n; ++o) {
    const Known &k = *operands[o];
    Dims s = stridesOf(k.stored);
    size_t lead = rank - k.dims.size();
    for (size_t a = 0; a < k.dims.size(); ++a) {
      if (k.stored[a] != 1) {
        step[o][lead + a] = s[a];
        result.stored[lead + a] = result.dims[lead + a];
      }
    }
  }
  for (size_t a = 0; a < rank; ++a)
    if (result.dims[a] == 0)
      result.stored[a] = 0;
  int64_t total = result.storedElems();
  Dims index(rank, 0);
  std::vector<int64_t> at(n, 0);
  for (int64_t i = 0; i < total; ++i) {
    f(i, at.data());
    for (size_t a = rank; a-- > 0;) {
      for (size_t o = 0; o < n; ++o)
        at[o] += step[o][a];
      if (++index[a] < result.stored[a])
        break;
      for (size_t o = 0; o < n; ++o)
        at[o] -= step[o][a] * result.stored[a];
      index[a] = 0;
    }
  }
}

Known expanded(const Known &k) {
  if (k.stored == k.dims)
    return k;
  Known out;
  out.dtype = k.dtype;
  out.dims = out.stored = k.dims;
  Dims s = stridesOf(k.stored);
  std::vector<int64_t> map;
  map.reserve(static_cast<size_t>(k.elems()));
  size_t rank = k.dims.size();
  Dims index(rank, 0);
  int64_t total = k.elems();
  for (int64_t i = 0, at = 0; i < total; ++i) {
    map.push_back(at);
    for (size_t a = rank; a-- > 0;) {
      int64_t step = k.stored[a] == 1 ? 0 : s[a];
      at += step;
      if (++index[a] < k.dims[a])
        break;
      at -= step * k.dims[a];
      index[a] = 0;
    }
  }
  moveElements(k, map, out);
  return out;
}

KnownRef compressed(Known k) {
  for (size_t a = 0; a < k.stored.size(); ++a) {
    int64_t extent = k.stored[a];
    if (extent <= 1)
      continue;
    int64_t inner = 1, outer = 1;
    for (size_t i = 0; i < a; ++i)
      outer *= k.stored[i];
    for (size_t i = a + 1; i < k.stored.size(); ++i)
      inner *= k.stored[i];
    auto same = [&](const auto &v) {
      for (int64_t o = 0; o < outer; ++o)
        for (int64_t e = 1; e < extent; ++e)
          for (int64_t i = 0; i < inner; ++i) {
            const auto &x = v[(o * extent + e) * inner + i], &y = v[o * extent * inner + i];
            if (std::memcmp(&x, &y, sizeof x) != 0)
              return false;
          }
      return true;
    };
    if (!(k.floating() ? same(k.floats) : same(k.ints)))
      continue;
    auto keep = [&](auto &v) {
      for (int64_t o = 0; o < outer; ++o)
        std::copy_n(v.begin() + o * extent * inner, inner, v.begin() + o * inner);
      v.resize(static_cast<size_t>(outer * inner));
      v.shrink_to_fit(); // known values live as long as the import
    };
    if (k.floating())
      keep(k.floats);
    else
      keep(k.ints);
    k.stored[a] = 1;
  }
  return std::make_shared<Known>(std::move(k));
}

} // namespace ds
