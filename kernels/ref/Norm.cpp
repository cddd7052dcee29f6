// SPDX-License-Identifier: Apache-2.0
//
// Layer and root-mean-square normalisation over axes [axis, rank). All arithmetic is in double; mean and rstd are kept in the
// accumulate type.
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"

namespace ds::ref {

// A sum of two operands or results of l, into one of these.
static const char *add(const DsLaunch &l, const DsTensor &a, const DsTensor &b,
                       const DsTensor &to) {
  DsTensor ins[] = {a, b};
  DsLaunch sum = l;
  sum.ins = ins, sum.numIns = 2;
  sum.outs = &to, sum.numOuts = 1;
  return refAdd(&sum, nullptr);
}

// (a, b, ...) -> sum, ...: the sum, rounded to its type, and what `norm` makes of it.
static const char *addThen(const DsLaunch &l, DsRunFn norm) {
  if (const char *message = add(l, l.ins[0], l.ins[1], l.outs[0]))
    return message;
  DsTensor ins[3] = {l.outs[0], l.ins[2], l.ins[l.numIns - 1]}; // sum, scale, bias
  DsLaunch rest = l;
  rest.ins = ins, --rest.numIns;
  ++rest.outs, --rest.numOuts;
  return norm(&rest, nullptr);
}

const char *refLayerNorm(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &scale = l->ins[1], &y = l->outs[0], &mean = l->outs[1],
                 &rstd = l->outs[2];
  bool hasBias = l->numIns == 3;
  const DsTensor &bias = l->ins[hasBias ? 2 : 1];
  int64_t axis = axisOf(*l, x.rank);
  double eps = attr(*l, "eps").f;
  Loop<4> rows, columns; // x, y, mean, rstd; and x, y, scale, bias
  for (int i = 0; i < axis; ++i)
    rows.add(x.dims[i], {x.strides[i], y.strides[i], mean.strides[i], rstd.strides[i]});
  for (int i = static_cast<int>(axis); i < x.rank; ++i)
    columns.add(x.dims[i],
                {x.strides[i], y.strides[i], scale.strides[i - axis], bias.strides[i - axis]});
  double n = static_cast<double>(columns.count());
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    walk(rows, [&](int64_t xAt, int64_t yAt, int64_t meanAt, int64_t rstdAt) {
      const T *from = dataOf<T>(x) + xAt;
      double sum = 0, squares = 0;
      walk(columns, [&](int64_t i, int64_t, int64_t, int64_t) { sum += load(from[i]); });
      double m = sum / n;
      walk(columns, [&](int64_t i, int64_t, int64_t, int64_t) {
        double d = load(from[i]) - m;
        squares += d * d;
      });
      double r = 1 / std::sqrt(squares / n + eps);
      walk(columns, [&](int64_t i, int64_t o, int64_t s, int64_t b) {
        double v = (load(from[i]) - m) * r * load(dataOf<T>(scale)[s]);
        if (hasBias)
          v += load(dataOf<T>(bias)[b]);
        dataOf<T>(y)[yAt + o] = store<T>(v);
      });
      dataOf<A>(mean)[meanAt] = static_cast<A>(m);
      dataOf<A>(rstd)[rstdAt] = static_cast<A>(r);
    });
    return nullptr;
  });
}

// With h = (x - mean) * rstd and g = dy * scale:
// dx = rstd * (g - mean(g) - h * mean(g * h)), dscale = sum over rows of dy * h, dbias of dy.
const char *refLayerNormGrad(const DsLaunch *l, void *) {
  const DsTensor &dy = l->ins[0], &x = l->ins[1], &scale = l->ins[2], &mean = l->ins[3],
                 &rstd = l->ins[4];
  const DsTensor &dx = l->outs[0], &dscale = l->outs[1], &dbias = l->outs[2];
  int64_t axis = axisOf(*l, x.rank);
  Loop<5> rows; // x, dy, dx, mean, rstd
  for (int i = 0; i < axis; ++i)
    rows.add(x.dims[i],
             {x.strides[i], dy.strides[i], dx.strides[i], mean.strides[i], rstd.strides[i]});
  Loop<4> columns, params; // x, dy, scale, dx; and x, dy, dscale, dbias
  for (int i = static_cast<int>(axis); i < x.rank; ++i) {
    columns.add(x.dims[i], {x.strides[i], dy.strides[i], scale.strides[i - axis], dx.strides[i]});
    params.add(x.dims[i],
               {x.strides[i], dy.strides[i], dscale.strides[i - axis], dbias.strides[i - axis]});
  }
  double n = static_cast<double>(columns.count());
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T *px = dataOf<T>(x), *pdy = dataOf<T>(dy), *pscale = dataOf<T>(scale);
    const A *pmean = dataOf<A>(mean), *prstd = dataOf<A>(rstd);
    // First, since dx may take the place of dy or x.
    walk(params, [&](int64_t i, int64_t j, int64_t s, int64_t b) {
      double scaleSum = 0, biasSum = 0;
      walk(rows, [&](int64_t xAt, int64_t dyAt, int64_t, int64_t meanAt, int64_t rstdAt) {
        double g = load(pdy[dyAt + j]);
        scaleSum += g * ((load(px[xAt + i]) - pmean[meanAt]) * double(prstd[rstdAt]));
        biasSum += g;
      });
      dataOf<T>(dscale)[s] = store<T>(scaleSum);
      dataOf<T>(dbias)[b] = store<T>(biasSum);
    });
    walk(rows, [&](int64_t xAt, int64_t dyAt, int64_t dxAt, int64_t meanAt, int64_t rstdAt) {
      double m = pmean[meanAt], r = prstd[rstdAt], sum = 0, dot = 0;
      walk(columns, [&](int64_t i, int64_t j, int64_t s, int64_t) {
        double g = double(load(pdy[dyAt + j])) * load(pscale[s]);
        sum += g;
        dot += g * ((load(px[xAt + i]) - m) * r);
      });
      T *to = dataOf<T>(dx) + dxAt;
      walk(columns, [&](int64_t i, int64_t j, int64_t s, int64_t o) {
        double g = double(load(pdy[dyAt + j])) * load(pscale[s]);
        double h = (load(px[xAt + i]) - m) * r;
        to[o] = store<T>(r * (g - sum / n - h * (dot / n)));
      });
    });
    return l->numIns > 5 ? add(*l, dx, l->ins[5], dx) : nullptr;
  });
}

