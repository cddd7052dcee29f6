// SPDX-License-Identifier: Apache-2.0
#include "runtime/Forward.h"

#include "runtime/CommDevice.h"
#include "runtime/Convert.h"
#include "runtime/DeviceExecutor.h"
#include "runtime/Executor.h"
#include "runtime/File.h"
#include "runtime/Sources.h"

#include <algorithm>
#include <fmt/format.h>
#include <thread>

namespace ds {

namespace {

// The arrays of the current run, by input.
class ArrayFeed final : public FeedSource {
public:
  std::vector<const Array *> arrays; // as Schedule::inputs
  const void *data(int, int64_t, int input, const Abort &) override {
    return arrays[static_cast<size_t>(input)]->bytes.data();
  }
};

// In list order, nothing is watched.
class NoHook final : public InstrHook {
public:
  const char *beginProgram(const LoadedProgram &) override { return nullptr; }
  const char *before(const LoadedProgram &, const LoadedInstr &) override { return nullptr; }
  const char *after(const LoadedProgram &, const LoadedInstr &) override { return nullptr; }
};

} // namespace

struct Forward::Impl {
  Schedule schedule;
  Device device;
  Abort abort;
  std::vector<std::unique_ptr<Comm>> comms;
  std::unique_ptr<LoadedRank> rank;
  std::vector<size_t> sequence = {0};
  ArrayFeed feed;
  std::unique_ptr<RankExecutor> executor;

