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

using Curves = decltype(Target::curves);

struct Field {
  const char *key, *unit, *summary; // docs/targets.md is made of them
  std::variant<int64_t Target::*, double Target::*, std::string Target::*, Curves Target::*> member;
  double standard = 0; // of withDefaults
};

const std::vector<Field> &fields() {
  static const std::vector<Field> all = {
      {"name", "text", "what messages call it (default: the file's name)", &Target::name},
      {"summary", "text", "a line for people", &Target::summary},
      {"device", "text",
       "cuda or cpu (default): whose kernels' workspace plans hold; a row of NVIDIA's is cuda",
       &Target::device},
      {"device_memory", "bytes", "memory of one rank's device; required", &Target::deviceMemory},
      {"host_memory", "bytes", "main memory per rank", &Target::hostMemory},
      {"reserve", "bytes", "device memory that library contexts take beside the plan",
       &Target::reserve},
      {"memory_bytes_per_second", "number", "rate of the device's memory", &Target::memoryRate},
      {"link_bytes_per_second", "number", "what a rank can send to its neighbours, one way",
       &Target::linkRate},
      {"network_bytes_per_second", "number", "what a rank can send out of its machine, one way",
       &Target::networkRate, 12.5e9},
      {"flops_f32", "number", "operations per second of f32 matrix products", &Target::flopsF32},
      {"flops_16bit", "number", "operations per second of fp16 or bf16 matrix products",
       &Target::flops16Bit},
      {"host_link_bytes_per_second", "number", "between device and main memory, each way",
       &Target::hostLinkRate, 32e9},
      {"host_memory_bytes_per_second", "number", "rate of main memory, per rank",
       &Target::hostMemoryRate, 50e9},
      {"nvme_read_bytes_per_second", "number", "what a rank can read from its disks",
       &Target::nvmeReadRate, 2.5e9},
      {"nvme_write_bytes_per_second", "number", "what a rank can write to its disks",
       &Target::nvmeWriteRate, 1.25e9},
      {"launch_seconds", "number", "what each launch and copy takes beside its work",
       &Target::launchSeconds, 2e-6},
      {"collective_seconds", "number", "what each collective takes beside its steps and bytes",
       &Target::collectiveSeconds, 8.4e-6},
      {"hop_seconds", "number", "what each step of a collective takes beside its bytes",
       &Target::hopSeconds, 5.7e-6},
      {"network_hop_seconds", "number", "the same of a step between machines",
       &Target::networkHopSeconds, 14e-6},
      {"product_fraction", "number", "part of the products' rates that kernels reach",
       &Target::productFraction, 0.7},
      {"memory_fraction", "number", "part of the memories' rates that kernels reach",
       &Target::memoryFraction, 0.9},
      {"link_fraction", "number", "part of the links' rates that copies and collectives reach",
       &Target::linkFraction, 0.8},
      {"machine_ranks", "number", "ranks that share a machine; not stated: all",
       &Target::machineRanks},
      {"ranks", "number", "how many ranks the rates were measured with", &Target::ranks},
      {"curves", "object",
       "measured rates by op and type: [[amount, amount per second], ...], in operations of "
       "matrix products, else in bytes",
       &Target::curves},
  };
  return all;
}

// A curve's points, by increasing amount.
StatusOr<RateCurve> readCurve(const JsonValue &v) {
  RateCurve curve;
  for (const JsonMember &m : v.members) {
    RatePoint p;
    bool pair = m.value.kind == JsonValue::Kind::Array && m.value.members.size() == 2;
    for (int i = 0; pair && i < 2; ++i) {
      const JsonValue &number = m.value.members[static_cast<size_t>(i)].value;
      StatusOr<double> n =
          number.kind == JsonValue::Kind::Number ? parseDouble(number.text) : Status::error("");
      pair = n.ok() && *n > 0;
      (i == 0 ? p.amount : p.perSecond) = pair ? *n : 0;
    }
    if (!pair || (!curve.empty() && p.amount <= curve.back().amount))
      return Status::error("");
    curve.push_back(p);
  }
  if (v.kind != JsonValue::Kind::Array || curve.empty())
    return Status::error("");
  return curve;
}

