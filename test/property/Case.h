// SPDX-License-Identifier: Apache-2.0
//
// A case of the property test as text: self-contained, so that a file replays it without the generator.
#pragma once

#include "frontend/Config.h"
#include "ir/Graph.h"
#include "test/property/Spec.h"

namespace ds::property {

struct Case {
  uint64_t seed = 0;  // it was drawn from; 0: written by hand
  std::string module; // .dsir, micro-batch of `config`
  std::string whole;  // the same graph whose micro-batch is the whole global batch
  std::vector<std::pair<std::string, std::string>> paths; // value -> module path of its op
  PlanConfig config, partner;
  int updates = 1;
  uint64_t dataSeed = 1;
};

/// Errors: the generator made something that does not verify.
StatusOr<Case> makeCase(const CaseSpec &spec);

/// Parses, restores module paths and verifies.
StatusOr<std::unique_ptr<Module>> readModule(const Case &c, bool whole);

/// The case as a .dsir file with two modules behind `// -----` and everything else in comments; `found` is what
/// went wrong.
std::string caseText(const Case &c, const std::string &found);
StatusOr<Case> parseCase(const std::string &text, const std::string &path);

} // namespace ds::property
