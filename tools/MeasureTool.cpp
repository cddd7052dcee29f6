// SPDX-License-Identifier: Apache-2.0
#include "tools/MeasureTool.h"

#include "frontend/Units.h"
#include "ir/GraphText.h"
#include "ir/Json.h"
#include "passes/Cost.h"
#include "passes/Passes.h"
#include "passes/Report.h"
#include "runtime/Trainer.h"
#include "tools/Devices.h"
#include "tools/MeasureModels.h"
#include "tools/PlanArgs.h"
#include "tools/Workspace.h"

#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <algorithm>
#include <cerrno>
#include <chrono>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <set>
#include <thread>
#include <unistd.h>

namespace cl = llvm::cl;

namespace ds {

static cl::opt<std::string>
    measurePath("measure-target", cl::value_desc("FILE.json"),
                cl::desc("Instead of training a model, measure this machine and write it as a\n"
                         "target for dsplan, for the ranks that --world-size gives (default: 1)"));

StatusOr<bool> asksForMeasure() {
  if (!measurePath.getNumOccurrences())
    return false;
  static const std::set<llvm::StringRef> fine = {"measure-target", "world-size", "num-gpus",
                                                 "ranks",          "threads",    "device"};
  Status s;
  for (auto &entry : cl::getRegisteredOptions())
    if (entry.second->getNumOccurrences() && entry.second->hasArgStr() &&
        !fine.count(entry.first()))
      s.merge(Status::error("--" + entry.first().str() + " cannot be used with --measure-target"));
  if (!llvm::StringRef(measurePath).endswith(".json"))
    s.merge(Status::error("--measure-target " + measurePath + ": targets are FILE.json"));
  TRY(std::move(s));
  return true;
}

namespace {

// Of each model: at least so many updates, and so many seconds.
constexpr int kUpdates = 6;
constexpr double kSeconds = 0.5;

struct Sample {
  double amount = 0, seconds = 0;
};

/// Times of every instruction, by op and type, and the gaps between launches that wait for nothing.
struct Measured {
  std::map<std::string, std::vector<Sample>> samples;
  std::vector<double> gaps;
};

StatusOr<Schedule> planModel(const MeasureModel &model, int64_t world, int threads) {
  TRY_ASSIGN(std::unique_ptr<Module> m, parseModule(model.text, "measured.dsir"));
  PlanConfig c;
  c.world = world;
  c.stage = world > 1 ? 3 : 0;
  c.persistenceThreshold = 0;
  c.microBatch = model.rows;
  c.gradAccum = 1;
  c.trainBatch = model.rows * world;
  c.optimizer.type = "adamw";
  c.precision.bf16 = model.half;
  c.fuse = model.fuse ? "on" : "off";
  c.loss.kind = LossConfig::Kind::CrossEntropy;
  c.loss.logits = "logits";
  c.loss.labels = "labels";
  TRY_ASSIGN(c.workspaceBytes, workspaceRule(c, threads));
  return planSchedule(*m, c);
}

std::string keyOf(const Schedule &s, const SchedProgram &p, const Instr &i) {
  PlaceRef first = i.ins.empty() ? i.outs[0] : i.ins[0];
  std::string_view op = i.kind == InstrKind::Launch ? info(i.op).text : text(i.kind);
  return std::string(op) + " " + std::string(text(resolve(s, p, first).type->dtype));
}

double amountOf(const Schedule &s, const SchedProgram &p, const Instr &i) {
  if (isCollective(i.kind))
    return static_cast<double>(sentBytes(s, p, i));
  double flops = productFlops(s, p, i);
  return flops > 0 ? flops : movedBytes(s, p, i);
}

// What threads of the compute stream did one after the other without a wait between.
void addGaps(const Schedule &s, const std::vector<TraceEvent> &events, Measured &m) {
  for (size_t k = 1; k < events.size(); ++k) {
    const TraceEvent &a = events[k - 1], &b = events[k];
    const Instr &i =
        s.programs[static_cast<size_t>(b.program)].instrs[static_cast<size_t>(b.instr)];
    if (a.program == b.program && a.update == b.update && i.waits.empty() && i.carriedWaits.empty())
      m.gaps.push_back(1e-9 * static_cast<double>(b.begin - a.end));
  }
}

// Seconds of each instruction, by program and number: the least over updates and ranks, since other work on the machine
// only adds to it.
std::map<std::pair<size_t, size_t>, double>
leastTimes(const std::vector<std::vector<TraceEvent>> &traces) {
  std::map<std::pair<size_t, size_t>, double> least;
  for (const auto &events : traces)
    for (const TraceEvent &e : events) {
      double took = std::max(1e-9, 1e-9 * static_cast<double>(e.end - e.begin));
      auto [it, added] =
          least.try_emplace({static_cast<size_t>(e.program), static_cast<size_t>(e.instr)}, took);
      it->second = std::min(it->second, took);
    }
  return least;
}

Status measureModel(const MeasureModel &model, int64_t world, int threads, const Device &device,
                    Measured &m) {
  TRY_ASSIGN(Schedule s, planModel(model, world, threads));
  RunOptions o;
  o.data = "synthetic:1";
  o.threads = threads;
  o.traceEvents = 1 << 14;
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(s, device, o));
  auto start = std::chrono::steady_clock::now();
  std::chrono::duration<double> spent(0);
  for (int u = 0; u < kUpdates || spent.count() < kSeconds; ++u) {
    TRY(t->step().status());
    spent = std::chrono::steady_clock::now() - start;
  }
  std::vector<std::vector<TraceEvent>> traces = t->traceEvents();
  for (size_t r = 0; r < traces.size(); r += kStreams)
    addGaps(s, traces[r], m);
  for (const auto &[at, took] : leastTimes(traces)) {
    const SchedProgram &p = s.programs[at.first];
    const Instr &i = p.instrs[at.second];
    double amount = amountOf(s, p, i);
    if (amount > 0 && (i.kind == InstrKind::Launch || isCollective(i.kind)))
      m.samples[keyOf(s, p, i)].push_back({amount, took});
  }
  return {};
}

// Samples whose amounts differ by less than a third make one point, with the median of their rates.
RateCurve curveOf(std::vector<Sample> samples) {
  std::sort(samples.begin(), samples.end(),
            [](const Sample &a, const Sample &b) { return a.amount < b.amount; });
  RateCurve curve;
  for (size_t k = 0; k < samples.size();) {
    double first = samples[k].amount, amount = 0;
    std::vector<double> rates;
    for (; k < samples.size() && samples[k].amount < 1.33 * first; ++k) {
      amount += samples[k].amount;
      rates.push_back(samples[k].amount / samples[k].seconds);
    }
    auto middle = rates.begin() + static_cast<long>(rates.size() / 2);
    std::nth_element(rates.begin(), middle, rates.end());
    curve.push_back({amount / static_cast<double>(rates.size()), *middle});
  }
  return curve;
}

// One thread copies more than caches hold: what streams between device and main memory do on this device.
double copyRate() {
  constexpr size_t kBytes = size_t(128) << 20;
  std::vector<char> from(kBytes, 1), to(kBytes, 2);
  double best = 1e9;
  for (int k = 0; k < 5; ++k) {
    auto start = std::chrono::steady_clock::now();
    std::memcpy(to.data(), from.data(), kBytes);
    std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
    best = std::min(best, took.count());
    from[static_cast<size_t>(k)] = to[kBytes - 1 - static_cast<size_t>(k)];
  }
  return kBytes / best;
}

double largestRate(const RateCurve &c) {
  double best = 0;
  for (const RatePoint &p : c)
    best = std::max(best, p.perSecond);
  return best;
}

std::string number(double v) { // four digits
  char text[32];
  std::snprintf(text, sizeof text, "%.4g", v);
  return text;
}

std::string targetText(const std::map<std::string, RateCurve> &curves, const Measured &m,
                       int64_t world, const std::string &device, int threads) {
  auto curve = [&](const char *key) {
    auto it = curves.find(key);
    return it == curves.end() ? RateCurve() : it->second;
  };
  Target cpu = *findTarget("cpu");
  std::string out = "{\n";
  auto line = [&](const char *key, const std::string &value) {
    out += "  " + jsonQuoted(key) + ": " + value + ",\n";
  };
  auto rate = [&](const char *key, double value) {
    if (value > 0)
      line(key, number(value));
  };
  line("name", jsonQuoted(device + " x " + std::to_string(world)));
  line("summary", jsonQuoted("measured with " + std::to_string(world) + " ranks of " +
                             std::to_string(threads) + " threads"));
  line("device", jsonQuoted(device == "cuda" ? "cuda" : "cpu"));
  line("ranks", std::to_string(world));
  line("device_memory", std::to_string(cpu.deviceBytes(world)));
  line("reserve", std::to_string(cpu.reserve));
  RateCurve adds = curve("add f32"), gathers = curve("all_gather f32");
  rate("memory_bytes_per_second", adds.empty() ? 0 : adds.back().perSecond);
  rate("host_memory_bytes_per_second", adds.empty() ? 0 : adds.back().perSecond);
  rate("host_link_bytes_per_second", copyRate());
  rate("link_bytes_per_second", gathers.empty() ? 0 : gathers.back().perSecond);
  rate("flops_f32", largestRate(curve("matmul f32")));
  rate("flops_16bit", largestRate(curve("matmul bf16")));
  for (const char *key : {"product_fraction", "memory_fraction", "link_fraction"})
    line(key, "1");
  std::vector<double> gaps = m.gaps; // the lower quarter: the others have had other work between
  auto quarter = gaps.begin() + static_cast<long>(gaps.size() / 4);
  std::nth_element(gaps.begin(), quarter, gaps.end());
  rate("launch_seconds", gaps.empty() ? 0 : *quarter);
  double least = 0; // collective: the one with the least to send
  if (auto it = m.samples.find("all_reduce i64"); it != m.samples.end())
    for (const Sample &s : it->second)
      least = least > 0 ? std::min(least, s.seconds) : s.seconds;
  rate("collective_seconds", least);
  rate("hop_seconds", least > 0 ? 1e-9 : 0);
  out += "  \"curves\": {\n";
  for (auto it = curves.begin(); it != curves.end(); ++it) {
    out += "    " + jsonQuoted(it->first) + ": [";
    for (const RatePoint &p : it->second)
      out += (&p == &it->second[0] ? "[" : ", [") + number(p.amount) + ", " + number(p.perSecond) +
             "]";
    out += std::next(it) == curves.end() ? "]\n" : "],\n";
  }
  return out + "  }\n}\n";
}

} // namespace

