// SPDX-License-Identifier: Apache-2.0
//
// Owns the threads: one per rank and stream that the schedule uses, which live from create to the end and take one job after the other
// (load, step, save). The caller's thread only hands out jobs and waits. A step is over when compute and feed
// threads are done; the others may still execute what is carried into the next one.
#include "runtime/TrainerImpl.h"

#include "runtime/CheckpointState.h"
#include "runtime/Convert.h"
#include "runtime/Log.h"
#include "runtime/Save.h"

#include <algorithm>
#include <fmt/format.h>

namespace ds {

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
  feeder.reset(); // its thread writes into memory of the ranks
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

// A launcher may show each process its own device alone, whatever number that has on the machine. Two processes that see the same
// one are told by NCCL.
StatusOr<int> Trainer::Impl::deviceOf(int rank) const {
  if (options.process.rank < 0)
    return rank;
  int32_t visible = 0;
  if (device.api)
    TRY(deviceStatus(device.api->count(&visible)));
  return visible == 1 ? 0 : options.process.device;
}

Status Trainer::Impl::load(int rank) {
  auto r = static_cast<size_t>(rank);
  LoadOptions o;
  o.rank = rank;
  TRY_ASSIGN(o.device, deviceOf(rank));
  o.threads = threads;
  o.arenaFill = options.arenaFill;
  o.nvmePath = options.nvmePath;
  o.nvme = options.nvme;
  o.pinHost = options.pinHost;
  // A copy from other memory would keep the thread that enqueues it.
  o.pinnedBytes = device.api && feeder ? 2 * feeder->slotBytes() : 0;
  TRY_ASSIGN(ranks[r], LoadedRank::load(schedule, device, o));
  if (!options.resume.empty())
    TRY(loadCheckpoint(schedule, *ranks[r], resumed, options.resume));
  if (device.api) {
    DeviceSide &side = *ranks[r]->deviceSide();
    comms[r]->attach(side);
    if (feeder)
      feeder->useSlots(rank, side.pin(o.pinnedBytes, 0));
  }
  TRY(comms[r]->bind(std::move(ranks[r]->commOps), identity));
  TraceRing *rings = traces.empty() ? nullptr : &traces[r * kStreams];
  if (device.api) {
    auto onDevice = std::make_unique<DeviceExecutor>(schedule, *ranks[r], sequence, *comms[r],
                                                     feeder.get(), abort, rings);
    TRY(onDevice->prepare(options.graphs && !rings)); // a graph has no times of its launches
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
  TRY(t.evalFeeder->start());
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
