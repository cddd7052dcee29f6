// SPDX-License-Identifier: Apache-2.0
//
// What a Trainer does before its first update: reads the checkpoint that it goes on from, opens data, makes engines and threads,
// loads the ranks.
#include "runtime/TrainerImpl.h"

#include "runtime/CheckpointState.h"
#include "runtime/CommDevice.h"
#include "runtime/CommNccl.h"
#include "runtime/Log.h"
#include "runtime/MachineMemory.h"
#include "runtime/Sources.h"

#include <algorithm>
#include <fmt/format.h>
#include <sys/resource.h>

namespace ds {

static constexpr double kPatience = 120; // seconds for all processes to come
static constexpr const char *kValueNames[] = {"loss", "grad_norm", "clip", "skip"};

Status Trainer::Impl::readResume() {
  if (options.resume.empty())
    return {};
  TRY_ASSIGN(resumed, readManifest(options.resume));
  Status s = checkResume(schedule, resumed);
  std::vector<int> scalars = stateScalars(schedule);
  int lr = schedule.findPersistent("lr");
  if (resumed.seed != options.seed || resumed.shuffle != options.shuffle)
    s.merge(Status::error(
        fmt::format("the checkpoint's samples come by seed {}{}, this run's by seed {}{}; "
                    "give the same --seed and --no-shuffle",
                    resumed.seed, resumed.shuffle ? "" : ", not shuffled", options.seed,
                    options.shuffle ? "" : ", not shuffled")));
  if (!s.ok())
    return std::move(s).at(options.resume);
  if (resumed.data != options.data)
    notes.push_back(fmt::format("the checkpoint was made with --data {}, this run goes on with {}",
                                resumed.data, options.data));
  for (const CheckpointScalar &c : resumed.scalars)
    if (c.name == "lr" && std::find(scalars.begin(), scalars.end(), lr) == scalars.end())
      notes.push_back("the checkpoint was made with a learning rate schedule, this run has none");
  std::vector<int> scale = scaleScalars(schedule);
  auto isSaved = [&](int b) {
    const std::string &name = schedule.persistent[static_cast<size_t>(b)].name;
    return std::any_of(resumed.scalars.begin(), resumed.scalars.end(),
                       [&](const CheckpointScalar &c) { return c.name == name; });
  };
  if (!std::all_of(scale.begin(), scale.end(), isSaved))
    notes.push_back("the checkpoint was made without a dynamic loss scale; it starts anew");
  updates = firstUpdate = resumed.update;
  return {};
}

// Data that cannot be evaluated is told before the first update, not after the last one.
Status Trainer::Impl::openEval() {
  const SchedProgram *eval = schedule.program("eval");
  auto returns = [&](const char *name) {
    return std::count(eval->returnNames.begin(), eval->returnNames.end(), name) == 1;
  };
  if (!eval || !returns("eval_loss") || !returns("eval_count"))
    return Status::error(
        "the plan has no program eval that returns eval_loss and eval_count; plan it "
        "with --eval");
  TRY_ASSIGN(std::vector<DataInput> inputs, dataInputs(schedule));
  TRY_ASSIGN(std::unique_ptr<DataSource> source, openData(options.evalData, std::move(inputs)));
  FeedOptions o;
  o.shuffle = false;
  o.micros = 1;
  o.onlyRank = options.process.rank;
  TRY_ASSIGN(evalFeeder, Feeder::create(schedule, std::move(source), o));
  if (evalFeeder->updatesPerEpoch() == 0)
    return Status::error("evaluation needs data with an end, found " + options.evalData);
  return {};
}

// What a device with memory of its own does not do yet.
Status Trainer::Impl::checkDevice() const {
  const Membership &p = options.process;
  if (p.rank >= 0 && p.world != world)
    return Status::error(fmt::format("the plan is for {} ranks, and there are {} processes; give "
                                     "--world-size {}",
                                     world, p.world, p.world));
  if (p.rank >= 0 && !device.api)
    return Status::error(fmt::format("ranks as processes need a device with memory of its own, and "
                                     "device {} is none; its ranks are threads: start it once, "
                                     "without mpirun or torchrun, and give --world-size",
                                     device.name));
  if (!device.api)
    return {};
  if (options.watch || options.detectAnomaly)
    return Status::error(
        fmt::format("{} looks at single instructions, which device {} does not show; "
                    "--device cpu does",
                    options.watch ? "--self-check" : "--detect-anomaly", device.name));
  return {};
}

Status Trainer::Impl::prepare() {
  world = static_cast<int>(schedule.world());
  first = std::max(options.process.rank, 0);
  local = options.process.rank < 0 ? world : 1;
  TRY(verifySchedule(schedule));
  TRY(checkSources(schedule));
  if (!device.api)
    TRY(checkMemory(schedule));
  TRY(checkDevice());
  TRY_ASSIGN(sequence, updateSequence(schedule));
  TRY(readResume());
  if (!options.evalData.empty()) {
    TRY(openEval());
    evalFeeder.reset();
  }
  bool feeds = false;
  for (const SchedProgram &p : schedule.programs)
    for (const Instr &i : p.instrs)
      feeds |= i.kind == InstrKind::Feed;
  if (feeds && options.data.empty())
    return Status::error("the plan reads data, and none is given: --data tokens:FILE, npy:DIR or "
                         "synthetic:SEED");
  if (feeds) {
    TRY_ASSIGN(std::vector<DataInput> inputs, dataInputs(schedule));
    if (!inputs.empty() && isInt(inputs[0].dtype) && inputs[0].row.size() == 1)
      tokensPerSample = inputs[0].row[0];
    TRY_ASSIGN(std::unique_ptr<DataSource> data, openData(options.data, std::move(inputs)));
    TRY_ASSIGN(feeder, Feeder::create(
                           schedule, std::move(data),
                           {options.seed, options.shuffle, firstUpdate, 0, options.process.rank}));
    if (feeder->droppedSamples() > 0)
      notes.push_back(
          fmt::format("the last {} samples of an epoch are dropped: they do not fill an "
                      "update of {}",
                      feeder->droppedSamples(), feeder->windowSamples()));
  }
  int cores = static_cast<int>(std::max(1u, std::thread::hardware_concurrency()));
  threads = options.threads > 0 ? options.threads : std::max(1, cores / local);
  // Spinning only helps while every waiting thread can have a core of its own.
  setSpins(local * (threads + 1) <= cores ? 2000 : 50);

  TRY_ASSIGN(identity,
             identityOf(schedule, fmt::format("device {} data {} seed {} shuffle {} exact {}",
                                              device.name, options.data, options.seed,
                                              options.shuffle, options.exactSums)));
  auto n = static_cast<size_t>(world);
  TRY(makeComms());
  ranks.resize(n);
  executors.resize(n);
  statuses.resize(n);
  watches.resize(options.watch ? n : 0);
  anomalies.resize(options.detectAnomaly ? n : 0);
  if (options.traceEvents > 0)
    for (size_t r = 0; r < n; ++r)
      for (int s = 0; s < kStreams; ++s)
        traces.emplace_back(usesStream(static_cast<Stream>(s)) || device.api ? options.traceEvents
                                                                             : 0);
  for (int r = first; r < first + local; ++r)
    for (int s = 0; s < kStreams; ++s)
      if (usesStream(static_cast<Stream>(s)))
        pool.emplace_back([this, r, s] { threadMain(r, static_cast<Stream>(s)); });
  post(Job::Load);
  TRY(worst());
  describe();
  if (feeder)
    TRY(feeder->start());
  return {};
}

// Between devices the vendor's library, else their reading of each other's memory.
Status Trainer::Impl::makeComms() {
  if (!device.api) {
    comms = makeLocalComms(world, abort, {options.linkBytesPerSecond});
    return {};
  }
  int32_t found = 0;
  if (world > 1 && device.api->comm)
    TRY(deviceStatus(device.api->comm->find(&found)));
  if (!found && options.process.rank >= 0)
    return Status::error("ranks as processes need NCCL, which is missing");
  if (!found) {
    for (std::unique_ptr<DeviceComm> &c : makeDeviceComms(world, abort))
      comms.push_back(std::move(c));
    return {};
  }
  comms.resize(static_cast<size_t>(world));
  std::vector<std::unique_ptr<Exchange>> exchanges;
  if (options.process.rank < 0) {
    exchanges = makeThreadExchanges(world, abort);
  } else {
    exchanges.emplace_back();
    TRY_ASSIGN(exchanges[0], joinProcesses(options.process, abort, kPatience));
  }
  for (int r = 0; r < local; ++r)
    comms[static_cast<size_t>(first + r)] = std::make_unique<NcclComm>(
        std::move(exchanges[static_cast<size_t>(r)]), abort, options.exactSums);
  notes.push_back(options.exactSums ? "ranks add in their order"
                                    : "ranks add in NCCL's order; --reduction exact: in their own");
  return {};
}

// What of the ranks' host memory is page-locked.
std::string Trainer::Impl::pinNote() const {
  int64_t pinned = 0, wanted = 0;
  for (size_t a = 0; a < schedule.arenas.size(); ++a)
    for (const auto &rank : ranks)
      if (rank && schedule.arenas[a].space == Space::Host) {
        wanted += schedule.arenas[a].bytes;
        pinned += rank->arena(a).isLocked() ? schedule.arenas[a].bytes : 0;
      }
  if (wanted == 0)
    return "pin_memory: the plan has no host memory";
  if (pinned == wanted)
    return fmt::format("page-locked: {} of host memory", sizeText(pinned));
  rlimit limit = {};
  getrlimit(RLIMIT_MEMLOCK, &limit);
  return fmt::format("page-locked: {} of {} of host memory; this process may lock {} (ulimit -l), "
                     "what is not locked can be "
                     "swapped out",
                     sizeText(pinned), sizeText(wanted),
                     limit.rlim_cur == RLIM_INFINITY
                         ? "what the machine has"
                         : sizeText(static_cast<int64_t>(limit.rlim_cur)));
}

void Trainer::Impl::describe() {
  if (const DeviceSide *d = lead().deviceSide())
    notes.push_back(fmt::format("device {}: {}{}{}{}", device.name, d->info().name,
                                d->info().emulated ? "; no GPU takes part" : "",
                                *d->info().libraries ? "; " : "", d->info().libraries));
  for (std::string &note : lead().borrowNotes(device.name))
    notes.push_back(std::move(note));
  if (const BlockFile *file = lead().file())
    notes.insert(notes.end(), file->notes().begin(), file->notes().end());
  if (options.pinHost)
    notes.push_back(pinNote());
  const std::vector<std::string> &names = lead().valueNames;
  for (size_t v = 0; v < std::size(kValueNames); ++v) {
    auto at = std::find(names.begin(), names.end(), kValueNames[v]);
    if (at != names.end())
      valueAt[v] = at - names.begin();
  }
  lrBuffer = schedule.findPersistent("lr");
  const SchedProgram *update = schedule.program("update");
  for (const Instr &i : update ? update->instrs : std::vector<Instr>()) {
    if (i.kind != InstrKind::Launch)
      continue;
    if (i.op == OpKind::ClipFactor && i.ins.size() > 1)
      scaleBuffer = resolve(schedule, *update, i.ins[1]).bufferIndex;
    if (i.op == OpKind::LossScale)
      minScale = i.attrs.f("min", 1);
  }
}

StatusOr<std::unique_ptr<Trainer>> Trainer::create(Schedule s, Device device, const RunOptions &o) {
  auto impl = std::make_unique<Impl>();
  impl->schedule = std::move(s);
  impl->device = std::move(device);
  impl->options = o;
  TRY(impl->prepare());
  return std::unique_ptr<Trainer>(new Trainer(std::move(impl)));
}

} // namespace ds
