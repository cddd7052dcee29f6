// SPDX-License-Identifier: Apache-2.0
//
// Graph inputs: dimensions bound (--dim, --shape, the micro-batch), values bound (--const, --bind), the rest
// declared as inputs of the program. Every dimension left open is reported in one error.
#include "frontend/OnnxImporter.h"

#include "ir/SourceText.h"

#include <algorithm>
#include <charconv>
#include <cmath>

namespace ds {
namespace {

struct Input {
  const onnx::ValueInfoProto *info;
  DType dtype;
  Dims dims; // -1: open
  std::vector<std::string> symbols;
  bool isData = true; // not bound to a value
};

std::string dimText(const Input &in, size_t i) {
  return "dimension " + std::to_string(i) +
         (in.symbols[i].empty() ? "" : " (" + in.symbols[i] + ")");
}

class Binder {
public:
  explicit Binder(Importer &im) : im(im), o(im.options) {}

  Status run() {
    TRY(readInputs());
    TRY(checkNames());
    TRY(applyShapes());
    TRY(applyFed());
    if (!o.microBatchAssumed)
      TRY(applyMicroBatch());
    TRY(applyDims());
    if (o.microBatchAssumed)
      TRY(applyMicroBatch());
    TRY(applyExamples());
    TRY(checkBound());
    for (Input &in : inputs)
      TRY(declare(in));
    return {};
  }

private:
  Status readInputs() {
    std::unordered_set<std::string> initializers;
    for (const auto &t : im.file.model.graph().initializer())
      initializers.insert(t.name());
    for (const onnx::ValueInfoProto &v : im.file.model.graph().input()) {
      if (initializers.count(v.name())) // before IR 4 initializers are listed as inputs, too
        continue;
      if (!v.type().has_tensor_type())
        return Status::error("input " + v.name() + " is not a tensor");
      const auto &t = v.type().tensor_type();
      Input in{&v, DType::F32, {}, {}};
      StatusOr<DType> d = coreType(t.elem_type());
      if (!d.ok())
        return Status::error("input " + v.name() + ": " + d.status().entries().front().text);
      in.dtype = *d;
      im.report.inputs.push_back(sanitized(v.name()));
      if (!t.has_shape() && !o.shapes.count(v.name()) && !o.fed.count(sanitized(v.name())))
        return Status::error("input " + v.name() + " has no shape")
            .note("give it with --shape " + v.name() + "=AxB");
      for (const auto &dim : t.shape().dim()) {
        bool fixed = dim.has_dim_value() && dim.dim_value() >= 0;
        in.dims.push_back(fixed ? dim.dim_value() : -1);
        in.symbols.push_back(fixed ? "" : dim.dim_param());
        if (!fixed && !dim.dim_param().empty())
          addSymbol(dim.dim_param());
      }
      in.isData = !o.consts.count(v.name()) && !o.binds.count(v.name());
      inputs.push_back(std::move(in));
    }
    return {};
  }

  void addSymbol(const std::string &s) {
    auto &all = im.report.symbolicDims;
    if (std::find(all.begin(), all.end(), s) == all.end())
      all.push_back(s);
  }

  std::vector<std::string> inputNames() const {
    std::vector<std::string> names;
    for (const Input &in : inputs)
      names.push_back(in.info->name());
    return names;
  }

  static std::string suggest(const std::string &name, const std::vector<std::string> &all) {
    std::string n = nearest(name, all), list;
    for (const std::string &s : all)
      list += (list.empty() ? "" : ", ") + s;
    return n.empty() ? "; there are: " + (list.empty() ? "none" : list)
                     : "; did you mean " + n + "?";
  }

