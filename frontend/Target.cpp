// SPDX-License-Identifier: Apache-2.0
#include "frontend/Target.h"

#include "frontend/ConfigTable.h"
#include "frontend/Units.h"
#include "ir/Json.h"
#include "ir/Lexer.h"

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <unistd.h>
#include <variant>

namespace ds {

namespace {

constexpr size_t kMaxBytes = 1 << 20; // of a target file

struct Field {
  const char *key, *unit, *summary; // docs/targets.md is made of them
  std::variant<int64_t Target::*, double Target::*, std::string Target::*> member;
};

const std::vector<Field> &fields() {
  static const std::vector<Field> all = {
      {"name", "text", "what messages call it (default: the file's name)", &Target::name},
      {"summary", "text", "a line for people", &Target::summary},
      {"device_memory", "bytes", "memory of one rank's device; required", &Target::deviceMemory},
      {"host_memory", "bytes", "main memory per rank", &Target::hostMemory},
      {"reserve", "bytes", "device memory that library contexts take beside the plan",
       &Target::reserve},
      {"memory_bytes_per_second", "number", "rate of the device's memory", &Target::memoryRate},
      {"link_bytes_per_second", "number", "what a rank can send to its neighbours, one way",
       &Target::linkRate},
      {"flops_f32", "number", "operations per second of f32 matrix products", &Target::flopsF32},
      {"flops_16bit", "number", "operations per second of fp16 or bf16 matrix products",
       &Target::flops16Bit},
  };
  return all;
}

Status setField(Target &t, const Field &f, const JsonValue &v) {
  using Kind = JsonValue::Kind;
  auto expected = [&](const char *what) {
    return Status::error(std::string(f.key) + " is " + v.shown() + ", expected " + what);
  };
  bool number = v.kind == Kind::Number;
  if (auto *text = std::get_if<std::string Target::*>(&f.member)) {
    t.**text = v.text;
    return v.kind == Kind::String ? Status() : expected("text");
  }
  if (auto *bytes = std::get_if<int64_t Target::*>(&f.member)) {
    StatusOr<int64_t> n = number || v.kind == Kind::String ? parseBytes(v.text) : Status::error("");
    if (!n.ok() || (*bytes == &Target::deviceMemory && *n == 0))
      return expected("a size such as \"80GiB\" or a number of bytes");
    t.**bytes = *n;
    return {};
  }
  StatusOr<double> n = number ? parseDouble(v.text) : Status::error("");
  if (!n.ok() || *n <= 0)
    return expected("a number above 0");
  t.**std::get_if<double Target::*>(&f.member) = *n;
  return {};
}

StatusOr<Target> readTarget(const std::string &path) {
  errno = 0;
  std::ifstream in(path, std::ios::binary);
  std::string text(kMaxBytes + 1, '\0');
  if (in)
    in.read(text.data(), static_cast<std::streamsize>(text.size()));
  if (!in.is_open() || in.bad())
    return Status::error(std::string("the target cannot be read: ") + std::strerror(errno))
        .at(path);
  text.resize(static_cast<size_t>(in.gcount()));
  if (text.size() > kMaxBytes)
    return Status::error("the target is larger than 1 MiB").at(path);
  return parseTarget(text, path);
}

} // namespace

int64_t Target::deviceBytes(int64_t world) const {
  if (deviceMemory > 0)
    return deviceMemory;
  int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return machine / std::max<int64_t>(world, 1);
}

const std::vector<Target> &targetTable() {
  static const std::vector<Target> table = {
#define TARGET(name, device, host, reserve, memory, link, f32, bits16, summary)                    \
  Target{name,                                                                                     \
         summary,                                                                                  \
         int64_t{device} << 20,                                                                    \
         int64_t{host} << 30,                                                                      \
         int64_t{reserve} << 20,                                                                   \
         (memory)*1e9,                                                                             \
         (link)*1e9,                                                                               \
         (f32)*1e12,                                                                               \
         (bits16)*1e12},
#include "frontend/Targets.def"
  };
  return table;
}

StatusOr<Target> parseTarget(std::string_view text, const std::string &file) {
  TRY_ASSIGN(JsonValue root, parseJson(text, file));
  Lexer places(text, file);
  if (root.kind != JsonValue::Kind::Object)
    return places.error(root.pos, "the target is " + root.shown() + ", expected an object");
  Target t;
  size_t slash = file.rfind('/');
  t.name = file.substr(slash == std::string::npos ? 0 : slash + 1);
  std::vector<std::string> known;
  for (const Field &f : fields())
    known.push_back(f.key);
  Status problems;
  for (const JsonMember &m : root.members) {
    auto f = std::find_if(fields().begin(), fields().end(),
                          [&](const Field &field) { return m.key == field.key; });
    if (f == fields().end()) {
      std::string near = nearest(m.key, known);
      problems.merge(places.error(m.pos, jsonPath("", m.key) + ": unknown key" +
                                             (near.empty() ? "" : "; did you mean " + near + "?")));
    } else if (Status s = setField(t, *f, m.value); !s.ok()) {
      problems.merge(places.error(m.value.pos, s.entries()[0].text));
    }
  }
  if (!root.find("device_memory"))
    problems.merge(places.error(root.pos, "device_memory is missing, such as \"80GiB\""));
  TRY(std::move(problems));
  if (t.reserve >= t.deviceMemory)
    return places.error(root.find("reserve")->pos, "reserve is " + bytesText(t.reserve) +
                                                       ", not less than device_memory, " +
                                                       bytesText(t.deviceMemory));
  return t;
}

StatusOr<Target> findTarget(const std::string &nameOrFile) {
  if (lower(nameOrFile).ends_with(".json"))
    return readTarget(nameOrFile);
  std::vector<std::string> known;
  for (const Target &t : targetTable()) {
    if (lower(nameOrFile) == t.name)
      return t;
    known.push_back(t.name);
  }
  std::string near = nearest(lower(nameOrFile), known);
  return Status::error("unknown target '" + nameOrFile + "'" +
                       (near.empty() ? "" : "; did you mean " + near + "?"))
      .note("dsplan --target list shows those with a name; others are described in FILE.json "
            "(docs/targets.md)");
}

} // namespace ds
