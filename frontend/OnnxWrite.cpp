// SPDX-License-Identifier: Apache-2.0
#include "frontend/OnnxWrite.h"

#include "frontend/OnnxWire.h"

namespace ds {

namespace {

class Rewriter {
public:
  explicit Rewriter(const std::function<std::optional<TensorPlace>(const ModelTensor &)> &place)
      : place(place) {}

  // main: a direct part of the main graph. name: of the tensor that the message is or holds.
  bool message(std::string_view in, WireMsg kind, int depth, bool main, const std::string &name,
               std::string &out) {
    if (depth > kMaxWireDepth)
      return false;
    if (kind == WireMsg::Tensor)
      return tensor(in, main, name, out);
    std::string constant = kind == WireMsg::Node && main ? constantName(in) : name;
    bool inMain = kind == WireMsg::Graph && depth == 1;
    WireReader reader(in);
    for (WireField f; reader.next(f);) {
      WireMsg inner = f.isBytes() ? wireChild(kind, f.number()) : WireMsg::Opaque;
      std::string body;
      if (inner != WireMsg::Opaque) {
        if (!message(f.body, inner, depth + 1, inMain, constant, body))
          return false;
        // Lengths may be written in more bytes than they need: only what changes is written anew.
        if (body != f.body) {
          putBytes(out, f.tag, body);
          continue;
        }
      }
      out.append(f.all);
    }
    return !reader.bad();
  }

private:
  // What a Constant node of the main graph makes, or "".
  static std::string constantName(std::string_view node) {
    std::string op, output, domain;
    WireReader reader(node);
    for (WireField f; reader.next(f);) {
      if (f.number() == 2)
        output = f.body;
      else if (f.number() == 4)
        op = f.body;
      else if (f.number() == 7)
        domain = f.body;
    }
    return op == "Constant" && domain.empty() ? output : "";
  }

  bool tensor(std::string_view in, bool initializer, const std::string &name, std::string &out) {
    BareTensor bare, whole;
    ModelTensor t;
    if (!bareTensor(in, /*all=*/false, bare) || !bareTensor(in, /*all=*/true, whole) ||
        !t.proto.ParseFromString(bare.rest))
      return false;
    t.external = t.proto.external_data_size() > 0;
    if (t.external)
      t.proto.set_data_location(onnx::TensorProto::EXTERNAL);
    t.name = initializer ? t.proto.name() : name;
    std::optional<TensorPlace> p = place(t);
    if (!p) {
      out.append(in);
      return true;
    }
    out += whole.rest;
    putExternalEntry(out, "location", p->location);
    putExternalEntry(out, "offset", std::to_string(p->offset));
    putExternalEntry(out, "length", std::to_string(p->bytes));
    putExternalLocation(out);
    return true;
  }

  const std::function<std::optional<TensorPlace>(const ModelTensor &)> &place;
};

} // namespace

StatusOr<std::string>
rewriteTensors(std::string_view model,
               const std::function<std::optional<TensorPlace>(const ModelTensor &)> &place) {
  std::string out;
  if (!Rewriter(place).message(model, WireMsg::Model, 0, false, "", out))
    return Status::error("not a serialized ONNX model");
  return out;
}

} // namespace ds
