// SPDX-License-Identifier: Apache-2.0
//
// Owns the threads: one per rank and stream that the schedule uses, which live from create to the end and take one job after the other
// (load, step, save). The caller's thread only hands out jobs and waits. A step is over when compute and feed
// threads are done; the others may still execute what is carried into the next one.
#include "runtime/Trainer.h"

#include "runtime/Anomaly.h"
#include "runtime/Checkpoint.h"
#include "runtime/CheckpointState.h"
#include "runtime/CommDevice.h"
#include "runtime/CommNccl.h"
#include "runtime/Convert.h"
#include "runtime/DeviceExecutor.h"
#include "runtime/Log.h"
#include "runtime/MachineMemory.h"
#include "runtime/Save.h"
#include "runtime/Sources.h"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <fmt/format.h>
#include <sys/resource.h>
#include <thread>

namespace ds {

namespace {
enum class Job { Load, Step, Eval, SaveModel, SaveCheckpoint, Stop };

int64_t nowNs() {
  return std::chrono::duration_cast<std::chrono::nanoseconds>(
             std::chrono::steady_clock::now().time_since_epoch())
      .count();
}
} // namespace

// In ns.
struct StreamTotals {
  int64_t compute = 0, comm = 0, exposed = 0, dataWait = 0, io = 0, exposedIo = 0;
  explicit StreamTotals(const RankExecutor &e)
      : compute(e.times(Stream::Compute).busy), comm(e.times(Stream::Comm).busy),
        exposed(e.times(Stream::Compute).commWait), dataWait(e.times(Stream::Feed).dataWait),
        exposedIo(e.times(Stream::Compute).ioWait) {
    for (Stream s : {Stream::D2h, Stream::H2d, Stream::Read, Stream::Write})
      io += e.times(s).busy;
  }
  StreamTotals() = default;
};

struct Trainer::Impl {
  Schedule schedule;
  Device device;
  RunOptions options;
  int world = 1, threads = 1;
  int first = 0, local = 1; // ranks of this process; what is kept by rank is null for others
  std::vector<size_t> sequence;
  std::unique_ptr<Feeder> feeder;
  std::unique_ptr<Feeder> evalFeeder; // during an evaluation
  Abort abort;
  Abort never; // for waits that end by themselves
  std::vector<std::unique_ptr<Comm>> comms;
  std::vector<std::unique_ptr<LoadedRank>> ranks;
  std::vector<std::unique_ptr<RankExecutor>> executors;
  RunIdentity identity;
  std::vector<std::unique_ptr<MemoryWatch>> watches;   // by rank, or empty
  std::vector<std::unique_ptr<AnomalyHook>> anomalies; // by rank, or empty
  std::vector<TraceRing> traces;                       // rank * kStreams + stream
  std::vector<std::string> notes;
  int64_t startNs = nowNs();
  int64_t updates = 0, firstUpdate = 0;
  Manifest resumed; // of options.resume
  int64_t tokensPerSample = 0;
  int64_t valueAt[4] = {-1, -1, -1, -1};
  int lrBuffer = -1, scaleBuffer = -1;
  double minScale = std::numeric_limits<double>::infinity(); // that a loss scale can fall to

  // Jobs: the caller sets the fields, then counts `posted` up; every thread counts `finished` up, compute and feed
  // threads also `stepped`.
  std::atomic<Job> job = Job::Load;
  std::string savePath;
  std::vector<Status> statuses; // by rank, of the current job
  Counter posted, stepped, finished;
  uint32_t jobs = 0;
  Enqueued lastEnqueued; // of rank 0, up to the last update
  StreamTotals last;     // of rank 0, up to the last update
  std::vector<std::thread> pool;