const char *refAddLayerNorm(const DsLaunch *l, void *) { return addThen(*l, refLayerNorm); }

const char *refRmsNorm(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &scale = l->ins[1], &y = l->outs[0], &rstd = l->outs[1];
  int64_t axis = axisOf(*l, x.rank);
  double eps = attr(*l, "eps").f;
  Loop<3> rows, columns; // x, y, rstd; and x, y, scale
  for (int i = 0; i < axis; ++i)
    rows.add(x.dims[i], {x.strides[i], y.strides[i], rstd.strides[i]});
  for (int i = static_cast<int>(axis); i < x.rank; ++i)
    columns.add(x.dims[i], {x.strides[i], y.strides[i], scale.strides[i - axis]});
  double n = static_cast<double>(columns.count());
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    walk(rows, [&](int64_t xAt, int64_t yAt, int64_t rstdAt) {
      const T *from = dataOf<T>(x) + xAt;
      double squares = 0;
      walk(columns,
           [&](int64_t i, int64_t, int64_t) { squares += double(load(from[i])) * load(from[i]); });
      double r = 1 / std::sqrt(squares / n + eps);
      walk(columns, [&](int64_t i, int64_t o, int64_t s) {
        dataOf<T>(y)[yAt + o] = store<T>(load(from[i]) * r * load(dataOf<T>(scale)[s]));
      });
      dataOf<A>(rstd)[rstdAt] = static_cast<A>(r);
    });
    return nullptr;
  });
}

// With h = x * rstd and g = dy * scale: dx = rstd * (g - h * mean(g * h)), dscale = sum over rows of dy * h.
const char *refRmsNormGrad(const DsLaunch *l, void *) {
  const DsTensor &dy = l->ins[0], &x = l->ins[1], &scale = l->ins[2], &rstd = l->ins[3];
  const DsTensor &dx = l->outs[0], &dscale = l->outs[1];
  int64_t axis = axisOf(*l, x.rank);
  Loop<4> rows; // x, dy, dx, rstd
  for (int i = 0; i < axis; ++i)
    rows.add(x.dims[i], {x.strides[i], dy.strides[i], dx.strides[i], rstd.strides[i]});
  Loop<4> columns; // x, dy, scale, dx
  Loop<3> params;  // x, dy, dscale
  for (int i = static_cast<int>(axis); i < x.rank; ++i) {
    columns.add(x.dims[i], {x.strides[i], dy.strides[i], scale.strides[i - axis], dx.strides[i]});
    params.add(x.dims[i], {x.strides[i], dy.strides[i], dscale.strides[i - axis]});
  }
  double n = static_cast<double>(columns.count());
  return dispatchFloat(x.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    using A = std::conditional_t<std::is_same_v<T, double>, double, float>;
    const T *px = dataOf<T>(x), *pdy = dataOf<T>(dy), *pscale = dataOf<T>(scale);
    const A *prstd = dataOf<A>(rstd);
    // First, since dx may take the place of dy or x.
    walk(params, [&](int64_t i, int64_t j, int64_t s) {
      double sum = 0;
      walk(rows, [&](int64_t xAt, int64_t dyAt, int64_t, int64_t rstdAt) {
        sum += double(load(pdy[dyAt + j])) * (load(px[xAt + i]) * double(prstd[rstdAt]));
      });
      dataOf<T>(dscale)[s] = store<T>(sum);
    });
    walk(rows, [&](int64_t xAt, int64_t dyAt, int64_t dxAt, int64_t rstdAt) {
      double r = prstd[rstdAt], dot = 0;
      walk(columns, [&](int64_t i, int64_t j, int64_t s, int64_t) {
        dot += double(load(pdy[dyAt + j])) * load(pscale[s]) * (load(px[xAt + i]) * r);
      });
      T *to = dataOf<T>(dx) + dxAt;
      walk(columns, [&](int64_t i, int64_t j, int64_t s, int64_t o) {
        double g = double(load(pdy[dyAt + j])) * load(pscale[s]), h = load(px[xAt + i]) * r;
        to[o] = store<T>(r * (g - h * (dot / n)));
      });
    });
    return l->numIns > 4 ? add(*l, dx, l->ins[4], dx) : nullptr;
  });
}

const char *refAddRmsNorm(const DsLaunch *l, void *) { return addThen(*l, refRmsNorm); }

} // namespace ds::ref