  Status prepare(int threads, const std::vector<WeightRange> &weights);
  Status prepareDevice(DeviceSide &side);
  Status load(const WeightRange &w);
  Status execute();
};

Forward::Forward(std::unique_ptr<Impl> i) : impl(std::move(i)) {}
Forward::~Forward() = default;
const Schedule &Forward::schedule() const { return impl->schedule; }
std::vector<std::string> Forward::notes() const {
  return impl->rank->borrowNotes(impl->device.name);
}

Status Forward::Impl::load(const WeightRange &w) {
  int index = schedule.findPersistent(w.buffer);
  if (index < 0)
    return {}; // no output depends on it
  const Type &t = schedule.persistent[static_cast<size_t>(index)].type;
  TRY_ASSIGN(File file, File::openRead(w.path));
  std::vector<std::byte> raw(static_cast<size_t>(t.elems() * byteSize(w.stored)));
  TRY(file.read(raw.data(), static_cast<int64_t>(raw.size()), w.offset));
  int64_t size = byteSize(t.dtype);
  return rank->write(index, 0, t.bytes(), [&](int64_t at, std::byte *p, int64_t n) -> Status {
    convert(t.dtype, p, w.stored, raw.data() + at / size * byteSize(w.stored), n / size);
    return {};
  });
}

Status Forward::Impl::prepare(int threads, const std::vector<WeightRange> &weights) {
  TRY(verifySchedule(schedule));
  if (!schedule.program("forward"))
    return Status::error("the plan is one for training: it has no program forward");
  if (schedule.world() != 1)
    return Status::error(
        fmt::format("forward runs on one rank, the plan is for {}", schedule.world()));
  TRY(checkSources(schedule));
  LoadOptions o;
  o.threads =
      threads > 0 ? threads : static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  TRY_ASSIGN(rank, LoadedRank::load(schedule, device, o));
  for (const WeightRange &w : weights)
    TRY(load(w));
  if (DeviceSide *side = rank->deviceSide())
    return prepareDevice(*side);
  comms = makeLocalComms(1, abort, {});
  TRY(comms[0]->bind(std::move(rank->commOps), {}));
  executor =
      std::make_unique<RankExecutor>(schedule, *rank, sequence, *comms[0], &feed, abort, nullptr);
  return {};
}

Status Forward::Impl::prepareDevice(DeviceSide &side) {
  for (const Instr &i : schedule.programs[0].instrs) // no thread here executes them
    if (!DeviceSide::executes(i.stream))
      return Status::error(fmt::format("{} is for stream {}, and forward on device {} has none",
                                       i.label, text(i.stream), device.name));
  for (auto &c : makeDeviceComms(1, abort))
    comms.push_back(std::move(c));
  comms[0]->attach(side);
  TRY(comms[0]->bind(std::move(rank->commOps), {}));
  auto e =
      std::make_unique<DeviceExecutor>(schedule, *rank, sequence, *comms[0], &feed, abort, nullptr);
  TRY(e->prepare());
  executor = std::move(e);
  return {};
}

Status Forward::Impl::execute() {
  NoHook hook;
  if (rank->deviceSide())
    executor->runUpdate(Stream::Compute, 0);
  else
    executor->runInOrder(0, hook);
  return abort.raised() ? abort.status() : Status();
}

StatusOr<std::unique_ptr<Forward>> Forward::create(Schedule s, Device d, int threads,
                                                   const std::vector<WeightRange> &weights) {
  auto impl = std::make_unique<Impl>();
  impl->schedule = std::move(s);
  impl->device = std::move(d);
  TRY(impl->prepare(threads, weights));
  return std::unique_ptr<Forward>(new Forward(std::move(impl)));
}

StatusOr<std::vector<std::pair<std::string, Array>>>
Forward::run(const std::map<std::string, Array> &feeds) {
  Impl &f = *impl;
  f.feed.arrays.clear();
  for (const InputInfo &in : f.schedule.inputs) {
    const Type &t =
        f.schedule.persistent[static_cast<size_t>(f.schedule.findPersistent(in.name))].type;
    auto it = feeds.find(in.name);
    if (it == feeds.end() || it->second.dtype != t.dtype || it->second.dims != t.dims)
      return Status::internal(fmt::format("input {} is not fed as {}", in.name, t.str()));
    f.feed.arrays.push_back(&it->second);
  }
  TRY(f.execute());
  std::vector<std::pair<std::string, Array>> out;
  for (const LoadedReturn &r : f.rank->programs[0].returns) {
    Array a{r.type->dtype, r.type->dims, ""};
    auto bytes = static_cast<size_t>(a.elems() * byteSize(a.dtype));
    if (r.onDevice && bytes > 0) {
      a.bytes.resize(bytes);
      TRY(f.rank->deviceSide()->copyNow(a.bytes.data(), r.onDevice, static_cast<int64_t>(bytes)));
    } else {
      a.bytes.assign(static_cast<const char *>(r.data), bytes);
    }
    out.emplace_back(f.rank->valueNames[r.value], std::move(a));
  }
  return out;
}

StatusOr<Array> fitArray(Array a, const Type &want) {
  if (a.dims != want.dims)
    return Status::error(
        fmt::format("the array is {}, expected {}", dimsText(a.dims), dimsText(want.dims)));
  if (a.dtype == want.dtype)
    return a;
  bool floats = isFloat(a.dtype) && isFloat(want.dtype), ints = isInt(a.dtype) && isInt(want.dtype);
  if (!floats && !ints)
    return Status::error(
        fmt::format("elements are {}, expected {}", text(a.dtype), text(want.dtype)));
  Array out{want.dtype, a.dims, std::string(static_cast<size_t>(want.bytes()), '\0')};
  convert(want.dtype, out.bytes.data(), a.dtype, a.bytes.data(), a.elems());
  // Wrapped values come back as others; a sign that changes is none in 64 bits.
  for (int64_t i = 0; ints && i < a.elems(); ++i) {
    int64_t was = toInt(a.dtype, a.bytes.data(), i), is = toInt(want.dtype, out.bytes.data(), i);
    bool flips = was < 0 && (a.dtype == DType::U64) != (want.dtype == DType::U64);
    if (was != is || flips)
      return Status::error(fmt::format("element {} is {}, which is no {}", i,
                                       a.dtype == DType::U64
                                           ? fmt::format("{}", static_cast<uint64_t>(was))
                                           : fmt::format("{}", was),
                                       text(want.dtype)));
  }
  return out;
}

} // namespace ds
