// SPDX-License-Identifier: Apache-2.0
#include "test/unit/Gpt2.h"

#include "tools/Devices.h"
#include "tools/Workspace.h"

#include "llvm/Support/JSON.h"

#include <cmath>
#include <cstring>
#include <fstream>
#include <sstream>

namespace ds::test {

std::string inTree(const std::string &path) { return std::string(DS_SOURCE_DIR) + "/" + path; }

StatusOr<Schedule> planGpt2(const Gpt2Run &run) {
  PlanConfig c = run.config;
  if (run.device == "cpu")
    c.workspaceBytes = workspaceRule("cpu", run.threads, c.world);
  ImportOptions o;
  o.microBatch = c.microBatch;
  if (run.sequence)
    o.dims = {{"seq", run.sequence}};
  TRY_ASSIGN(std::unique_ptr<Module> m, importOnnx(inTree(run.model), o));
  return planSchedule(*m, c);
}

StatusOr<std::unique_ptr<Trainer>> startGpt2(const Gpt2Run &run) {
  TRY_ASSIGN(Schedule s, planGpt2(run));
  TRY_ASSIGN(Device d, findDevice(run.device));
  RunOptions o;
  o.data = "tokens:" + inTree(run.tokens);
  o.shuffle = false;
  o.threads = run.threads;
  o.linkBytesPerSecond = run.linkBytesPerSecond;
  o.traceEvents = run.traceEvents;
  return Trainer::create(std::move(s), std::move(d), o);
}

template <typename T>
static std::vector<double> numbers(const std::string &bytes, size_t at, size_t end) {
  std::vector<double> out((end - at) / sizeof(T));
  for (double &v : out) {
    T x;
    std::memcpy(&x, bytes.data() + at, sizeof x);
    at += sizeof x;
    v = static_cast<double>(x);
  }
  return out;
}

Tensors readSafetensors(const std::string &path) {
  std::stringstream file;
  file << std::ifstream(path, std::ios::binary).rdbuf();
  std::string bytes = file.str();
  uint64_t headerSize = 0;
  if (bytes.size() < sizeof headerSize)
    return {};
  std::memcpy(&headerSize, bytes.data(), sizeof headerSize);
  auto header = llvm::json::parse(llvm::StringRef(bytes).substr(8, headerSize));
  if (!header) {
    llvm::consumeError(header.takeError());
    return {};
  }
  Tensors out;
  for (auto &entry : *header->getAsObject()) {
    auto *o = entry.second.getAsObject();
    if (entry.first == "__metadata__" || !o)
      continue;
    auto *offsets = o->getArray("data_offsets");
    size_t at = 8 + headerSize + *(*offsets)[0].getAsInteger();
    size_t end = 8 + headerSize + *(*offsets)[1].getAsInteger();
    out[entry.first.str()] = *o->getString("dtype") == "F64" ? numbers<double>(bytes, at, end)
                                                             : numbers<float>(bytes, at, end);
  }
  return out;
}

Tensors weightsOf(const Trainer &t) {
  Tensors out;
  for (const BucketInfo &b : t.schedule().buckets)
    for (const SegmentInfo &s : b.segments)
      if (auto v = t.readParam(s.param); v.ok())
        out[s.exportName] = std::move(*v);
  return out;
}

Tensors gradientsOf(const Trainer &t) {
  const Schedule &s = t.schedule();
  Tensors out;
  for (const BucketInfo &b : s.buckets) {
    int index = s.findPersistent(b.name + ".red");
    if (index < 0)
      index = s.findPersistent(b.name + ".acc");
    if (index < 0)
      continue;
    const Buffer &buffer = s.persistent[index];
    int64_t ranks = buffer.type.isShard() ? s.world() : 1;
    std::string bytes;
    for (int rank = 0; rank < ranks; ++rank)
      if (auto part = t.readBuffer(buffer.name, rank); part.ok())
        bytes.append(reinterpret_cast<const char *>(part->data()), part->size());
    std::vector<double> all = buffer.type.dtype == DType::F64
                                  ? numbers<double>(bytes, 0, bytes.size())
                                  : numbers<float>(bytes, 0, bytes.size());
    for (const SegmentInfo &g : b.segments) {
      int64_t n = Type(b.dtype, g.shape).elems();
      out[g.exportName].assign(all.begin() + g.at, all.begin() + g.at + n);
    }
  }
  return out;
}

double relativeDistance(const std::vector<double> &a, const std::vector<double> &b) {
  double difference = 0, norm = 0;
  for (size_t i = 0; i < b.size(); ++i) {
    difference += (a[i] - b[i]) * (a[i] - b[i]);
    norm += b[i] * b[i];
  }
  return norm == 0 ? std::sqrt(difference) : std::sqrt(difference / norm);
}

} // namespace ds::test
