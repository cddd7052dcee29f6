// SPDX-License-Identifier: Apache-2.0
//
// A product of rows and a matrix with its bias, its gradients, and the product times the slope of gelu. All arithmetic is in double.
#include "kernels/ref/Gelu.h"
#include "kernels/ref/Kernels.h"
#include "kernels/ref/Loops.h"
#include "kernels/ref/Product.h"

namespace ds::ref {

namespace {

/// f(rows of x, of out and of a third tensor, their number) for every index of the axes before the last two.
template <typename T, typename F>
void overRows(const DsTensor &x, const DsTensor &out, const DsTensor &third, F f) {
  auto last = [](const DsTensor &t, int back) { return t.strides[t.rank - back]; };
  int64_t rows = x.dims[x.rank - 2];
  Loop<3> lead;
  for (int i = 0; i < x.rank - 2; ++i)
    lead.add(x.dims[i], {x.strides[i], out.strides[i], third.strides[i]});
  walk(lead, [&](int64_t atX, int64_t atOut, int64_t atThird) {
    f(Matrix<const T>{dataOf<T>(x) + atX, last(x, 2), last(x, 1)},
      Matrix<T>{dataOf<T>(out) + atOut, last(out, 2), last(out, 1)},
      Matrix<const T>{dataOf<T>(third) + atThird, last(third, 2), last(third, 1)}, rows);
  });
}

template <typename T> Matrix<const T> weight(const DsLaunch &l) {
  const DsTensor &w = l.ins[1];
  Matrix<const T> m = {dataOf<T>(w), w.strides[0], w.strides[1]};
  return flag(l, "trans_b") ? m.transposed() : m;
}

template <typename T> void weightGradient(const DsLaunch &l) {
  const DsTensor &x = l.ins[0], &dy = l.ins[1], &dw = l.outs[0];
  int64_t inner = x.dims[x.rank - 1], columns = dy.dims[dy.rank - 1];
  Matrix<T> out = {dataOf<T>(dw), dw.strides[0], dw.strides[1]};
  if (flag(l, "trans_b"))
    out = out.transposed();
  Loop<2> rows;
  for (int i = 0; i < x.rank - 1; ++i)
    rows.add(x.dims[i], {x.strides[i], dy.strides[i]});
  for (int64_t k = 0; k < inner; ++k)
    for (int64_t j = 0; j < columns; ++j) {
      double sum = 0;
      walk(rows, [&](int64_t atX, int64_t atDy) {
        sum += double(load(dataOf<T>(x)[atX + k * x.strides[x.rank - 1]])) *
               load(dataOf<T>(dy)[atDy + j * dy.strides[dy.rank - 1]]);
      });
      out.at(k, j) = store<T>(sum);
    }
}

template <typename T> void biasGradient(const DsLaunch &l) {
  const DsTensor &dy = l.ins[1], &out = l.outs[1];
  Loop<1> rows;
  for (int i = 0; i < dy.rank - 1; ++i)
    rows.add(dy.dims[i], {dy.strides[i]});
  for (int64_t j = 0; j < dy.dims[dy.rank - 1]; ++j) {
    double sum = 0;
    walk(rows, [&](int64_t at) { sum += load(dataOf<T>(dy)[at + j * dy.strides[dy.rank - 1]]); });
    dataOf<T>(out)[j * out.strides[0]] = store<T>(sum);
  }
}

} // namespace

const char *refLinear(const DsLaunch *l, void *) {
  const DsTensor &x = l->ins[0], &bias = l->ins[2], &out = l->outs[0];
  return dispatchFloat(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    auto w = weight<T>(*l);
    overRows<T>(x, out, x, [&](auto rows, auto to, auto, int64_t count) {
      product<T>(to, rows, w, count, x.dims[x.rank - 1], bias.dims[0],
                 [&](double sum, int64_t, int64_t j) {
                   return sum + load(dataOf<T>(bias)[j * bias.strides[0]]);
                 });
    });
    return nullptr;
  });
}

const char *refLinearGrad(const DsLaunch *l, void *) {
  return dispatchFloat(l->ins[0].dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    weightGradient<T>(*l);
    biasGradient<T>(*l);
    return nullptr;
  });
}

const char *refLinearGeluGrad(const DsLaunch *l, void *) {
  const DsTensor &dy = l->ins[0], &x = l->ins[2], &out = l->outs[0];
  bool tanhForm = flag(*l, "tanh");
  return dispatchFloat(out.dtype, [&](auto tag) -> const char * {
    using T = typename decltype(tag)::Type;
    auto w = weight<T>(*l);
    overRows<T>(dy, out, x, [&](auto rows, auto to, auto at, int64_t count) {
      product<T>(to, rows, w, count, dy.dims[dy.rank - 1], out.dims[out.rank - 1],
                 [&](double sum, int64_t i, int64_t j) {
                   return sum * geluSlope(load(at.at(i, j)), tanhForm);
                 });
    });
    return nullptr;
  });
}

} // namespace ds::ref
