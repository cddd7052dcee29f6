// SPDX-License-Identifier: Apache-2.0
//
// The host ring behind the feed stream. One thread reads whole windows (all micro-batches of one update,
// for every local rank) ahead into two slots per rank; the feed streams copy out of them. Row r of rank p in
// micro-batch m of a window that starts at sample s is sample s + (m * world + p) * rows + r of the epoch's
// permutation. A short last window of an epoch is dropped. Random numbers go by the sample's running number, which no
// epoch starts anew.
#pragma once

#include "runtime/Arena.h"
#include "runtime/Data.h"
#include "runtime/Wait.h"

#include <memory>
#include <thread>

namespace ds {

/// What the feed stream copies from.
class FeedSource {
public:
  virtual ~FeedSource() = default;
  /// Where input `input` (index into Schedule::inputs) of the current window's micro-batch lies. May wait; null on
  /// abort or an error, which error() then tells.
  virtual const void *data(int rank, int64_t micro, int input, const Abort &abort) = 0;
  /// The rank is through with its current window.
  virtual void release(int /*rank*/) {}
  virtual Status error() const { return {}; }
};

struct FeedOptions {
  uint64_t seed = 0;
  bool shuffle = true;
  int64_t firstUpdate = 0; // windows before it are skipped
  int64_t micros = 0;      // micro-batches in a window; 0: as the schedule says
  int onlyRank = -1;       // the one that is fed; -1: all are
};

class Feeder final : public FeedSource {
public:
  /// The schedule must outlive the feeder. Errors: data that does not fit the inputs, fewer samples than
  /// one window.
  static StatusOr<std::unique_ptr<Feeder>>
  create(const Schedule &s, std::unique_ptr<DataSource> data, const FeedOptions &o);
  ~Feeder() override; // stops the thread

  /// Two slots of slotBytes each, for what copies from pinned memory; before start(). They must outlive the thread.
  void useSlots(int rank, std::byte *slots);
  Status start(); // the reading thread
  /// Waits until the window is there.
  const void *data(int rank, int64_t micro, int input, const Abort &abort) override;
  void release(int rank) override;
  Status error() const override;

  int64_t updatesPerEpoch() const { return perEpoch; } // windows; 0: endless
  int64_t droppedSamples() const { return dropped; }   // per epoch
  int64_t windowSamples() const { return window; }     // over all ranks
  int64_t slotBytes() const { return slotSize; }       // of one rank's slot

private:
  Feeder() = default;
  void readLoop();
  Status readWindow(int64_t update, int rank, std::byte *slot);
  void countLabels(std::byte *slot) const;
  void fillRng(int64_t update, int rank, std::byte *slot) const;

  struct Input {
    InputMeta meta;
    DType dtype = DType::F32;
    int64_t bytes = 0;       // of one micro-batch
    int64_t at = 0;          // in a micro-batch's part of the slot; a count's: in the slot
    int64_t countInput = -1; // Count: index of the input it counts
    int64_t lastDim = 1;
  };
  struct alignas(64) RankRing {
    std::byte *slots[2] = {};
    Counter filled, released;
    uint32_t current = 0; // windows released by this rank: the one in use
  };

  const Schedule *schedule = nullptr;
  std::unique_ptr<DataSource> source;
  FeedOptions options;
  std::vector<Input> inputs;  // as Schedule::inputs
  std::vector<int> dataIndex; // of data and label inputs, in DataInput order
  std::vector<int64_t> rowBytes;
  std::vector<void *> targets; // of the row being read, in DataInput order
  std::unique_ptr<RankRing[]> rings;
  Arena memory; // of the ranks that were given no slots
  int64_t world = 1, rows = 1, micros = 1;
  int64_t first = 0, end = 1; // ranks that are fed
  int64_t window = 0, perEpoch = 0, dropped = 0, microBytes = 0, slotSize = 0;
  Abort stop;                                // raised by the destructor, and by a data error
  std::atomic<int64_t> failedAt = INT64_MAX; // window that could not be read
  std::thread thread;
};

} // namespace ds