  Status checkNames() const {
    Status all;
    std::vector<std::string> names = inputNames();
    auto known = [&](const std::string &flag, const std::string &name) {
      if (std::find(names.begin(), names.end(), name) == names.end())
        all.merge(Status::error(flag + " " + name + ": the model has no input of that name" +
                                suggest(name, names)));
    };
    for (auto &[name, dims] : o.shapes)
      known("--shape", name);
    for (auto &[name, v] : o.consts)
      known("--const", name);
    for (auto &[name, v] : o.binds)
      known("--bind", name);
    const auto &symbols = im.report.symbolicDims;
    for (auto &[name, v] : o.dims) {
      if (std::find(symbols.begin(), symbols.end(), name) == symbols.end())
        all.merge(Status::error("--dim " + name +
                                ": the model's inputs have no dimension of that name" +
                                suggest(name, symbols)));
      else if (v < 0)
        all.merge(
            Status::error("--dim " + name + "=" + std::to_string(v) + ": expected 0 or more"));
    }
    return all;
  }

  // Sets an open dimension, and all others with its symbol.
  Status bind(Input &in, size_t i, int64_t v, const std::string &by) {
    if (in.dims[i] >= 0 && in.dims[i] != v)
      return Status::error("input " + in.info->name() + ": " + dimText(in, i) + " is " +
                           std::to_string(in.dims[i]) + ", " + by + " asks for " +
                           std::to_string(v));
    in.dims[i] = v;
    std::string symbol = in.symbols[i];
    if (symbol.empty())
      return {};
    for (Input &other : inputs)
      for (size_t k = 0; k < other.dims.size(); ++k)
        if (other.symbols[k] == symbol) {
          if (other.dims[k] >= 0 && other.dims[k] != v)
            return Status::error("dimension " + symbol + " is " + std::to_string(other.dims[k]) +
                                 " and " + std::to_string(v) + " (" + by + ")");
          other.dims[k] = v;
        }
    return {};
  }

  Status applyShapes() {
    for (Input &in : inputs) {
      auto it = o.shapes.find(in.info->name());
      if (it == o.shapes.end())
        continue;
      if (!in.info->type().tensor_type().has_shape()) {
        in.dims.assign(it->second.size(), -1);
        in.symbols.assign(it->second.size(), "");
      }
      if (it->second.size() != in.dims.size())
        return Status::error("--shape " + in.info->name() + " has " +
                             std::to_string(it->second.size()) + " dimensions, the input has " +
                             std::to_string(in.dims.size()));
      for (size_t i = 0; i < in.dims.size(); ++i)
        TRY(bind(in, i, it->second[i], "--shape"));
    }
    return {};
  }

  Status applyFed() {
    for (Input &in : inputs) {
      auto it = o.fed.find(sanitized(in.info->name()));
      if (it == o.fed.end())
        continue;
      const Dims &dims = it->second.array.dims;
      if (!in.info->type().tensor_type().has_shape() && in.dims.empty()) {
        in.dims.assign(dims.size(), -1);
        in.symbols.assign(dims.size(), "");
      }
      if (dims.size() != in.dims.size())
        return Status::error("input " + in.info->name() + " has " + std::to_string(in.dims.size()) +
                             " dimensions, the array is " + dimsText(dims))
            .at(it->second.path);
      for (size_t i = 0; i < in.dims.size(); ++i)
        if (Status s = bind(in, i, dims[i], "the array"); !s.ok())
          return std::move(s).at(it->second.path);
    }
    return {};
  }

  Status applyMicroBatch() {
    if (o.microBatch <= 0)
      return {};
    // The leading dimension that all data inputs share: one symbol, or open everywhere.
    const Input *first = nullptr;
    bool fixed = false;
    for (const Input &in : inputs) {
      if (!in.isData || in.dims.empty())
        continue;
      if (first && (first->symbols[0] != in.symbols[0] ||
                    (first->symbols[0].empty() && first->dims[0] != in.dims[0])))
        return {}; // not shared: the micro-batch says nothing about the shapes
      first = first ? first : &in;
      fixed = fixed || (in.symbols[0].empty() && in.dims[0] >= 0);
    }
    if (!first)
      return {};
    if (o.microBatchAssumed && first->dims[0] >= 0)
      return {};
    if (fixed && first->dims[0] != o.microBatch)
      return Status::error("input " + first->info->name() +
                           ": the model was exported with a fixed " + "leading dimension of " +
                           std::to_string(first->dims[0]) + ", the micro-batch is " +
                           std::to_string(o.microBatch))
          .note("use --micro-batch " + std::to_string(first->dims[0]) +
                ", or export with a dynamic batch dimension");
    for (Input &in : inputs)
      if (in.isData && !in.dims.empty())
        TRY(bind(in, 0, o.microBatch, "the micro-batch"));
    return {};
  }

