// SPDX-License-Identifier: Apache-2.0
#include "tools/LayoutTool.h"

#include "passes/layout/LayoutCheck.h"
#include "tools/Diagnostics.h"
#include "tools/LayoutCsv.h"

#include <algorithm>
#include <chrono>
#include <cstdio>

namespace ds {

// Steps of the exact search without a time limit: some ten seconds.
static constexpr int64_t kWork = 4'000'000'000;

static std::string line(const char *label, const std::string &text) {
  char head[32];
  std::snprintf(head, sizeof head, "  %-13s", label);
  return head + text + "\n";
}

static std::string withBytes(int64_t n) { return std::to_string(n) + " bytes"; }

static std::string percentAbove(int64_t height, int64_t load) {
  char text[32];
  std::snprintf(text, sizeof text, "%.3f %%",
                load ? 100.0 * static_cast<double>(height - load) / static_cast<double>(load) : 0);
  return text;
}

static std::string proof(const PackResult &r) {
  if (r.height == r.load)
    return "the smallest: the lower bound is reached";
  if (r.optimal())
    return "the smallest: exhaustive search found nothing lower";
  return "the smallest is between " + std::to_string(r.bound) + " and " + std::to_string(r.height);
}

static std::string describe(const LayoutFile &file, const LayoutFault &f) {
  auto name = [&](int i) {
    const PackItem &x = file.items[i];
    return file.ids[i] + " (life [" + std::to_string(x.first) + ", " + std::to_string(x.last + 1) +
           "), bytes [" + std::to_string(x.offset) + ", " + std::to_string(x.offset + x.bytes) +
           "))";
  };
  if (f.kind == LayoutFault::Overlap)
    return "buffers " + name(f.a) + " and " + name(f.b) + " overlap";
  return "buffer " + name(f.a) + " lies outside of [0, 2^62)";
}

static Status doesNotFit(const std::string &path, const std::string &text) {
  return Status::error(text, Code::DoesNotFit).at(path);
}

StatusOr<LayoutReport> layOut(const std::string &path, int64_t capacity, double seconds) {
  TRY_ASSIGN(std::string text, readInput(path));
  TRY_ASSIGN(LayoutFile file, parseLayout(text, path));
  PackLimits limits;
  limits.capacity = capacity;
  limits.seconds = seconds;
  limits.work = seconds > 0 ? INT64_MAX : kWork;
  auto start = std::chrono::steady_clock::now();
  PackResult r = packIntervals(file.items, 1, limits);
  double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  if (auto fault = findFault(file.items))
    return Status::internal("layout: " + describe(file, *fault));

  LayoutReport out;
  char search[64];
  std::snprintf(search, sizeof search, "%lld nodes, %.3f s", static_cast<long long>(r.nodes), took);
  out.summary =
      path + "\n" + line("buffers", std::to_string(file.items.size())) +
      line("lower bound", withBytes(r.load)) +
      line("height", withBytes(r.height) + ", " + percentAbove(r.height, r.load) + " above") +
      line("proof", proof(r));
  bool fits = capacity == 0 || r.height <= capacity;
  if (capacity)
    out.summary += line("capacity", withBytes(capacity) + (fits ? ": fits" : ": does not fit"));
  out.summary += line("search", search);
  if (fits)
    out.csv = printLayout(file);
  else if (r.bound > capacity)
    out.verdict = doesNotFit(path, "no placement fits " + withBytes(capacity) + "; at least " +
                                       std::to_string(r.bound) + " are needed");
  else
    out.verdict = doesNotFit(path, "found no placement that fits " + withBytes(capacity) +
                                       ", and no proof that there is none; the best needs " +
                                       std::to_string(r.height));
  return out;
}

StatusOr<LayoutReport> checkLayout(const std::string &path, int64_t capacity) {
  TRY_ASSIGN(std::string text, readInput(path));
  TRY_ASSIGN(LayoutFile file, parseLayout(text, path));
  if (!file.hasOffsets)
    return Status::error("there is no column offset to check").at(path + ":1:1");
  if (auto fault = findFault(file.items))
    return Status::error(describe(file, *fault))
        .at(path + ":" + std::to_string(file.lines[std::max(fault->a, fault->b)]) + ":1");
  int64_t height = 0, load = maxLoad(file.items, 1);
  for (const PackItem &x : file.items)
    height = std::max(height, x.bytes ? x.offset + x.bytes : 0);
  LayoutReport out;
  out.summary = path + "\n" + line("buffers", std::to_string(file.items.size()) + ", no overlaps") +
                line("lower bound", withBytes(load)) +
                line("height", withBytes(height) + ", " + percentAbove(height, load) + " above");
  if (capacity && height > capacity)
    out.verdict = doesNotFit(path, "the placement needs " + withBytes(height) + ", more than the " +
                                       std::to_string(capacity) + " of --capacity");
  return out;
}

} // namespace ds
