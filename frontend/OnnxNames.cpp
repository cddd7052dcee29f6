// SPDX-License-Identifier: Apache-2.0
//
// Names and module paths, shortened once at import. A value is named after the module that made it:
//   /model/layers.0/mlp/fc1/MatMul_output_0   ->  layers.0.mlp.fc1        (a module's main operator)
//   /model/layers.0/mlp/act/Tanh_output_0     ->  layers.0.mlp.act.tanh
// Modules come from the exporter's metadata if there is any, else from the node's name, so that both
// exporters of PyTorch give one model the same names.
#include "frontend/OnnxImporter.h"

#include <algorithm>
#include <cctype>

namespace ds {

std::string sanitized(std::string_view s) {
  std::string out;
  for (char c : s)
    out += std::isalnum(static_cast<unsigned char>(c)) || c == '_' || c == '.' ? c : '_';
  if (out.empty() || (!std::isalpha(static_cast<unsigned char>(out[0])) && out[0] != '_'))
    out.insert(out.begin(), '_');
  return out;
}

std::string symbolName(std::string_view initializer) { return sanitized(initializer); }

std::string wrapperOf(std::string_view path) {
  for (std::string_view wrapper : {"model.", "module."})
    if (path.size() > wrapper.size() && path.substr(0, wrapper.size()) == wrapper)
      return std::string(wrapper);
  return "";
}

static std::string withoutWrapper(const std::string &path) {
  return path == "model" || path == "module" ? "" : path.substr(wrapperOf(path).size());
}

std::string moduleOf(std::string_view initializer) {
  size_t dot = initializer.rfind('.');
  return sanitized(withoutWrapper(std::string(initializer.substr(0, dot))));
}

// The strings of a Python list, as the exporter prints it: ['', 'layers.0', 'linear'].
static std::vector<std::string> pythonList(const std::string &s) {
  std::vector<std::string> out;
  for (size_t i = 0; i < s.size(); ++i) {
    if (s[i] != '\'' && s[i] != '"')
      continue;
    size_t end = s.find(s[i], i + 1);
    if (end == std::string::npos)
      break;
    out.push_back(s.substr(i + 1, end - i - 1));
    i = end;
  }
  return out;
}

// Metadata lists the modules from the outermost to the innermost, then the traced operation.
static std::string fromMetadata(const onnx::NodeProto &n) {
  for (const auto &p : n.metadata_props()) {
    if (p.key() != "pkg.torch.onnx.name_scopes")
      continue;
    std::vector<std::string> scopes = pythonList(p.value());
    if (!scopes.empty())
      scopes.pop_back();
    while (!scopes.empty() && scopes.back().empty())
      scopes.pop_back();
    return scopes.empty() ? "" : scopes.back();
  }
  return "";
}

// The part is the next one without its indices: "features" before "features.0.1".
static bool isContainerOf(llvm::StringRef part, llvm::StringRef next) {
  return next.consume_front(part) && next.consume_front(".") &&
         next.find_first_not_of(".0123456789") == llvm::StringRef::npos;
}

// "/model/layers.0/mlp/fc1/MatMul" -> "model.layers.0.mlp.fc1". A part is a module's last name and the indices behind it, so
// a Sequential, which is called itself, stands before its children as well: "/mlp/mlp.0/Gemm" -> "mlp.0".
static std::string fromPath(const std::string &name) {
  size_t slash = name.rfind('/');
  if (slash == std::string::npos || name[0] != '/' || slash == 0)
    return "";
  llvm::SmallVector<llvm::StringRef, 8> parts;
  llvm::StringRef(name).slice(1, slash).split(parts, '/');
  std::string path;
  for (size_t i = 0; i < parts.size(); ++i)
    if (i + 1 == parts.size() || !isContainerOf(parts[i], parts[i + 1]))
      path += (path.empty() ? "" : ".") + parts[i].str();
  return path;
}

std::string modulePath(const onnx::NodeProto &n) {
  std::string path = fromMetadata(n);
  if (path.empty())
    path = fromPath(n.name());
  return path.empty() ? "" : sanitized(withoutWrapper(path));
}

// A module's main operator gives its value the module's own name.
static bool isMainOperator(const std::string &op) {
  static const char *const kMain[] = {"MatMul", "Gemm", "Conv", "Gather", "LayerNormalization"};
  return std::find(std::begin(kMain), std::end(kMain), op) != std::end(kMain);
}

static std::string lowered(const std::string &s) {
  std::string out = s;
  std::transform(out.begin(), out.end(), out.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return out;
}

std::string shortName(const OnnxNode &n, size_t output) {
  const std::string &value = n.proto->output(static_cast<int>(output));
  std::string base;
  if (!n.module.empty()) {
    base = isMainOperator(n.op()) ? n.module : n.module + "." + lowered(n.op());
    if (n.proto->output_size() > 1)
      base += "." + std::to_string(output);
    return sanitized(base);
  }
  base = value;
  size_t at = base.rfind("_output_");
  if (at != std::string::npos && base.size() > 1 && base[0] == '/')
    base = base.substr(1, at - 1) + (output ? "." + std::to_string(output) : "");
  std::replace(base.begin(), base.end(), '/', '.');
  return sanitized(base);
}

} // namespace ds
