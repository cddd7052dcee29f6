// SPDX-License-Identifier: Apache-2.0
#include "runtime/Log.h"

#include "ir/Json.h"

#include <cerrno>
#include <cmath>
#include <cstring>
#include <filesystem>
#include <fmt/format.h>
#include <fstream>
#include <sys/resource.h>

namespace ds {

int64_t peakResidentBytes() {
  rusage usage;
  return getrusage(RUSAGE_SELF, &usage) == 0 ? int64_t(usage.ru_maxrss) * 1024 : 0;
}

std::string sizeText(int64_t bytes) {
  const char *units[] = {"B", "KiB", "MiB", "GiB", "TiB"};
  auto v = static_cast<double>(bytes);
  size_t unit = 0;
  for (; v >= 1024 && unit + 1 < std::size(units); ++unit)
    v /= 1024;
  return unit == 0 ? fmt::format("{} B", bytes) : fmt::format("{:.1f} {}", v, units[unit]);
}

// Of a log that is gone on with: what was written after the checkpoint is written again.
static std::string linesUpTo(const std::string &path, int64_t update) {
  std::string kept;
  std::error_code e;
  if (update == 0 || !std::filesystem::is_regular_file(path, e)) // a pipe has nothing to go on with
    return kept;
  std::ifstream file(path);
  for (std::string line; std::getline(file, line);) {
    long long step = 0; // a line without its end was cut off by a kill
    if (!file.eof() && std::sscanf(line.c_str(), "{\"step\": %lld", &step) == 1 && step <= update)
      kept += line + "\n";
  }
  return kept;
}

StatusOr<std::unique_ptr<RunLog>> RunLog::create(const Trainer &t, const LogOptions &o) {
  std::unique_ptr<RunLog> log(new RunLog(t, o));
  if (!o.jsonPath.empty()) {
    std::string kept = linesUpTo(o.jsonPath, o.firstUpdate);
    log->json = std::fopen(o.jsonPath.c_str(), "we");
    if (log->json && (std::fwrite(kept.data(), 1, kept.size(), log->json) != kept.size() ||
                      std::fflush(log->json) != 0)) // a kill before the first update loses nothing
      return Status::error(fmt::format("cannot write: {}", std::strerror(errno))).at(o.jsonPath);
    if (!log->json)
      return Status::error(fmt::format("cannot create: {}", std::strerror(errno))).at(o.jsonPath);
  }
  return log;
}

RunLog::~RunLog() {
  endLine();
  if (json)
    std::fclose(json);
}

static std::string jsonLine(const UpdateResult &u, int64_t arena) {
  std::string s = fmt::format("{{\"step\": {}", u.update);
  auto number = [&](const char *key, double v) {
    s += fmt::format(", \"{}\": {}", key, jsonNumber(v));
  };
  auto millis = [&](const char *key, double v) { s += fmt::format(", \"{}\": {:.3f}", key, v); };
  number("loss", u.loss);
  number("lr", u.lr);
  number("grad_norm", u.gradNorm);
  number("clip_factor", u.clipFactor);
  number("loss_scale", u.lossScale);
  s += fmt::format(", \"skipped\": {}, \"samples\": {}, \"tokens\": {}",
                   u.skipped ? "true" : "false", u.update * u.samples, u.update * u.tokens);
  millis("step_ms", u.stepMs);
  millis("compute_ms", u.computeMs);
  millis("comm_ms", u.commMs);
  millis("exposed_comm_ms", u.exposedCommMs);
  millis("io_ms", u.ioMs);
  millis("exposed_io_ms", u.exposedIoMs);
  millis("data_wait_ms", u.dataWaitMs);
  if (!std::isnan(u.enqueueNs))
    s += fmt::format(", \"enqueue_ns\": {:.0f}, \"graph_launches\": {}", u.enqueueNs,
                     u.graphLaunches);
  return s + fmt::format(", \"device_peak_bytes\": {}, \"host_peak_bytes\": {}}}\n", arena,
                         peakResidentBytes());
}

std::string RunLog::line(const UpdateResult &u, double perSecond) const {
  std::string s = fmt::format("update {}/{}", u.update, options.totalUpdates);
  auto number = [&](const char *name, double v, const char *form) {
    if (!std::isnan(v))
      s += fmt::format("  {} {}", name, fmt::format(fmt::runtime(form), v));
  };
  number("loss", u.loss, "{:.5f}");
  number("lr", u.lr, "{:.3g}");
  number("norm", u.gradNorm, "{:.4g}");
  s += fmt::format("  {:.1f} ms  {:.0f} {}/s", u.stepMs, perSecond,
                   tokens > 0 ? "tokens" : "samples");
  if (skipped > 0)
    s += fmt::format("  {} skipped", skipped);
  return s;
}

Status RunLog::update(const UpdateResult &u) {
  ++updates;
  samples += u.samples;
  tokens += u.tokens;
  skipped += u.skipped;
  stepMs += u.stepMs;
  TRY(writeJson(jsonLine(u, trainer.arenaBytes(Space::Device))));
  if (!options.out)
    return {};
  bool last = u.update == options.totalUpdates;
  double perSecond = static_cast<double>(u.tokens > 0 ? u.tokens : u.samples) / (u.stepMs * 1e-3);
  if (options.terminal) {
    auto now = std::chrono::steady_clock::now();
    if (!last && now - lastLive < std::chrono::milliseconds(50))
      return {};
    lastLive = now;
    std::string text = "\r" + line(u, perSecond) + "\x1b[K";
    std::fputs(text.c_str(), options.out);
    live = true;
  } else if (updates == 1 || last ||
             (options.linesEvery > 0 && u.update % options.linesEvery == 0)) {
    std::fputs((line(u, perSecond) + "\n").c_str(), options.out);
  }
  std::fflush(options.out);
  return {};
}

Status RunLog::writeJson(const std::string &text) {
  if (json &&
      (std::fwrite(text.data(), 1, text.size(), json) != text.size() || std::fflush(json) != 0))
    return Status::error(fmt::format("cannot write: {}", std::strerror(errno)))
        .at(options.jsonPath);
  return {};
}

Status RunLog::evaluated(int64_t update, const EvalResult &r) {
  TRY(writeJson(fmt::format("{{\"step\": {}, \"eval_loss\": {}, \"eval_samples\": {}}}\n", update,
                            jsonNumber(r.loss), r.samples)));
  if (!options.out)
    return {};
  endLine();
  std::string dropped = r.dropped ? fmt::format(", {} dropped", r.dropped) : "";
  std::fputs(fmt::format("evaluation after update {}: loss {:.5f} ({} samples{})\n", update, r.loss,
                         r.samples, dropped)
                 .c_str(),
             options.out);
  std::fflush(options.out);
  return {};
}

void RunLog::endLine() {
  if (!live)
    return;
  std::fputs("\n", options.out);
  std::fflush(options.out);
  live = false;
}

Status RunLog::finish() {
  endLine();
  if (json && (std::fclose(std::exchange(json, nullptr)) != 0))
    return Status::error(fmt::format("cannot write: {}", std::strerror(errno)))
        .at(options.jsonPath);
  if (!options.out)
    return {};
  std::chrono::duration<double> time = std::chrono::steady_clock::now() - begin;
  double seconds = stepMs * 1e-3;
  std::string s = fmt::format("{} updates, {} samples", updates, samples);
  if (tokens > 0)
    s += fmt::format(", {} tokens", tokens);
  s += fmt::format(" in {:.1f} s", time.count());
  if (seconds > 0)
    s += tokens > 0 ? fmt::format(": {:.0f} tokens/s", static_cast<double>(tokens) / seconds)
                    : fmt::format(": {:.0f} samples/s", static_cast<double>(samples) / seconds);
  if (skipped > 0)
    s += fmt::format(", {} skipped", skipped);
  s += fmt::format("\nmemory: {} per rank, peak resident set {}\n", trainer.arenaText(),
                   sizeText(peakResidentBytes()));
  int64_t kinds[3] = {};
  for (const CommTraffic &t : trainer.traffic(0))
    kinds[t.kind == InstrKind::AllGather       ? 0
          : t.kind == InstrKind::ReduceScatter ? 1
                                               : 2] += t.bytes;
  s += fmt::format("sent by rank 0: all_gather {}, reduce_scatter {}, all_reduce {}\n",
                   sizeText(kinds[0]), sizeText(kinds[1]), sizeText(kinds[2]));
  std::fputs(s.c_str(), options.out);
  std::fflush(options.out);
  return {};
}

} // namespace ds
