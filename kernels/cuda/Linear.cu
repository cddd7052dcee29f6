// SPDX-License-Identifier: Apache-2.0
//
// linear and its gradients: one call of cuBLASLt with an epilogue, or the product and what follows it, each by the library or by our
// kernels. cuBLASLt knows gelu in the tanh form only, and wants the matrix beside the result at multiples of 16 bytes.
#include "kernels/CudaWork.h"
#include "kernels/LinearShape.h"
#include "kernels/cuda/Cuda.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Product.h"

#include <memory>
#include <new>

namespace ds::cuda {

namespace {

struct State {
  InnerLaunch product, rest;
  MatmulShape shape;
  Product plain;
  LtMatmul fused;
  bool isFused = false;
  std::string note;
  const char *(*follow)(const DsLaunch *, void *) = nullptr; // on `rest`, after the plain product

  // Once `product` and `rest` are described. other: of the epilogue.
  const char *prepare(const DsLaunch &l, Epilogue e, const DsTensor &other, int64_t ld = 0) {
    if (const char *message = matmulShape(product.at(l), shape))
      return message;
    auto type = static_cast<DType>(l.outs[0].dtype);
    const LtTypes types = {type, type};
    if (const char *message = plain.prepare(shape, types, l.workBytes))
      return message;
    note = plain.note();
    if (!plain.isByLibrary() || e == Epilogue::None || !isRowMajor(other))
      return nullptr;
    const Lt *lt = nullptr;
    if (const char *message = findLt(&lt))
      return message;
    if (const char *message = fused.prepare(*lt, shape, types, l.workBytes, &isFused, e, ld))
      return message;
    return isFused ? fused.describe(&note) : nullptr;
  }

  const char *run(const DsLaunch &l, const DsTensor &other, bool isBias) {
    const DsLaunch &m = product.at(l);
    const void *a = m.ins[shape.swapped].data, *b = m.ins[!shape.swapped].data;
    void *c = m.outs[0].data;
    if (isFused && fused.takes(a, b, c, other.data))
      return fused.run(a, b, c, l.work, streamOf(l), other.data);
    bool own = isBias && !plain.isByLibrary();
    if (const char *message = plain.run(a, b, c, l.work, streamOf(l), own ? other.data : nullptr,
                                        own ? other.strides[0] : 0))
      return message;
    return own ? nullptr : follow(&rest.at(l), nullptr);
  }
};

const char *make(void **state, const DsLaunch &l,
                 const char *(*prepare)(State &, const DsLaunch &)) {
  std::unique_ptr<State> s(new (std::nothrow) State);
  if (!s)
    return "out of memory";
  if (const char *message = prepare(*s, l))
    return message;
  *state = s.release();
  return nullptr;
}

State &stateOf(void *state) { return *static_cast<State *>(state); }
const char *noteOf(void *state) {
  const std::string &note = stateOf(state).note;
  return note.empty() ? nullptr : note.c_str();
}

} // namespace

const char *linearPrepare(const DsLaunch *l, void **state) {
  return make(state, *l, [](State &s, const DsLaunch &l) {
    s.product.product(l);
    s.rest.addBias(l);
    s.follow = add;
    return s.prepare(l, Epilogue::Bias, l.ins[2]);
  });
}
const char *linear(const DsLaunch *l, void *state) {
  return stateOf(state).run(*l, l->ins[2], true);
}
void linearDestroy(void *state) { delete &stateOf(state); }
size_t linearWork(const DsLaunch *l) { return cudaWork("linear", *l); }
const char *linearNote(void *state) { return noteOf(state); }

const char *linearGradPrepare(const DsLaunch *l, void **state) {
  return make(state, *l, [](State &s, const DsLaunch &l) {
    const char *message = s.product.weightGradient(l);
    if (!message)
      message = s.rest.biasGradient(l);
    s.follow = reduceSum;
    Epilogue sums = flag(l, "trans_b") ? Epilogue::SumsOfA : Epilogue::SumsOfB;
    return message ? message : s.prepare(l, sums, l.outs[1]);
  });
}
const char *linearGrad(const DsLaunch *l, void *state) {
  return stateOf(state).run(*l, l->outs[1], false);
}
void linearGradDestroy(void *state) { delete &stateOf(state); }
size_t linearGradWork(const DsLaunch *l) { return cudaWork("linear_grad", *l); }
const char *linearGradNote(void *state) { return noteOf(state); }

const char *linearGeluGradPrepare(const DsLaunch *l, void **state) {
  return make(state, *l, [](State &s, const DsLaunch &l) {
    s.product.product(l);
    s.rest.slope(l);
    s.follow = geluGrad;
    const DsTensor &x = l.ins[2];
    return s.prepare(l, flag(l, "tanh") ? Epilogue::GeluSlope : Epilogue::None, x,
                     x.dims[x.rank - 1]);
  });
}
const char *linearGeluGrad(const DsLaunch *l, void *state) {
  return stateOf(state).run(*l, l->ins[2], false);
}
void linearGeluGradDestroy(void *state) { delete &stateOf(state); }
size_t linearGeluGradWork(const DsLaunch *l) { return cudaWork("linear_gelu_grad", *l); }
const char *linearGeluGradNote(void *state) { return noteOf(state); }

} // namespace ds::cuda
