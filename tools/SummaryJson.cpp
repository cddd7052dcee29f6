// SPDX-License-Identifier: Apache-2.0
#include "tools/Summary.h"
#include "tools/SummaryPlans.h"

#include "llvm/Support/JSON.h"
#include "llvm/Support/raw_ostream.h"

namespace ds {

namespace {

void predictionJson(llvm::json::OStream &j, const Simulation &sim) {
  j.attributeObject("predicted", [&] {
    auto seconds = [&](const char *name, int64_t ns) {
      j.attribute(name, 1e-9 * static_cast<double>(ns));
    };
    seconds("update_seconds", sim.stepNs());
    j.attributeObject("streams", [&] {
      for (int t = 0; t < kStreams; ++t)
        j.attributeObject(text(static_cast<Stream>(t)), [&] {
          seconds("busy_seconds", sim.streams[t].busy);
          seconds("exposed_seconds", sim.streams[t].exposed);
          seconds("critical_seconds", sim.streams[t].critical);
        });
    });
  });
}

void recomputeJson(llvm::json::OStream &j, const RecomputeSummary &r, const std::string &mode) {
  j.attributeObject("recompute", [&] {
    j.attribute("mode", mode);
    j.attribute("launches", r.launches);
    j.attribute("nested", r.nested);
    j.attribute("arena_bytes_without", r.keptArena);
    j.attribute("extra_time", r.extraTime);
    if (!r.why.empty())
      j.attribute("nothing", r.why);
  });
}

void changesJson(llvm::json::OStream &j, const Explanation &e) {
  j.attributeArray("changes", [&] {
    for (const PlannedChange &p : e.changes)
      j.object([&] {
        j.attribute("flags", p.flags);
        j.attribute("arena_bytes", p.memory.arena);
        j.attribute("host_bytes", p.memory.host.arena);
        j.attribute("nvme_bytes", p.memory.nvme.arena);
        j.attribute("extra_time", p.sampleSeconds / e.now.sampleSeconds - 1);
        j.attribute("fits", p.fits);
      });
  });
}

void stageJson(llvm::json::OStream &j, const StagePlan &p, const std::optional<MemoryLimit> &limit,
               bool pinned) {
  j.object([&] {
    j.attribute("stage", p.stage);
    j.attribute("arena_bytes", p.memory.arena);
    if (limit) {
      j.attribute("spare_bytes", limit->available() - p.memory.arena);
      j.attribute("verdict", verdictText(p.memory, *limit));
    }
    j.attribute("host_bytes", p.memory.host.arena);
    j.attribute("pinned_bytes", pinned ? p.memory.host.arena : 0);
    j.attribute("nvme_bytes", p.memory.nvme.arena);
    j.attribute("lower_bound_bytes", p.memory.load);
    j.attribute("temporaries_bytes", p.memory.peak.bytes);
    j.attributeObject("persistent_bytes", [&] {
      for (auto [kind, bytes] : p.memory.persistent)
        j.attribute(text(kind), bytes);
    });
    j.attributeObject("peak", [&] {
      j.attribute("program", p.memory.peak.program);
      j.attribute("instruction", p.memory.peak.instr);
      j.attribute("module", p.memory.peak.module);
      j.attribute("node", p.memory.peak.node);
      j.attributeArray("live", [&] {
        for (size_t i = 0; i < p.memory.peak.live.size() && i < 10; ++i)
          j.object([&] {
            j.attribute("name", p.memory.peak.live[i].name);
            j.attribute("bytes", p.memory.peak.live[i].bytes);
          });
      });
    });
    j.attribute("sent_bytes", p.traffic.sentBytes);
    j.attribute("sent_scalar_bytes", p.traffic.scalarBytes);
    j.attribute("gathered_parameters", p.traffic.gatheredElems);
    j.attribute("resident_parameters", p.traffic.residentElems);
    j.attributeArray("buckets", [&] {
      for (const BucketTraffic &b : p.traffic.buckets)
        j.object([&] {
          j.attribute("name", b.bucket);
          j.attribute("elems", b.validElems);
          j.attribute("padding", b.paddingElems);
          j.attribute("gathers", b.gathers);
          j.attribute("reductions", b.reductions);
          j.attribute("sent_bytes", b.sentBytes);
          j.attribute("resident", b.resident);
        });
    });
    if (p.predicted)
      predictionJson(j, *p.predicted);
    j.attribute("plan_ms", p.planMs);
  });
}

} // namespace

StatusOr<std::string> summaryJson(const LoadedModel &model, Status &fits, bool explain) {
  TRY_ASSIGN(SummaryPlans all, summaryPlans(model, explain));
  fits = std::move(all.fits);
  const std::vector<StagePlan> &plans = all.stages;
  const std::optional<MemoryLimit> &limit = all.limit;
  std::string out;
  llvm::raw_string_ostream stream(out);
  llvm::json::OStream j(stream, 2);
  auto list = [&](const char *name, const std::vector<std::string> &items) {
    j.attributeArray(name, [&] {
      for (const std::string &i : items)
        j.value(i);
    });
  };
  j.object([&] {
    const Schedule &s = plans[model.config.stage].schedule;
    ParamCount params = countParams(s);
    j.attribute("model", s.name);
    j.attribute("stage", model.config.stage);
    j.attribute("world_size", model.config.world);
    j.attribute("micro_batch", model.config.microBatch);
    j.attribute("gradient_accumulation_steps", model.config.gradAccum);
    j.attribute("train_batch", model.config.trainBatch);
    j.attribute("parameters", params.elems);
    j.attribute("trained_parameters", params.trainedElems);
    if (limit)
      j.attributeObject("limit", [&] {
        j.attribute("name", limit->name);
        j.attribute("capacity_bytes", limit->capacity);
        j.attribute("reserve_bytes", limit->reserve);
      });
    if (all.recomputed)
      recomputeJson(j, *all.recomputed, model.config.recompute);
    if (model.gap)
      j.attributeObject("offload_auto", [&] {
        j.attribute("update_seconds", model.gap->seconds);
        j.attribute("bound_seconds", model.gap->bound);
        j.attribute("gap", model.gap->part());
      });
    if (all.explanation)
      changesJson(j, *all.explanation);
    list("assumptions", model.config.assumptions);
    list("no_effect", model.config.noEffect);
    list("warnings", model.report.warnings);
    list("unused", unusedParams(model, s));
    j.attributeArray("stages", [&] {
      for (const StagePlan &p : plans)
        stageJson(j, p, limit, pinsHost(model.config));
    });
  });
  stream << "\n";
  return out;
}

} // namespace ds
