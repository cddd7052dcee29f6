// SPDX-License-Identifier: Apache-2.0
//
// One update as a market of device memory: what needs bytes, when, and what each way to do without them costs. What is decided:
//   a saved value      is kept, waits in host memory, or is computed again from what its launch reads;
//   a bucket's states  lie on the device, in host memory or on nvme, and so do its parameters.
// Bytes are counted at points: the launches of a micro-batch in program order, then the update. They are the least that any plan
// with the same decisions has there: operands and results of a launch (one place where a result may take over an operand's), what lies between two uses of one phase, buckets
// while launches touch them. Left out are staging, transfers under way, and what lives between launches that are
// repeated. Seconds are those of Cost.h, of one update.
#pragma once

#include "passes/RecomputeOptions.h"

#include <array>
#include <functional>

namespace ds {

/// Time of an update by stream, and along two chains that no overlap makes shorter. The host's optimizers know the norm only
/// when backward has ended, and forward of the next update needs their weights, so they run beside at most that one forward phase.
inline constexpr int kHostUpdates =
    kStreams; // launches behind the first forward phase, then optimizers on the host
inline constexpr int kNewWeights =
    kStreams + 1; // the same launches, then transfers of weights to the device
inline constexpr int kPaths = kStreams + 2;
using MarketSeconds = std::array<double, kPaths>;
/// Adds a launch of backward.
inline void addBackward(MarketSeconds &t, double seconds) {
  for (int path : {static_cast<int>(Stream::Compute), kHostUpdates, kNewWeights})
    t[path] += seconds;
}
/// Seconds of an update: the sum over streams if they share processors, else its longest path.
double updateSeconds(const MarketSeconds &t, bool isShared);

struct Market {
  /// A value of the forward phase that backward may read.
  struct Value {
    int storage = 0; // of the model
    int64_t bytes = 0;
    int from = 0,
        to = 0; // points, half-open: between its last use in forward and the first in backward
    bool isRead = false;     // by backward itself; else at most by what is repeated
    bool isAlone = false;    // and its launch is never repeated: no part uses it
    double down = 0, up = 0; // seconds to host memory and back
    std::string name;
  };
  /// What is decided together: launches that may be repeated, and the values that they read and make.
  struct Part {
    struct Use {
      int value = 0;
      int maker = -1;         // launch of the part that may be repeated, or -1: none may
      double share = 1;       // of the value's cost; the rest is charged in other parts that use it
      std::vector<int> users; // launches of the part
    };
    std::vector<double> seconds; // by launch
    std::vector<std::string> names;
    std::vector<Use> uses;
  };
  struct Window {
    int first = 0, end = 0; // points, half-open: launches touch it
    int from = 0, to = 0;   // the same with its transfers where they stand in the list
    int64_t bytes = 0;
  };
  /// A place of a bucket.
  struct Option {
    std::string optimizer, param; // "" (device), "cpu", "nvme"
    MarketSeconds seconds{};
    double again = 0;             // of bringing parameters for backward, too
    int64_t device = 0, host = 0; // bytes at all points
    std::vector<Window> windows;  // bytes on the device beside them
  };
  struct Bucket {
    std::string name;
    std::vector<Option> options;
  };

  std::vector<int64_t> fixed; // by point: bytes that no decision changes
  MarketSeconds seconds{};    // the same of time
  /// The last buckets that forward brings, so many, stay for backward. Which they are depends on all places, so that each may
  /// take `again` less than its place says.
  int64_t staying = 0;
  int64_t runs = 1; // of a micro-batch in an update
  /// Of the first plan: what launches take, and constants' bytes.
  MarketSeconds launchSeconds{};
  int64_t constBytes = 0;
  std::vector<Value> values;
  std::vector<Part> parts;
  std::vector<Bucket> buckets;

  int points() const { return static_cast<int>(fixed.size()); }
};

/// Values and parts of a micro-batch; `runs` of it are an update. Launches are repeated within their block only.
/// copySeconds: of so many bytes between device and host.
Market marketOf(const RecomputeModel &m, const std::vector<Launches> &blocks, int64_t runs,
                const std::function<double(int64_t)> &copySeconds);

/// Adds an option to all buckets, and to one without a name for all that belongs to none. The schedule is one without recomputation
/// in which all buckets that may are moved to the places given; the first moves none.
struct PlacedPlan {
  std::string optimizer, param;
  const Schedule *schedule;
  bool isReduced = false; // made of a module behind reduceToBuckets; the first is not
};
/// A module behind form-programs keeps only what it takes to see this of its buckets; it trains nothing any more.
void reduceToBuckets(Module &m, const RecomputeModel &model);
/// Its constants' names begin so, as no other symbol's can.
inline constexpr const char *kStandIn = "stand in ";
void addPlace(Market &market, const RecomputeModel &m, const PlacedPlan &plan, const Rates &r);

} // namespace ds
