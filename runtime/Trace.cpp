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

Status emitTrace(const Schedule &s, const std::vector<std::vector<TraceEvent>> &events,
                 int64_t start, std::string_view suffix,
                 const std::function<Status(std::string_view)> &write) {
  std::string text = "{\"displayTimeUnit\": \"ms\", \"traceEvents\": [";
  const char *separator = "\n";
  for (size_t i = 0; i < events.size(); ++i) {
    size_t rank = i / kStreams, stream = i % kStreams;
    if (events[i].empty() && stream >= static_cast<size_t>(Stream::Host))
      continue; // the schedule does not use the stream
    auto name = ds::text(static_cast<Stream>(stream));
    text += fmt::format("{}{{\"ph\": \"M\", \"name\": \"process_name\", \"pid\": {}, \"args\": "
                        "{{\"name\": {}}}}},\n{{\"ph\": \"M\", \"name\": \"thread_name\", "
                        "\"pid\": {}, \"tid\": {}, \"args\": {{\"name\": \"{}\"}}}}",
                        separator, rank, jsonQuoted(fmt::format("rank {}{}", rank, suffix)), rank,
                        stream, name);
    separator = ",\n";
    for (const TraceEvent &e : events[i]) {
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
        TRY(write(text));
        text.clear();
      }
    }
  }
  text += "\n]}\n";
  return write(text);
}

Status writeTrace(const std::string &path, const Schedule &s,
                  const std::vector<std::vector<TraceEvent>> &events, int64_t start) {
  TRY_ASSIGN(File file, File::create(path));
  int64_t at = 0;
  TRY(emitTrace(s, events, start, "", [&](std::string_view text) {
    TRY(file.write(text.data(), static_cast<int64_t>(text.size()), at));
    at += static_cast<int64_t>(text.size());
    return Status();
  }));
  return file.close();
}

} // namespace ds
