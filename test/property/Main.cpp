// SPDX-License-Identifier: Apache-2.0
//
// property: draws cases from seeds, checks them, makes those that fail small and writes them to files.
#include "test/property/Shrink.h"

#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <sstream>

using namespace ds;
using namespace ds::property;

static const char kHelp[] =
    "Random small graphs under random configs: same bits as another plan, same numbers as one "
    "rank,\n"
    "gradients confirmed by differences (test/property/Check.h).\n"
    "  property [--seeds N] [--first SEED] [--out DIR]   check N seeds (60); failures are made "
    "small and\n"
    "                                                    written to DIR (property-failures)\n"
    "  property --replay FILE                            check such a file again\n"
    "  property --show SEED                              print a case without checking it\n";

struct Options {
  uint64_t seeds = 60, first = 1, show = 0;
  std::string out = "property-failures", replay;
};

static bool readNumber(const char *text, uint64_t &v) {
  const char *end = text + std::strlen(text);
  return std::from_chars(text, end, v).ptr == end && end != text;
}

static int usage(const std::string &error) {
  std::fprintf(stderr, "property: error: %s\n%s", error.c_str(), kHelp);
  return 1;
}

static std::string writeCase(const Options &o, const Shrunk &s, const std::string &program) {
  std::filesystem::create_directories(o.out);
  std::string path =
      std::filesystem::absolute(o.out) / ("seed-" + std::to_string(s.spec.seed) + ".dsir");
  std::ofstream(path) << caseText(s.small, s.failure.kind + ": " + s.failure.text);
  return path + "\n  replay: " + program + " --replay " + path;
}

static bool checkSeed(uint64_t seed, const Options &o, const std::string &program) {
  Device device = refDevice();
  Predicate fails = [&](const Case &c) { return check(c, device); };
  CaseSpec spec = drawCase(seed);
  auto c = makeCase(spec);
  Failure f = c.ok() ? fails(*c) : Failure{"generator", c.status().str()};
  if (!f)
    return true;
  std::printf("seed %llu: %s: %s\n", static_cast<unsigned long long>(seed), f.kind.c_str(),
              f.text.c_str());
  std::fflush(stdout);
  if (!c.ok())
    return false;
  Shrunk s = shrink(spec, f, fails);
  std::printf("  shrunk in %d tries to: %s: %s\n  file: %s\n", s.tried, s.failure.kind.c_str(),
              s.failure.text.c_str(), writeCase(o, s, program).c_str());
  std::fflush(stdout);
  return false;
}

static int replay(const std::string &path) {
  std::ifstream in(path);
  std::stringstream text;
  text << in.rdbuf();
  if (!in)
    return usage("cannot read " + path);
  auto c = parseCase(text.str(), path);
  if (!c.ok()) {
    std::fputs(c.status().str().c_str(), stderr);
    return 1;
  }
  Failure f = check(*c, refDevice());
  std::printf("%s: %s\n", path.c_str(), f ? (f.kind + ": " + f.text).c_str() : "passes");
  return f ? 1 : 0;
}

static int checkSeeds(const Options &o, const std::string &program) {
  auto start = std::chrono::steady_clock::now();
  uint64_t failures = 0;
  for (uint64_t s = o.first; s < o.first + o.seeds; ++s)
    failures += !checkSeed(s, o, program);
  double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  std::printf("%llu seeds from %llu: %llu failed, %.1f s\n",
              static_cast<unsigned long long>(o.seeds), static_cast<unsigned long long>(o.first),
              static_cast<unsigned long long>(failures), seconds);
  return failures ? 1 : 0;
}

int main(int argc, char **argv) {
  Options o;
  for (int i = 1; i < argc; ++i) {
    std::string flag = argv[i];
    if (flag == "--help") {
      std::fputs(kHelp, stdout);
      return 0;
    }
    if (i + 1 == argc)
      return usage("unknown flag, or a value is missing: " + flag);
    const char *value = argv[++i];
    bool ok = true;
    if (flag == "--seeds")
      ok = readNumber(value, o.seeds);
    else if (flag == "--first")
      ok = readNumber(value, o.first) && o.first > 0;
    else if (flag == "--show")
      ok = readNumber(value, o.show) && o.show > 0;
    else if (flag == "--out")
      o.out = value;
    else if (flag == "--replay")
      o.replay = value;
    else
      return usage("unknown flag " + flag);
    if (!ok)
      return usage(flag + " " + value + ": expected a number of 1 or more");
  }
  if (!o.replay.empty())
    return replay(o.replay);
  if (o.show) {
    auto c = makeCase(drawCase(o.show));
    std::fputs(c.ok() ? caseText(*c, "").c_str() : c.status().str().c_str(), stdout);
    return c.ok() ? 0 : 1;
  }
  return checkSeeds(o, argv[0]);
}
