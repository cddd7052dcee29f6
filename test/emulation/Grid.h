// SPDX-License-Identifier: Apache-2.0
//
// Runs a kernel of CUDA's kind on one OS thread: blocks one after another, the threads of a block as fibers that take turns
// at barriers. What is wrong whatever the order, it reports with file and line: two threads at different barriers, a
// barrier that not all reach, and accesses of shared memory that no barrier orders (every access is compared with the
// last ones of the same element).
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

struct uint3 {
  unsigned x, y, z;
};
struct dim3 {
  unsigned x, y, z;
  constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
};

namespace ds::emulated {

/// In which order threads and blocks take turns. Forward unless DS_EMULATED_ORDER says reverse or a seed; tests set it.
enum class Order { Forward, Reverse, Random };
void setOrder(Order order, uint64_t seed = 0);

/// The barriers that kernels have come to so far, "file:line".
std::vector<std::string> barriersSeen();
void forgetBarriers();
/// This one does nothing from now on; "": all work.
void skipBarrier(const std::string &site);
/// Accesses of shared memory are compared from now on, or not; on at first. Off is ten times as fast.
void setChecks(bool on);

struct Thread {
  uint3 threadIdx, blockIdx;
  dim3 blockDim, gridDim;
};
/// Of the kernel that runs on this OS thread.
extern thread_local Thread current;

/// Runs the kernel; empty, or what it did wrong.
std::string runGrid(dim3 grid, dim3 block, size_t sharedBytes, const std::function<void()> &kernel);

void syncBlock(const char *file, int line);
void syncWarp(uint32_t mask, const char *file, int line);
/// The value that lane `from` of the caller's warp gives; all lanes of mask must call it.
uint64_t exchange(uint32_t mask, uint64_t value, int from, const char *file, int line);
uint32_t ballot(uint32_t mask, bool value, const char *file, int line);
int laneOf();
/// `bytes` (24 at most) of what each of the warp's 32 lanes gives, lane after lane. They stay until the lanes give anew for the
/// second time. It orders no accesses of memory. Lanes that come to different places, or not at all, are an error.
const std::byte *gatherWarp(const void *mine, size_t bytes, const char *file, int line);

/// Bytes of the block's shared memory for the declaration at file:line; the same ones for all threads of a block, 0xff at first.
void *sharedBytes(size_t bytes, const char *name, const char *file, int line);
void *dynamicShared();
/// An access of element `index` at `p`. Ends the block with an error if nothing orders it with another thread's.
void access(const void *p, bool write, const char *name, size_t index, size_t size,
            const char *file, int line);

extern bool checksOn;

/// Ends the running thread, and with it the whole launch, with this error.
[[noreturn]] void fail(const std::string &message);

/// What `__shared__ T name[N]` is in a kernel, see DS_SHARED.
template <typename T> class SharedArray {
public:
  SharedArray(size_t n, const char *name, const char *file, int line)
      : data(static_cast<T *>(sharedBytes(n * sizeof(T), name, file, line))), count(n), name(name),
        file(file), line(line) {}

  /// Stands for one element: reads and writes are seen.
  class Ref {
  public:
    Ref(const SharedArray &a, size_t i) : array(a), index(i) {}
    operator T() const {
      array.touch(index, false);
      return array.data[index];
    }
    Ref &operator=(T v) {
      array.touch(index, true);
      array.data[index] = v;
      return *this;
    }
    Ref &operator=(const Ref &o) { return *this = static_cast<T>(o); }
    Ref &operator+=(T v) { return *this = static_cast<T>(*this) + v; }

  private:
    const SharedArray &array;
    size_t index;
  };
  template <typename I> Ref operator[](I i) const {
    if (static_cast<size_t>(i) >= count)
      fail(std::string(file) + ":" + std::to_string(line) + ": index " + std::to_string(i) +
           " of " + name + ", which has " + std::to_string(count) + " elements");
    return Ref(*this, static_cast<size_t>(i));
  }

private:
  friend class Ref;
  void touch(size_t i, bool write) const {
    if (checksOn)
      access(data + i, write, name, i, sizeof(T), file, line);
  }
  T *data;
  size_t count;
  const char *name, *file;
  int line;
};

} // namespace ds::emulated