  Status applyDims() {
    for (auto &[name, v] : o.dims)
      for (Input &in : inputs)
        for (size_t i = 0; i < in.dims.size(); ++i)
          if (in.symbols[i] == name)
            TRY(bind(in, i, v, "--dim " + name));
    return {};
  }

  Status applyExamples() {
    for (const auto &p : im.file.model.metadata_props()) {
      std::string_view key = p.key(), text = p.value();
      int64_t v = 0;
      auto r = std::from_chars(text.data(), text.data() + text.size(), v);
      if (!o.exampleDims || !key.starts_with("dim.") || r.ec != std::errc() ||
          r.ptr != text.data() + text.size() || v < 0)
        continue;
      std::string name(key.substr(4));
      bool bound = false;
      for (Input &in : inputs)
        for (size_t i = 0; i < in.dims.size(); ++i)
          if (in.dims[i] < 0 && in.symbols[i] == name) {
            TRY(bind(in, i, v, "the model's metadata"));
            bound = true;
          }
      if (bound)
        im.report.exampleDims.emplace_back(name, v);
    }
    return {};
  }

  Status checkBound() {
    Status all;
    std::unordered_set<std::string> told;
    for (const Input &in : inputs)
      for (size_t i = 0; i < in.dims.size(); ++i) {
        if (in.dims[i] >= 0 || (!in.symbols[i].empty() && !told.insert(in.symbols[i]).second))
          continue;
        std::string flag = in.symbols[i].empty()
                               ? "--shape " + in.info->name() + "=" + shapePattern(in)
                               : "--dim " + in.symbols[i] + "=N";
        all.merge(Status::error("input " + in.info->name() + ": " + dimText(in, i) +
                                " has no value; give it with " + flag));
      }
    TRY(std::move(all));
    for (const Input &in : inputs)
      if (in.dims.size() > kMaxRank || !checkedProduct(in.dims, 8))
        return Status::error("input " + in.info->name() + ": shape " + dimsText(in.dims) +
                             " is too large");
    int64_t leading = -1;
    for (const Input &in : inputs)
      if (in.isData)
        leading = in.dims.empty() || (leading >= 0 && leading != in.dims[0]) ? 0 : in.dims[0];
    im.report.leading = std::max<int64_t>(leading, 0);
    return {};
  }

  static std::string shapePattern(const Input &in) {
    std::string s;
    for (int64_t d : in.dims)
      s += (s.empty() ? "" : "x") + (d < 0 ? "N" : std::to_string(d));
    return s;
  }

  Status declare(Input &in) {
    const std::string &name = in.info->name();
    auto c = o.consts.find(name);
    auto b = o.binds.find(name);
    auto fed = o.fed.find(sanitized(name));
    OnnxVal val;
    if (c != o.consts.end()) {
      TRY_ASSIGN(val.known, constant(in, c->second));
    } else if (b != o.binds.end()) {
      TRY_ASSIGN(val.known, bound(in, b->second));
    } else if (fed != o.fed.end() && fed->second.constant) {
      TRY_ASSIGN(val.known, fedConstant(in, fed->second));
    } else {
      val.value = im.module->addInput(*im.program, im.program->uniqueName(sanitized(name)),
                                      Type(in.dtype, in.dims));
    }
    if (!im.values.emplace(name, val).second)
      return Status::error("input " + name + " occurs twice");
    return {};
  }

