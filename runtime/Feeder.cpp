// SPDX-License-Identifier: Apache-2.0
#include "runtime/Feeder.h"

#include "runtime/Convert.h"
#include "runtime/Permutation.h"

#include <cstring>
#include <fmt/format.h>
#include <optional>

namespace ds {

static int64_t roundUp(int64_t n) { return (n + 63) / 64 * 64; }

StatusOr<std::unique_ptr<Feeder>>
Feeder::create(const Schedule &s, std::unique_ptr<DataSource> data, const FeedOptions &o) {
  std::unique_ptr<Feeder> f(new Feeder);
  f->schedule = &s;
  f->source = std::move(data);
  f->options = o;
  f->world = s.world();
  f->first = std::max(o.onlyRank, 0);
  f->end = o.onlyRank < 0 ? f->world : o.onlyRank + 1;
  f->rows = s.step.microBatch;
  f->micros = o.micros > 0 ? o.micros : s.step.gradAccum;
  f->window = f->world * f->rows * f->micros;

  for (const InputInfo &info : s.inputs) {
    const Buffer &b = s.persistent[static_cast<size_t>(s.findPersistent(info.name))];
    Input in;
    in.meta = info.meta;
    in.dtype = b.type.dtype;
    in.bytes = b.type.bytes();
    in.lastDim = b.type.dims.empty() ? 1 : b.type.dims.back();
    if (info.meta.role != InputMeta::Role::Count) {
      in.at = f->microBytes;
      f->microBytes += roundUp(in.bytes);
    }
    if (info.meta.fromData()) {
      f->dataIndex.push_back(static_cast<int>(f->inputs.size()));
      f->rowBytes.push_back(in.bytes / f->rows);
    }
    f->inputs.push_back(std::move(in));
  }
  f->targets.resize(f->dataIndex.size());
  f->slotSize = f->micros * f->microBytes;
  for (Input &in : f->inputs) {
    if (in.meta.role != InputMeta::Role::Count)
      continue;
    in.at = f->slotSize;
    f->slotSize += roundUp(in.bytes);
    for (size_t i = 0; i < s.inputs.size(); ++i)
      if (!in.meta.countOf.empty() && s.inputs[i].name == in.meta.countOf)
        in.countInput = static_cast<int64_t>(i);
    if (!in.meta.countOf.empty() && in.countInput < 0)
      return Status::internal(fmt::format("there is no input {} to count", in.meta.countOf));
  }

  if (int64_t n = f->source->samples(); n != 0) {
    f->perEpoch = n / f->window;
    f->dropped = n % f->window;
    if (f->perEpoch == 0)
      return Status::error(
          fmt::format("the data has {} samples, one update needs {} ({} ranks x {} "
                      "rows x {} micro-batches)",
                      n, f->window, f->world, f->rows, f->micros));
  }
  f->rings = std::make_unique<RankRing[]>(static_cast<size_t>(f->world));
  return f;
}

Feeder::~Feeder() {
  stop.raise(Status::internal("the feeder is closed"));
  for (int64_t r = first; rings && r < end;
       ++r) // wakes the thread, which then sees that it must stop
    rings[static_cast<size_t>(r)].released.add();
  if (thread.joinable())
    thread.join();
}

void Feeder::useSlots(int rank, std::byte *slots) {
  RankRing &ring = rings[static_cast<size_t>(rank)];
  ring.slots[0] = slots;
  ring.slots[1] = slots + slotSize;
}

Status Feeder::start() {
  int64_t without = 0;
  for (int64_t r = first; r < end; ++r)
    without += !rings[static_cast<size_t>(r)].slots[0];
  TRY_ASSIGN(memory, Arena::map(2 * without * slotSize, 0));
  std::byte *next = memory.data();
  for (int64_t r = first; r < end; ++r)
    if (!rings[static_cast<size_t>(r)].slots[0]) {
      useSlots(static_cast<int>(r), next);
      next += 2 * slotSize;
    }
  thread = std::thread([this] { readLoop(); });
  return {};
}

void Feeder::readLoop() {
  for (uint32_t w = 0;; ++w)
    for (int64_t r = first; r < end; ++r) {
      RankRing &ring = rings[static_cast<size_t>(r)];
      if (w >= 2 && !ring.released.wait(w - 1, stop))
        return;
      if (stop.raised())
        return;
      std::byte *slot = ring.slots[w % 2];
      Status s = readWindow(options.firstUpdate + w, static_cast<int>(r), slot);
      if (!s.ok()) {
        failedAt.store(w, std::memory_order_relaxed);
        stop.raise(std::move(s));
        for (int64_t other = first; other < end; ++other) // they find out in data()
          rings[static_cast<size_t>(other)].filled.add();
        return;
      }
      countLabels(slot);
      fillRng(options.firstUpdate + w, static_cast<int>(r), slot);
      ring.filled.add();
    }
}

Status Feeder::readWindow(int64_t update, int rank, std::byte *slot) {
  int64_t first = update * window;
  std::optional<Permutation> shuffled;
  if (perEpoch != 0) {
    first = update % perEpoch * window;
    if (options.shuffle)
      shuffled.emplace(static_cast<uint64_t>(source->samples()), options.seed,
                       static_cast<uint64_t>(update / perEpoch));
  }
  for (int64_t m = 0; m < micros; ++m)
    for (int64_t r = 0; r < rows; ++r) {
      for (size_t i = 0; i < targets.size(); ++i)
        targets[i] =
            slot + m * microBytes + inputs[static_cast<size_t>(dataIndex[i])].at + r * rowBytes[i];
      int64_t sample = first + (m * world + rank) * rows + r;
      if (shuffled)
        sample = static_cast<int64_t>((*shuffled)(static_cast<uint64_t>(sample)));
      TRY(source->read(sample, targets.data()));
    }
  return {};
}

void Feeder::countLabels(std::byte *slot) const {
  for (const Input &in : inputs) {
    if (in.meta.role != InputMeta::Role::Count)
      continue;
    int64_t count = micros;
    if (in.countInput >= 0) {
      const Input &of = inputs[static_cast<size_t>(in.countInput)];
      int64_t n = of.bytes / byteSize(of.dtype);
      count = 0;
      for (int64_t m = 0; m < micros; ++m)
        for (int64_t i = 0; i < n; ++i)
          count += i % of.lastDim >= in.meta.skip &&
                   !(in.meta.hasIgnore &&
                     toInt(of.dtype, slot + m * microBytes + of.at, i) == in.meta.ignoreIndex);
    }
    convert(in.dtype, slot + in.at, DType::I64, &count, 1);
  }
}

void Feeder::fillRng(int64_t update, int rank, std::byte *slot) const {
  for (const Input &in : inputs)
    for (int64_t m = 0; in.meta.role == InputMeta::Role::Rng && m < micros; ++m) {
      int64_t sample = update * window + (m * world + rank) * rows;
      uint64_t rng[2] = {options.seed, static_cast<uint64_t>(sample)};
      std::memcpy(slot + m * microBytes + in.at, rng, sizeof rng);
    }
}

const void *Feeder::data(int rank, int64_t micro, int input, const Abort &abort) {
  RankRing &ring = rings[static_cast<size_t>(rank)];
  if (!ring.filled.wait(ring.current + 1, abort) ||
      ring.current >= failedAt.load(std::memory_order_relaxed))
    return nullptr;
  const Input &in = inputs[static_cast<size_t>(input)];
  int64_t part = in.meta.role == InputMeta::Role::Count ? 0 : micro * microBytes;
  return ring.slots[ring.current % 2] + part + in.at;
}

void Feeder::release(int rank) {
  RankRing &ring = rings[static_cast<size_t>(rank)];
  ++ring.current;
  ring.released.add();
}

Status Feeder::error() const {
  return failedAt.load(std::memory_order_relaxed) != INT64_MAX ? stop.status() : Status();
}

} // namespace ds
