// SPDX-License-Identifier: Apache-2.0
#pragma once

#include "kernels/cuda/Check.h"

#include <map>
#include <memory>
#include <mutex>

namespace ds::cuda {

/// One H for each device, shared by all who hold it at a time. H(library, device) is made ready by its open().
template <typename H> class PerDevice {
public:
  /// Of the calling thread's device.
  template <typename Library> const char *get(const Library &library, std::shared_ptr<H> *out) {
    int device = 0;
    CUDA_TRY(cudaGetDevice(&device));
    std::lock_guard lock(mutex);
    *out = all[device].lock();
    if (*out)
      return nullptr;
    auto made = std::make_shared<H>(library, device);
    if (const char *message = made->open())
      return message;
    all[device] = *out = made;
    return nullptr;
  }

private:
  std::mutex mutex;
  std::map<int, std::weak_ptr<H>> all;
};

} // namespace ds::cuda