Status runMeasure(const std::string &deviceName, int threads) {
  TRY_ASSIGN(PlanConfig flags, configFromFlags(/*updates=*/{}, /*assume=*/true));
  auto source = flags.source.find("dsplan.world_size");
  int64_t world = source != flags.source.end() && source->second == "assumed" ? 1 : flags.world;
  if (threads <= 0)
    threads = std::max<int>(1, std::thread::hardware_concurrency() / static_cast<int>(world));
  TRY_ASSIGN(Device device, findDevice(deviceName));
  planForDevice(device.name);
  std::string folder = std::filesystem::path(measurePath.getValue()).parent_path().string();
  if (access(folder.empty() ? "." : folder.c_str(), W_OK | X_OK) != 0)
    return Status::error("cannot be written: " + std::string(std::strerror(errno))).at(measurePath);
  Measured m;
  std::vector<MeasureModel> models = measureModels();
  for (size_t k = 0; k < models.size(); ++k) {
    TRY(measureModel(models[k], world, threads, device, m));
    llvm::outs() << "measured training " << k + 1 << " of " << models.size() << "\n";
    llvm::outs().flush();
  }
  std::map<std::string, RateCurve> curves;
  for (auto &[key, samples] : m.samples) {
    RateCurve curve = curveOf(samples);
    // What was seen on a few bytes only says nothing about more.
    bool collective = llvm::StringRef(key).startswith("all_") ||
                      llvm::StringRef(key).startswith("reduce_scatter");
    if (collective || curve.back().amount >= 1 << 16)
      curves[key] = std::move(curve);
  }
  std::ofstream file(measurePath);
  file << targetText(curves, m, world, device.name, threads);
  file.close();
  if (!file)
    return Status::error("cannot be written").at(measurePath);
  TRY_ASSIGN(Target t, findTarget(measurePath));
  llvm::outs() << measurePath << ": " << t.curves.size() << " curves; f32 "
               << number(t.flopsF32 / 1e9) << " GFLOP/s, bf16 " << number(t.flops16Bit / 1e9)
               << " GFLOP/s, memory " << number(t.memoryRate / 1e9) << " GB/s\n";
  return {};
}

} // namespace ds
