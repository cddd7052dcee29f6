// SPDX-License-Identifier: Apache-2.0
#include "test/property/Case.h"

#include "frontend/ConfigFile.h"
#include "frontend/ConfigTable.h"
#include "ir/GraphText.h"
#include "test/property/GraphMaker.h"

#include <sstream>

namespace ds::property {

static constexpr char kSplit[] = "// -----\n";

// A shift needs a sequence: logits [samples, positions, classes].
static Status fitLoss(const Module &m, PlanConfig &c) {
  if (c.loss.shift == 0)
    return {};
  Value *out = m.program("micro")->find(c.loss.logits);
  if (out->type.rank() >= 3 && out->type.dims[out->type.rank() - 2] > c.loss.shift)
    return {};
  size_t at = c.loss.text.find(",shift=");
  TRY_ASSIGN(c.loss, parseLoss(c.loss.text.substr(0, at)));
  return {};
}

StatusOr<Case> makeCase(const CaseSpec &spec) {
  Case c;
  c.seed = spec.seed;
  c.config = spec.config;
  c.partner = spec.partner;
  c.updates = spec.updates;
  c.dataSeed = spec.seed;
  std::unique_ptr<Module> m = GraphMaker(spec.graph, c.config.microBatch).run();
  TRY(verifyModule(*m));
  TRY(fitLoss(*m, c.config));
  c.partner.loss = c.config.loss;
  for (Op &op : m->program("micro")->ops)
    if (!op.origin.module.empty())
      c.paths.emplace_back(op.result()->name, op.origin.module);
  c.module = printModule(*m);
  std::unique_ptr<Module> whole = GraphMaker(spec.graph, c.config.trainBatch).run();
  TRY(verifyModule(*whole));
  c.whole = printModule(*whole);
  return c;
}

StatusOr<std::unique_ptr<Module>> readModule(const Case &c, bool whole) {
  TRY_ASSIGN(std::unique_ptr<Module> m,
             parseModule(whole ? c.whole : c.module, whole ? "whole.dsir" : "case.dsir"));
  Program *p = m->program("micro");
  for (const auto &[name, path] : c.paths)
    if (Value *v = p ? p->find(name) : nullptr; v && v->def)
      v->def->origin.module = path;
  TRY(verifyModule(*m));
  return m;
}

// The keys that differ from their defaults, as `// WORD path=value`.
static std::string configLines(const PlanConfig &config, const char *word) {
  PlanConfig c = config, defaults;
  std::string s;
  for (const ConfigKey &k : configTable()) {
    std::string value = k.json(c);
    if (value == k.json(defaults) || value == "null")
      continue;
    if (value.size() >= 2 && value.front() == '"')
      value = value.substr(1, value.size() - 2);
    s += std::string("// ") + word + " " + k.path + "=" + value + "\n";
  }
  return s;
}

std::string caseText(const Case &c, const std::string &found) {
  std::ostringstream s;
  s << "// A case of the property test (test/property). Again: build/release/bin/property --replay "
       "THIS_FILE\n";
  std::istringstream lines(found);
  for (std::string line; std::getline(lines, line);)
    s << "// found: " << line << "\n";
  s << "// seed " << c.seed << "\n// updates " << c.updates << "\n// data " << c.dataSeed << "\n"
    << configLines(c.config, "config") << configLines(c.partner, "partner");
  for (const auto &[name, path] : c.paths)
    s << "// path " << name << "=" << path << "\n";
  s << c.module << kSplit << "// The same graph with the whole global batch as its micro-batch.\n"
    << c.whole;
  return s.str();
}

static Status readLine(Case &c, const std::string &line) {
  std::istringstream words(line);
  std::string slashes, word, rest;
  words >> slashes >> word;
  std::getline(words >> std::ws, rest);
  size_t eq = rest.find('=');
  std::string key = rest.substr(0, eq), value = eq == rest.npos ? "" : rest.substr(eq + 1);
  if (word == "seed" || word == "updates" || word == "data") {
    uint64_t n = std::strtoull(rest.c_str(), nullptr, 10);
    word == "seed" ? c.seed = n : word == "data" ? c.dataSeed = n : uint64_t(c.updates = int(n));
  } else if (word == "config") {
    return setConfigKey(c.config, key, value);
  } else if (word == "partner") {
    return setConfigKey(c.partner, key, value);
  } else if (word == "path") {
    c.paths.emplace_back(key, value);
  }
  return {};
}

StatusOr<Case> parseCase(const std::string &text, const std::string &path) {
  Case c;
  size_t split = text.find(kSplit);
  if (split == text.npos)
    return Status::error("expected two modules, separated by a line '// -----'").at(path);
  c.module = text.substr(0, split);
  c.whole = text.substr(split);
  std::istringstream lines(c.module);
  for (std::string line; std::getline(lines, line) && line.rfind("//", 0) == 0;)
    if (Status s = readLine(c, line); !s.ok())
      return std::move(s).at(path);
  if (!sameBits(c.config, c.partner))
    return Status::error("config and partner need not give the same bits").at(path);
  return c;
}

} // namespace ds::property
