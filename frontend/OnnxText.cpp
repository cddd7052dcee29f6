// SPDX-License-Identifier: Apache-2.0
//
// Reads ONNX text (.onnxtext), the form of the test fixtures, with the ONNX library's parser.
#include "frontend/OnnxFile.h"

#include "onnx/defs/parser.h"

#include <algorithm>
#include <exception>

namespace ds {

Status parseOnnxText(std::string_view text, const std::string &path, onnx::ModelProto &model);

// The parser knows no comments; blanking them out keeps the line numbers of its errors.
static std::string withoutComments(std::string_view text) {
  std::string out(text);
  bool quoted = false;
  for (size_t i = 0; i + 1 < out.size(); ++i) {
    if (out[i] == '"' && (i == 0 || out[i - 1] != '\\'))
      quoted = !quoted;
    if (!quoted && out[i] == '/' && out[i + 1] == '/')
      for (; i < out.size() && out[i] != '\n'; ++i)
        out[i] = ' ';
  }
  return out;
}

// The parser recurses for every bracket in a bracket; a file must not be able to exhaust its stack.
static constexpr int kMaxNesting = 256;

static bool isTooDeep(std::string_view text) {
  int depth = 0;
  for (size_t i = 0; i < text.size(); ++i) {
    switch (text[i]) {
    case '"':
      for (++i; i < text.size() && text[i] != '"'; ++i)
        i += text[i] == '\\';
      break;
    case '#': // a comment of the parser's own
      i = std::min(text.find('\n', i), text.size());
      break;
    case '=': // the arrow in a signature closes nothing
      i += i + 1 < text.size() && text[i + 1] == '>';
      break;
    case '(':
    case '[':
    case '{':
    case '<':
      if (++depth > kMaxNesting)
        return true;
      break;
    case ')':
    case ']':
    case '}':
    case '>':
      depth -= depth > 0;
      break;
    default:
      break;
    }
  }
  return false;
}

Status parseOnnxText(std::string_view text, const std::string &path, onnx::ModelProto &model) {
  std::string source = withoutComments(text);
  if (isTooDeep(source))
    return Status::error("ONNX text: brackets are nested more than " + std::to_string(kMaxNesting) +
                         " deep")
        .at(path);
  try {
    onnx::Common::Status s = onnx::OnnxParser::Parse(model, source.c_str());
    if (!s.IsOK())
      return Status::error(s.ErrorMessage()).at(path);
  } catch (const std::exception &e) { // numbers out of range
    return Status::error(std::string("ONNX text: ") + e.what()).at(path);
  }
  return {};
}

} // namespace ds
