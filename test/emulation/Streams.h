// SPDX-License-Identifier: Apache-2.0
//
// Streams that are threads, events that are occurrences, and what is enqueued.
#pragma once

#include "test/emulation/Memory.h"

#include <condition_variable>
#include <deque>
#include <thread>
#include <utility>

namespace ds::emulated {

/// One record of an event.
struct Occurrence {
  std::mutex mutex;
  std::condition_variable changed;
  bool done = false;
  Clock clock; // what comes before it
  void set() {
    std::lock_guard lock(mutex);
    done = true;
    changed.notify_all();
  }
  void wait() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return done; });
  }
};

/// What is enqueued: on a stream, or in a graph, which enqueues it again and again.
struct Operation {
  std::string what;
  std::vector<Range> ranges;
  std::function<std::string()> work;
  std::shared_ptr<Windows> windows = nullptr;
  cudaEvent_t event = nullptr; // records it, and does nothing else
};
} // namespace ds::emulated

struct CudaEvent {
  std::mutex mutex;
  std::shared_ptr<ds::emulated::Occurrence> last;
  const int device = ds::emulated::currentDevice; // that it can be recorded on
};
struct CudaGraph {
  std::vector<ds::emulated::Operation> nodes;
  std::thread::id thread; // that captures it
  bool invalid = false;   // by a call that no capture allows
};
struct CudaGraphExec {
  std::vector<ds::emulated::Operation> nodes;
};

struct CudaStream {
  std::mutex mutex;
  std::condition_variable changed;
  std::deque<std::function<std::string()>> queue;
  bool stop = false, busy = false;
  ds::emulated::Actor actor;
  std::unique_ptr<CudaGraph> capture; // under way
  const int device = ds::emulated::currentDevice;
  std::thread thread{[this] { run(); }};

  void add(std::function<std::string()> work) {
    std::lock_guard lock(mutex);
    queue.push_back(std::move(work));
    changed.notify_all();
  }
  void drain() {
    std::unique_lock lock(mutex);
    changed.wait(lock, [&] { return queue.empty() && !busy; });
  }
  ~CudaStream() {
    {
      std::lock_guard lock(mutex);
      stop = true;
      changed.notify_all();
    }
    thread.join();
  }

private:
  void run() {
    std::unique_lock lock(mutex);
    while (true) {
      changed.wait(lock, [&] { return stop || !queue.empty(); });
      if (queue.empty())
        return;
      auto work = std::move(queue.front());
      queue.pop_front();
      busy = true;
      lock.unlock();
      ds::emulated::breakWith(work());
      lock.lock();
      busy = false;
      changed.notify_all();
    }
  }
};

namespace ds::emulated {

/// The stream that this thread captures.
extern thread_local CudaStream *capturing;
/// What no thread may call that captures calls this: the capture is lost. Whether there is one.
bool spoils();

void record(cudaEvent_t e, cudaStream_t s);
/// Enqueues; or makes it a node of the graph that the stream captures.
cudaError_t submit(cudaStream_t s, Operation o);

/// A stream, event or graph: calls with one that is not there are errors.
template <typename T> cudaError_t create(const char *name, T **handle) {
  if (cudaError_t e = enter(name))
    return e;
  *handle = new T;
  std::lock_guard lock(machine().mutex);
  machine().handles.insert(*handle);
  return cudaSuccess;
}
template <typename T> cudaError_t destroy(const char *name, T *handle) {
  cudaError_t e = enter(name);
  {
    std::lock_guard lock(machine().mutex);
    if (!machine().handles.erase(handle))
      return cudaErrorInvalidResourceHandle;
  }
  delete handle;
  return e;
}

} // namespace ds::emulated
