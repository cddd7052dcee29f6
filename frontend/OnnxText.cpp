// SPDX-License-Identifier: Apache-2.0
//
// Reads ONNX text (.onnxtext), the form of the test fixtures, with the ONNX library's parser.
#include "frontend/OnnxFile.h"

#include "onnx/defs/parser.h"

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

Status parseOnnxText(std::string_view text, const std::string &path, onnx::ModelProto &model) {
  std::string source = withoutComments(text);
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