  Status prepare();
  void describe();
  std::string pinNote() const;
  void threadMain(int rank, Stream stream);
  void runJob(int rank, Stream stream, int64_t update);
  Status load(int rank);
  void post(Job j);
  void drain();
  bool usesStream(Stream stream) const;
  Status checkDevice() const;
  bool isLocal(int rank) const { return rank >= first && rank < first + local; }
  const LoadedRank &lead() const { return *ranks[static_cast<size_t>(first)]; }
  Status makeComms();
  Status readResume();
  Status openEval();
  StatusOr<double> firstElement(int buffer, double otherwise) const;
  Manifest manifest() const; // of this run as it stands
  Status worst();
  ~Impl();
};

static constexpr double kPatience = 120; // seconds for all processes to come
static constexpr const char *kValueNames[] = {"loss", "grad_norm", "clip", "skip"};

Trainer::Trainer(std::unique_ptr<Impl> i) : impl(std::move(i)) {}
Trainer::~Trainer() = default;

Trainer::Impl::~Impl() {
  if (!pool.empty()) {
    drain();
    job = Job::Stop;
    posted.add();
    for (std::thread &t : pool)
      t.join();
  }
  for (const auto &r : ranks)
    if (r && r->deviceSide())
      r->deviceSide()->drain();
  std::vector<std::thread> closing;
  for (const auto &c : comms)
    if (c)
      closing.emplace_back([&c] { c->close(); });
  for (std::thread &t : closing)
    t.join();
}

void Trainer::Impl::post(Job j) {
  if (j != Job::Step)
    drain(); // a thread that lags behind would take the new job for its own
  job = j;
  ++jobs;
  posted.add();
  if (j != Job::Step)
    drain();
  else
    stepped.wait(jobs * static_cast<uint32_t>(2 * local), never);
}

// Until nothing runs any more, carried instructions included: those of a device are enqueued when its threads are through.
void Trainer::Impl::drain() {
  finished.wait(jobs * static_cast<uint32_t>(pool.size()), never);
  for (const auto &r : ranks)
    if (r && r->deviceSide())
      r->deviceSide()->drain();
}

void Trainer::Impl::threadMain(int rank, Stream stream) {
  int64_t update = firstUpdate;
  for (uint32_t n = 1;; ++n) {
    posted.wait(n, never);
    Job j = job;
    if (j == Job::Stop)
      return;
    runJob(rank, stream, update);
    update += j == Job::Step;
    if (stream == Stream::Compute || stream == Stream::Feed)
      stepped.add();
    finished.add();
  }
}

void Trainer::Impl::runJob(int rank, Stream stream, int64_t update) {
  auto r = static_cast<size_t>(rank);
  if (job == Job::Step) {
    if (watches.empty() && anomalies.empty())
      return executors[r]->runUpdate(stream, update);
    if (stream != Stream::Compute)
      return;
    if (!watches.empty())
      return executors[r]->runInOrder(update, *watches[r]);
    anomalies[r]->beginUpdate();
    return executors[r]->runInOrder(update, *anomalies[r]);
  }
  if (job == Job::Eval) {
    executors[r]->runEval(stream, updates - 1, evalFeeder->updatesPerEpoch(), *evalFeeder);
    return;
  }
  if (stream != Stream::Compute)
    return;
  if (job == Job::SaveModel) {
    statuses[r] = ds::saveModel(schedule, *ranks[r], *comms[r], savePath);
    return;
  }
  if (job == Job::SaveCheckpoint) {
    statuses[r] = writeCheckpoint(schedule, *ranks[r], *comms[r], manifest(), savePath);
    return;
  }
  statuses[r] = load(rank);
  if (!statuses[r].ok())
    abort.raise(stoppedByOther()); // ranks that wait for this one in bind
}

Status Trainer::Impl::load(int rank) {
  auto r = static_cast<size_t>(rank);
  LoadOptions o;
  o.rank = rank;
  o.device = options.process.rank < 0 ? rank : options.process.device;
  o.threads = threads;
  o.arenaFill = options.arenaFill;
  o.nvmePath = options.nvmePath;
  o.nvme = options.nvme;
  o.pinHost = options.pinHost;
  TRY_ASSIGN(ranks[r], LoadedRank::load(schedule, device, o));
  if (!options.resume.empty())
    TRY(loadCheckpoint(schedule, *ranks[r], resumed, options.resume));
  if (device.api)
    comms[r]->attach(*ranks[r]->deviceSide());
  TRY(comms[r]->bind(std::move(ranks[r]->commOps), identity));
  TraceRing *rings = traces.empty() ? nullptr : &traces[r * kStreams];
  if (device.api) {
    auto onDevice = std::make_unique<DeviceExecutor>(schedule, *ranks[r], sequence, *comms[r],
                                                     feeder.get(), abort, rings);
    TRY(onDevice->prepare(options.graphs));
    executors[r] = std::move(onDevice);
  } else {
    executors[r] = std::make_unique<RankExecutor>(schedule, *ranks[r], sequence, *comms[r],
                                                  feeder.get(), abort, rings);
  }
  if (options.watch)
    watches[r] = std::make_unique<MemoryWatch>(schedule, *ranks[r]);
  if (options.detectAnomaly)
    anomalies[r] = std::make_unique<AnomalyHook>(schedule, *ranks[r]);
  return {};
}

// Compute and feed threads also do what surrounds the programs.
bool Trainer::Impl::usesStream(Stream stream) const {
  if (stream == Stream::Compute || stream == Stream::Feed)
    return true;
  if (device.api && DeviceSide::executes(stream))
    return false; // the compute thread enqueues for it
  for (const SchedProgram &p : schedule.programs)
    for (const Instr &i : p.instrs)
      if (i.stream == stream)
        return true;
  return false;
}

// The first rank's own error; what other ranks say about it is left out.
Status Trainer::Impl::worst() {
  Status consequence;
  for (size_t r = 0; r < statuses.size(); ++r) {
    if (statuses[r].ok())
      continue;
    Status s = std::move(statuses[r]);
    statuses[r] = Status();
    if (!isStoppedByOther(s))
      return world > 1 ? std::move(s).in(fmt::format("rank {}", r)) : std::move(s);
    consequence = std::move(s);
  }
  // Another process's end is known to the exchange only.
  return !consequence.ok() && abort.raised() ? abort.status() : std::move(consequence);
}

Manifest Trainer::Impl::manifest() const {
  Manifest m;
  m.model = schedule.name;
  m.update = updates;
  m.world = world;
  m.microBatch = schedule.step.microBatch;
  m.gradAccum = schedule.step.gradAccum;
  m.stage = schedule.step.stage;
  m.data = options.data;
  m.seed = options.seed;
  m.shuffle = options.shuffle;
  m.tensors = resumed.tensors;
  return m;
}

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
        traces.emplace_back(usesStream(static_cast<Stream>(s)) ? options.traceEvents : 0);
  for (int r = first; r < first + local; ++r)
    for (int s = 0; s < kStreams; ++s)
      if (usesStream(static_cast<Stream>(s)))
        pool.emplace_back([this, r, s] { threadMain(r, static_cast<Stream>(s)); });
  post(Job::Load);
  TRY(worst());
  describe();
  if (feeder)
    feeder->start();
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

// Of a persistent buffer on rank 0; `otherwise` if there is none.
StatusOr<double> Trainer::Impl::firstElement(int buffer, double otherwise) const {
  if (buffer < 0)
    return otherwise;
  const Type &type = schedule.persistent[static_cast<size_t>(buffer)].type;
  double v = otherwise;
  TRY(lead().read(buffer, 0, byteSize(type.dtype),
                  [&](int64_t, const std::byte *p, int64_t) -> Status {
                    v = toDouble(type.dtype, p, 0);
                    return {};
                  }));
  return v;
}

StatusOr<UpdateResult> Trainer::step() {
  Impl &t = *impl;
  if (t.abort.raised())
    return t.abort.status();
  int64_t begin = nowNs();
  UpdateResult u;
  TRY_ASSIGN(u.lr, t.firstElement(t.lrBuffer,
                                  u.lr)); // update uses the entry value and leaves the next one
  TRY_ASSIGN(u.lossScale, t.firstElement(t.scaleBuffer, u.lossScale));
  t.post(Job::Step);
  if (t.abort.raised())
    return t.abort.status();
  u.update = ++t.updates;
  u.stepMs = static_cast<double>(nowNs() - begin) * 1e-6;
  u.samples = t.world * t.schedule.step.microBatch * t.schedule.step.gradAccum;
  u.tokens = u.samples * t.tokensPerSample;
  const RankExecutor &e = *t.executors[static_cast<size_t>(t.first)];
  double skip = 0;
  double *fields[] = {&u.loss, &u.gradNorm, &u.clipFactor, &skip};
  for (size_t v = 0; v < std::size(fields); ++v)
    if (t.valueAt[v] >= 0)
      *fields[v] = e.values()[static_cast<size_t>(t.valueAt[v])];
  u.skipped = skip != 0;
  u.clipFactor *= u.lossScale; // the factor takes the scale out, too
  u.scaleFalls = u.skipped && u.lossScale > t.minScale;
  const AnomalyHook *earliest = nullptr;
  for (const auto &a : t.anomalies)
    if (!a->found().empty() && (!earliest || a->at() < earliest->at()))
      earliest = a.get();
  if (earliest)
    u.anomaly = earliest->found();
  StreamTotals now(e);
  u.computeMs = static_cast<double>(now.compute - t.last.compute) * 1e-6;
  u.commMs = static_cast<double>(now.comm - t.last.comm) * 1e-6;
  u.exposedCommMs = static_cast<double>(now.exposed - t.last.exposed) * 1e-6;
  u.ioMs = static_cast<double>(now.io - t.last.io) * 1e-6;
  u.exposedIoMs = static_cast<double>(now.exposedIo - t.last.exposedIo) * 1e-6;
  u.dataWaitMs = static_cast<double>(now.dataWait - t.last.dataWait) * 1e-6;
  t.last = now;
  Enqueued spent = e.enqueued();
  if (spent.instrs > t.lastEnqueued.instrs)
    u.enqueueNs = static_cast<double>(spent.ns - t.lastEnqueued.ns) /
                  static_cast<double>(spent.instrs - t.lastEnqueued.instrs);
  u.graphLaunches = spent.graphs - t.lastEnqueued.graphs;
  t.lastEnqueued = spent;
  return u;
}

Status Trainer::finish() {
  impl->drain();
  return impl->abort.raised() ? impl->abort.status() : Status();
}

StatusOr<double> Trainer::value(const std::string &name, int rank) const {
  const std::vector<std::string> &names = impl->lead().valueNames;
  auto at = std::find(names.begin(), names.end(), name);
  if (at == names.end() || !impl->isLocal(rank))
    return Status::error(fmt::format("no program returns {} on rank {}", name, rank));
  return impl->executors[static_cast<size_t>(rank)]
      ->values()[static_cast<size_t>(at - names.begin())];
}

StatusOr<EvalResult> Trainer::evaluate() {
  Impl &t = *impl;
  t.drain();
  if (t.abort.raised())
    return t.abort.status();
  TRY(t.openEval());
  t.evalFeeder->start();
  t.post(Job::Eval);
  EvalResult r;
  r.samples = t.evalFeeder->updatesPerEpoch() * t.evalFeeder->windowSamples();
  r.dropped = t.evalFeeder->droppedSamples();
  t.evalFeeder.reset();
  if (t.abort.raised())
    return t.abort.status();
  auto [sum, count] = t.executors[static_cast<size_t>(t.first)]->evaluated();
  r.loss = count > 0 ? sum / count : std::numeric_limits<double>::quiet_NaN();
  return r;
}

Status Trainer::saveModel(const std::string &path) {
  impl->drain();
  if (impl->abort.raised())
    return impl->abort.status();
  impl->savePath = path;
  impl->post(Job::SaveModel);
  return impl->worst();
}

Status Trainer::saveCheckpoint(const std::string &dir) {
  impl->drain();
  if (impl->abort.raised())
    return impl->abort.status();
  impl->savePath = dir;
  impl->post(Job::SaveCheckpoint);
  return impl->worst();
}

int64_t Trainer::updates() const { return impl->updates; }

Status Trainer::writeTrace(const std::string &path) const {
  return ds::writeTrace(path, impl->schedule, traceEvents(), impl->startNs);
}

std::vector<std::vector<TraceEvent>> Trainer::traceEvents() const {
  impl->drain();
  std::vector<std::vector<TraceEvent>> events;
  for (const TraceRing &ring : impl->traces)
    events.push_back(ring.list());
  return events;
}

StatusOr<std::vector<double>> Trainer::readParam(const std::string &name) const {
  impl->drain();
  const Schedule &s = impl->schedule;
  for (size_t b = 0; b < s.buckets.size(); ++b)
    for (const SegmentInfo &g : s.buckets[b].segments) {
      if (g.param != name && g.exportName != name)
        continue;
      StateSlot slot = weightSlot(s, b);
      const Type &type = s.persistent[static_cast<size_t>(slot.buffer)].type;
      std::vector<double> out(static_cast<size_t>(Type(type.dtype, g.shape).elems()));
      int64_t size = byteSize(type.dtype), end = g.at + static_cast<int64_t>(out.size());
      for (int64_t r = 0; r < (slot.whole ? 1 : s.world()); ++r) {
        int64_t first = firstElem(s, slot, r);
        int64_t lo = std::max(first, g.at), hi = std::min(first + type.elems(), end);
        if (lo >= hi)
          continue;
        if (!impl->isLocal(static_cast<int>(r)))
          return Status::error(fmt::format("parameter {} lies in another process, too", name));
        TRY(impl->ranks[static_cast<size_t>(r)]->read(
            slot.buffer, (lo - first) * size, (hi - lo) * size,
            [&](int64_t at, const std::byte *p, int64_t bytes) -> Status {
              for (int64_t i = 0; i < bytes / size; ++i)
                out[static_cast<size_t>(first + at / size + i - g.at)] = toDouble(type.dtype, p, i);
              return {};
            }));
      }
      return out;
    }
  return Status::error(fmt::format("there is no parameter {}", name));
}

StatusOr<std::vector<std::byte>> Trainer::readBuffer(const std::string &name, int rank) const {
  int i = impl->schedule.findPersistent(name);
  if (i < 0 || !impl->isLocal(rank))
    return Status::error(fmt::format("there is no persistent buffer {} on rank {}", name, rank));
  impl->drain();
  std::vector<std::byte> out;
  TRY(impl->ranks[static_cast<size_t>(rank)]->read(
      i, 0, impl->schedule.persistent[static_cast<size_t>(i)].bytes,
      [&](int64_t, const std::byte *p, int64_t n) -> Status {
        out.insert(out.end(), p, p + n);
        return {};
      }));
  return out;
}

const Schedule &Trainer::schedule() const { return impl->schedule; }
const std::vector<std::string> &Trainer::notes() const { return impl->notes; }
std::vector<std::string> Trainer::kernelNotes() const {
  std::vector<std::string> out;
  for (const auto &[choice, count] : impl->lead().choices)
    out.push_back(fmt::format("{} ({} instruction{})", choice, count, count == 1 ? "" : "s"));
  return out;
}
std::vector<CommTraffic> Trainer::traffic(int rank) const {
  impl->drain();
  return impl->isLocal(rank) ? impl->comms[static_cast<size_t>(rank)]->traffic()
                             : std::vector<CommTraffic>();
}
std::pair<int64_t, int64_t> Trainer::watched() const {
  std::pair<int64_t, int64_t> sum;
  for (const auto &w : impl->watches) {
    sum.first += w->instructions();
    sum.second += w->replayed();
  }
  return sum;
}
int64_t Trainer::updatesPerEpoch() const {
  return impl->feeder ? impl->feeder->updatesPerEpoch() : 0;
}
int Trainer::threads() const { return impl->threads; }
int64_t Trainer::arenaBytes(Space space) const {
  for (const ArenaInfo &a : impl->schedule.arenas)
    if (a.space == space)
      return a.bytes;
  return 0;
}
std::string Trainer::arenaText() const {
  std::string text;
  for (const ArenaInfo &a : impl->schedule.arenas)
    text += fmt::format("{}{} {}", text.empty() ? "" : ", ",
                        a.space == Space::Device ? "arena" : ds::text(a.space), sizeText(a.bytes));
  return text;
}
int64_t Trainer::ringBytes() const {
  return impl->feeder ? 2 * impl->local * impl->feeder->slotBytes() : 0;
}

} // namespace ds
