// SPDX-License-Identifier: Apache-2.0
//
// What kernels made of oneDNN primitives share: one engine, the stream's thread count, and primitives whose operands'
// addresses are set before each run. Primitives are created in prepare, with scratchpads from the plan's workspace.
#pragma once

#ifdef DS_HAVE_DNNL

#include <dnnl.hpp>

#include <algorithm>
#include <cstring>
#include <initializer_list>
#include <utility>

#ifdef _OPENMP
#include <omp.h>
#endif

namespace ds::cpu {

/// oneDNN reads its thread count from OpenMP, both when it makes a primitive and when it runs one.
class ThreadScope {
public:
#ifdef _OPENMP
  explicit ThreadScope(int threads) : before(omp_get_max_threads()) {
    omp_set_num_threads(std::max(threads, 1));
  }
  ~ThreadScope() { omp_set_num_threads(before); }

private:
  int before;
#else
  explicit ThreadScope(int) {}
#endif
};

inline const dnnl::engine &cpuEngine() {
  static const dnnl::engine engine(dnnl::engine::kind::cpu, 0);
  return engine;
}

/// Scratchpads come from the caller.
inline dnnl::primitive_attr userScratchpad() {
  dnnl::primitive_attr attributes;
  attributes.set_scratchpad_mode(dnnl::scratchpad_mode::user);
  return attributes;
}

/// True if oneDNN has only its reference loops, or nothing.
template <class D> bool isSlow(const D &description) {
  return !description || std::strncmp(description.impl_info_str(), "ref", 3) == 0;
}

/// A primitive with its operands, whose data is set before each run.
class DnnlCall {
public:
  void init(const dnnl::primitive &p,
            std::initializer_list<std::pair<int, dnnl::memory::desc>> operands) {
    primitive = p;
    count = 0;
    for (const auto &[arg, desc] : operands) {
      memory[count] = dnnl::memory(desc, cpuEngine(), nullptr);
      args[count] = {arg, memory[count].get()};
      ++count;
    }
  }
  void initReorder(const dnnl::reorder::primitive_desc &pd) {
    init(dnnl::reorder(pd), {{DNNL_ARG_FROM, pd.src_desc()},
                             {DNNL_ARG_TO, pd.dst_desc()},
                             {DNNL_ARG_SCRATCHPAD, pd.scratchpad_desc()}});
  }
  bool run(dnnl_stream_t stream, std::initializer_list<const void *> data) const {
    int i = 0;
    for (const void *p : data)
      dnnl_memory_set_data_handle(args[i++].memory, const_cast<void *>(p));
    return dnnl_primitive_execute(primitive.get(), stream, count, args) == dnnl_success;
  }

private:
  dnnl::primitive primitive;
  dnnl::memory memory[5];
  dnnl_exec_arg_t args[5];
  int count = 0;
};

} // namespace ds::cpu

#endif