Status setCurves(Curves &curves, const JsonValue &v) {
  if (v.kind != JsonValue::Kind::Object)
    return Status::error("curves is " + v.shown() + ", expected an object");
  for (const JsonMember &m : v.members) {
    StatusOr<RateCurve> curve = readCurve(m.value);
    if (!curve.ok())
      return Status::error("curves." + m.key +
                           " is not a list of pairs [amount, amount per second] above 0, by "
                           "increasing amount");
    curves[m.key] = *curve;
  }
  return {};
}

Status setField(Target &t, const Field &f, const JsonValue &v) {
  using Kind = JsonValue::Kind;
  auto expected = [&](const char *what) {
    return Status::error(std::string(f.key) + " is " + v.shown() + ", expected " + what);
  };
  bool number = v.kind == Kind::Number;
  if (auto *curves = std::get_if<Curves Target::*>(&f.member))
    return setCurves(t.**curves, v);
  if (auto *text = std::get_if<std::string Target::*>(&f.member)) {
    if (v.kind != Kind::String)
      return expected("text");
    if (*text == &Target::device && v.text != "cpu" && v.text != "cuda")
      return expected("\"cuda\" or \"cpu\"");
    t.**text = v.text;
    return {};
  }
  for (int64_t Target::*count : {&Target::ranks, &Target::machineRanks}) {
    if (f.member != decltype(f.member)(count))
      continue;
    StatusOr<int64_t> n = number ? parseInt(v.text) : Status::error("");
    if (!n.ok() || *n < 1)
      return expected("a whole number above 0");
    t.*count = *n;
    return {};
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

int64_t Target::perMachine(int64_t world) const {
  return machineRanks > 0 ? std::min(machineRanks, world) : world;
}

int64_t Target::deviceBytes(int64_t world) const {
  if (deviceMemory > 0)
    return deviceMemory;
  int64_t machine = static_cast<int64_t>(sysconf(_SC_PHYS_PAGES)) * sysconf(_SC_PAGESIZE);
  return machine / std::max<int64_t>(world, 1);
}

Target Target::withDefaults(std::vector<std::string> *missing) const {
  Target t = *this;
  for (const Field &f : fields()) {
    auto *number = std::get_if<double Target::*>(&f.member);
    if (!number || f.standard == 0 || t.**number > 0)
      continue;
    t.**number = f.standard;
    if (missing)
      missing->push_back(std::string(f.key) + " " + jsonNumber(f.standard));
  }
  return t;
}

const std::vector<Target> &targetTable() {
  static const std::vector<Target> table = {
#define TARGET(name, device, host, reserve, memory, link, server, network, f32, bits16, hostLink,  \
               hostMemory, nvmeRead, nvmeWrite, launch, collective, hop, products, bytes, links,   \
               summary)                                                                            \
  Target{name,                                                                                     \
         summary,                                                                                  \
         int64_t{device} << 20,                                                                    \
         int64_t{host} << 30,                                                                      \
         int64_t{reserve} << 20,                                                                   \
         (memory)*1e9,                                                                             \
         (link)*1e9,                                                                               \
         (network)*1e9,                                                                            \
         (f32)*1e12,                                                                               \
         (bits16)*1e12,                                                                            \
         (hostLink)*1e9,                                                                           \
         (hostMemory)*1e9,                                                                         \
         (nvmeRead)*1e9,                                                                           \
         (nvmeWrite)*1e9,                                                                          \
         (launch)*1e-6,                                                                            \
         (collective)*1e-6,                                                                        \
         (hop)*1e-6,                                                                               \
         0,                                                                                        \
         (products)*0.01,                                                                          \
         (bytes)*0.01,                                                                             \
         (links)*0.01,                                                                             \
         server,                                                                                   \
         0,                                                                                        \
         {},                                                                                       \
         std::string_view(summary).starts_with("NVIDIA") ? "cuda" : "cpu"},
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
