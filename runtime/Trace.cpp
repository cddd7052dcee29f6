// SPDX-License-Identifier: Apache-2.0
#include "runtime/Trace.h"

#include "ir/Json.h"
#include "runtime/File.h"

#include <fmt/format.h>

namespace ds {

std::vector<TraceEvent> TraceRing::list() const {
  std::vector<TraceEvent> out;
  size_t first = count > events.size() ? count - events.size() : 0;
  for (size_t i = first; i < count; ++i)
    out.push_back(events[i % events.size()]);
  return out;
}

Status writeTrace(const std::string &path, const Schedule &s, const std::vector<TraceRing> &rings,
                  int64_t start) {
  TRY_ASSIGN(File file, File::create(path));
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  int64_t at = 0;
  const char *separator = "\n";
  for (size_t i = 0; i < rings.size(); ++i) {
    size_t rank = i / kStreams, stream = i % kStreams;
    auto name = ds::text(static_cast<Stream>(stream));
    text += fmt::format("{}{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"args\": "
                        "{{\"name\": \"rank {}\"}}}},\n{{\"ph\": \"M\", \"name\": \"thread_name\", "
                        "\"pid\": {}, \"tid\": {}, \"args\": {{\"name\": \"{}\"}}}}",
                        separator, rank, rank, rank, stream, name);
    separator = ",\n";
    for (const TraceEvent &e : rings[i].list()) {
      const SchedProgram &p = s.programs[static_cast<size_t>(e.program)];
      const Instr &in = p.instrs[static_cast<size_t>(e.instr)];
      std::string_view op = in.kind == InstrKind::Launch ? info(in.op).text : ds::text(in.kind);
      std::string node =
          in.origin >= 0 ? s.origins[static_cast<size_t>(in.origin)].node : std::string();
      text += fmt::format(
          ",\n{{\"ph\": \"X\", \"name\": {}, \"cat\": \"{}\", \"pid\": {}, \"tid\": "
          "{}, \"ts\": {:.3f}, \"dur\": {:.3f}, \"args\": {{\"update\": {}, "
          "\"program\": {}, \"node\": {}}}}}",
          jsonQuoted(in.label), op, rank, stream, static_cast<double>(e.begin - start) * 1e-3,
          static_cast<double>(e.end - e.begin) * 1e-3, e.update, jsonQuoted(p.name),
          jsonQuoted(node));
      if (text.size() > (1 << 20)) {
        TRY(file.write(text.data(), static_cast<int64_t>(text.size()), at));
        at += static_cast<int64_t>(text.size());
        text.clear();
      }
    }
  }
  text += "\n]}\n";
  TRY(file.write(text.data(), static_cast<int64_t>(text.size()), at));
  return file.close();
}

} // namespace ds