  StatusOr<KnownRef> constant(const Input &in, const std::string &text) const {
    const std::string flag = "--const " + in.info->name() + "=" + text;
    int64_t n = product(in.dims), rank = static_cast<int64_t>(in.dims.size());
    if (n > kMaxKnown)
      return Status::error(flag + ": " + std::to_string(n) + " elements are too many");
    if (text == "arange" || text == "causal") {
      int64_t need = text == "arange" ? 1 : 2;
      if (rank < need)
        return Status::error(flag + ": the input has rank " + std::to_string(rank) + ", expected " +
                             std::to_string(need) + " or more");
      int64_t cols = in.dims[rank - 1], rows = need == 2 ? in.dims[rank - 2] : 1;
      std::vector<int64_t> v(static_cast<size_t>(n));
      for (int64_t i = 0; i < n; ++i)
        v[i] = need == 1 ? i % cols : i % cols <= i / cols % rows;
      KnownRef k = makeInts(DType::I64, in.dims, v);
      if (!isFloat(in.dtype)) {
        Known out = *k;
        out.dtype = in.dtype;
        return compressed(std::move(out));
      }
      Known out;
      out.dtype = in.dtype;
      out.dims = out.stored = in.dims;
      out.floats.assign(v.begin(), v.end());
      return compressed(std::move(out));
    }
    char *end = nullptr;
    double v = text == "true" ? 1 : text == "false" ? 0 : std::strtod(text.c_str(), &end);
    if (end && (*end || end == text.c_str()))
      return Status::error(flag + ": expected a number, true, false, arange or causal");
    if (!isFloat(in.dtype) && (!(std::abs(v) <= 9007199254740992.0) || v != std::trunc(v)))
      return Status::error(flag + ": the input is " + std::string(text_(in.dtype)) +
                           ", expected a whole number");
    return makeSplat(in.dtype, in.dims, v);
  }
  static std::string_view text_(DType t) { return ::ds::text(t); }

  StatusOr<KnownRef> bound(const Input &in, const std::string &spec) const {
    std::string path = !spec.empty() && spec[0] == '@' ? spec.substr(1) : spec;
    TRY_ASSIGN(Array a, readTensorFile(path));
    if (a.dtype != in.dtype || a.dims != in.dims)
      return Status::error("--bind " + in.info->name() + ": the file has " +
                           std::string(text_(a.dtype)) + dimsText(a.dims) + ", the input is " +
                           std::string(text_(in.dtype)) + dimsText(in.dims))
          .at(path);
    if (a.elems() > kMaxKnown)
      return Status::error("--bind " + in.info->name() + ": " + std::to_string(a.elems()) +
                           " elements are too many");
    return compressed(*makeFromBytes(a.dtype, a.dims, a.bytes));
  }

  // In the input's type: floats rounded, integers only if they fit.
  StatusOr<KnownRef> fedConstant(const Input &in, const FedArray &f) const {
    const Array &a = f.array;
    bool floats = isFloat(a.dtype) && isFloat(in.dtype), ints = isInt(a.dtype) && isInt(in.dtype);
    if ((a.dtype != in.dtype && !floats && !ints) || a.elems() > kMaxKnown)
      return Status::error(
                 "input " + in.info->name() + " must be known at plan time: expected at most " +
                 std::to_string(kMaxKnown) + " elements of type " + std::string(text_(in.dtype)) +
                 ", found " + std::string(text_(a.dtype)) + dimsText(a.dims))
          .at(f.path);
    Known k = *makeFromBytes(a.dtype, a.dims, a.bytes);
    k.dtype = in.dtype;
    for (double &v : k.floats)
      v = roundTo(in.dtype, v);
    for (int64_t v : k.ints)
      if (a.dtype != in.dtype && wrapTo(in.dtype, v) != v)
        return Status::error("input " + in.info->name() + ": " + std::to_string(v) + " is no " +
                             std::string(text_(in.dtype)))
            .at(f.path);
    return compressed(std::move(k));
  }

  Importer &im;
  const ImportOptions &o;
  std::vector<Input> inputs;
};

} // namespace

Status Importer::bindInputs() { return Binder(*this).run(); }

} // namespace ds
