// SPDX-License-Identifier: Apache-2.0
//
// dsexec --generate: text from a causal language model, one token after the other, by running it forward on a window
// of fixed length.
#pragma once

#include "ir/Status.h"
#include "tools/ForwardModel.h"

#include <optional>
#include <string>
#include <vector>

namespace ds {

/// The tokens of a model, as tools/make_tokens.py writes them: {"chars": ["a", "b", ...]}; token i is text i.
class Vocabulary {
public:
  static StatusOr<Vocabulary> read(const std::string &path);
  size_t size() const { return texts.size(); }
  /// The longest token that fits, again and again.
  StatusOr<std::vector<int64_t>> tokens(const std::string &text) const;
  std::string text(int64_t token) const { return texts[static_cast<size_t>(token)]; }

private:
  std::string path;
  std::vector<std::string> texts;
};

struct GenerateRequest {
  int64_t count = 0;  // tokens to add
  std::string prompt; // text with a vocabulary, else numbers: "1,2,3"
  std::optional<Vocabulary> vocabulary;
  std::optional<uint64_t> seed; // draw by the model's probabilities; none: the likeliest
};

/// The prompt and what follows it, as text or numbers. Tokens stand at the window's start; once it is full, it moves
/// along: the last ones. What stands behind a token has no influence on what follows it in a causal model.
StatusOr<std::string> generate(const GenerateRequest &r, Forward &model);

} // namespace ds
