// SPDX-License-Identifier: Apache-2.0
#include "kernels/CudaWork.h"
#include "kernels/cuda/Kernels.h"
#include "kernels/cuda/Product.h"

#include "kernels/cuda/Cuda.h"

#include <memory>
#include <new>

namespace ds::cuda {

namespace {

struct MatmulState {
  bool swapped = false;
  Product product;
};

} // namespace

const char *matmulPrepare(const DsLaunch *l, void **state) {
  std::unique_ptr<MatmulState> s(new (std::nothrow) MatmulState);
  if (!s)
    return "out of memory";
  MatmulShape shape;
  if (const char *message = matmulShape(*l, shape))
    return message;
  auto type = static_cast<DType>(l->outs[0].dtype);
  s->swapped = shape.swapped;
  if (const char *message = s->product.prepare(shape, {type, type}, l->workBytes))
    return message;
  *state = s.release();
  return nullptr;
}

void matmulDestroy(void *state) { delete static_cast<MatmulState *>(state); }

size_t matmulWork(const DsLaunch *l) { return cudaWork("matmul", *l); }

const char *matmulNote(void *state) {
  const std::string &note = static_cast<MatmulState *>(state)->product.note();
  return note.empty() ? nullptr : note.c_str();
}

const char *matmul(const DsLaunch *l, void *state) {
  const auto &s = *static_cast<MatmulState *>(state);
  return s.product.run(l->ins[s.swapped].data, l->ins[!s.swapped].data, l->outs[0].data, l->work,
                       streamOf(*l));
}

} // namespace ds::cuda
