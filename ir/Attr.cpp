// SPDX-License-Identifier: Apache-2.0
#include "ir/Attr.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

namespace ds {

std::string doubleText(double v) {
  if (std::isnan(v))
    return "nan";
  if (std::isinf(v))
    return v < 0 ? "-inf" : "inf";
  std::array<char, 40> buf;
  auto end = std::to_chars(buf.data(), buf.data() + buf.size(), v).ptr;
  std::string s(buf.data(), end);
  if (s.find_first_of(".e") == std::string::npos)
    s += ".0";
  return s;
}

std::string quoted(std::string_view s) {
  constexpr std::string_view digits = "0123456789abcdef";
  std::string out = "\"";
  for (char c : s) {
    // "[[", "{{" and "}}" never appear in printed text: they mean something to FileCheck.
    bool doubled = (c == '[' || c == '{' || c == '}') && out.back() == c;
    auto u = static_cast<unsigned char>(c);
    if (c == '"' || c == '\\')
      (out += '\\') += c;
    else if (c == '\n')
      out += "\\n";
    else if (u < 0x20 || u == 0x7f || doubled)
      ((out += "\\x") += digits[u >> 4]) += digits[u & 15];
    else
      out += c;
  }
  return out + "\"";
}

std::string attrText(const AttrValue &v) {
  if (auto *b = std::get_if<bool>(&v))
    return *b ? "true" : "false";
  if (auto *i = std::get_if<int64_t>(&v))
    return std::to_string(*i);
  if (auto *f = std::get_if<double>(&v))
    return doubleText(*f);
  if (auto *s = std::get_if<std::string>(&v))
    return quoted(*s);
  std::string out = "[";
  for (int64_t i : std::get<std::vector<int64_t>>(v))
    out += (out.size() > 1 ? "," : "") + std::to_string(i);
  return out + "]";
}

// The value that a spec's text after '=' stands for.
static AttrValue defaultValue(char kind, std::string_view s) {
  if (kind == 'b')
    return s == "true";
  if (kind == 's')
    return std::string(s.substr(1, s.size() - 2));
  if (kind == 'i') {
    int64_t i = 0;
    std::from_chars(s.data(), s.data() + s.size(), i);
    return i;
  }
  if (kind == 'l')
    return std::vector<int64_t>();
  assert(kind == 'f' && "an attribute of a spec has one of the five kinds");
  double f = 0;
  std::from_chars(s.data(), s.data() + s.size(), f);
  return f;
}

std::vector<AttrSpec> parseAttrSpecs(std::string_view spec) {
  std::vector<AttrSpec> out;
  while (!spec.empty()) {
    std::string_view item = spec.substr(0, spec.find(' '));
    spec.remove_prefix(std::min(spec.size(), item.size() + 1));
    if (item.empty())
      continue;
    size_t colon = item.find(':'), equals = item.find('=');
    assert(colon != std::string_view::npos && "an attribute spec is name:kind[=default]");
    std::string_view kind = item.substr(colon + 1, equals - colon - 1);
    AttrSpec a;
    a.name = item.substr(0, colon);
    a.kind = kind == "is" ? 'l' : kind[0];
    if (equals != std::string_view::npos)
      a.def = defaultValue(a.kind, item.substr(equals + 1));
    else if (a.kind == 'b')
      a.def = false;
    out.push_back(std::move(a));
  }
  return out;
}

const AttrValue *Attrs::find(std::string_view name) const {
  auto it = values.find(name);
  return it == values.end() ? nullptr : &it->second;
}

template <typename T> static const T *get(const Attrs &a, std::string_view name) {
  const AttrValue *v = a.find(name);
  return v ? std::get_if<T>(v) : nullptr;
}

bool Attrs::flag(std::string_view name) const {
  auto *v = get<bool>(*this, name);
  return v && *v;
}
int64_t Attrs::i(std::string_view name, int64_t def) const {
  auto *v = get<int64_t>(*this, name);
  return v ? *v : def;
}
double Attrs::f(std::string_view name, double def) const {
  auto *v = get<double>(*this, name);
  return v ? *v : def;
}
std::string Attrs::s(std::string_view name, std::string_view def) const {
  auto *v = get<std::string>(*this, name);
  return v ? *v : std::string(def);
}
std::vector<int64_t> Attrs::list(std::string_view name) const {
  auto *v = get<std::vector<int64_t>>(*this, name);
  return v ? *v : std::vector<int64_t>();
}

static bool hasKind(const AttrValue &v, char kind) {
  constexpr std::string_view kinds = "bifsl"; // the order of AttrValue's alternatives
  return kinds[v.index()] == kind;
}

static std::string_view kindText(char kind) {
  switch (kind) {
  case 'b':
    return "true or false";
  case 'i':
    return "an integer";
  case 'f':
    return "a number";
  case 's':
    return "a string";
  default:
    return "a list of integers";
  }
}

Status completeAttrs(Attrs &attrs, const std::vector<AttrSpec> &specs, std::string_view subject) {
  std::string who = std::string(subject) + ": ";
  std::vector<std::string> known;
  for (const AttrSpec &s : specs)
    known.push_back(s.name);
  for (auto &[name, value] : attrs) {
    if (std::find(known.begin(), known.end(), name) != known.end())
      continue;
    std::string near = nearest(name, known);
    return Status::error(who + "unknown attribute '" + name + "'" +
                         (near.empty() ? "" : "; did you mean '" + near + "'?"));
  }
  for (const AttrSpec &s : specs) {
    const AttrValue *v = attrs.find(s.name);
    if (!v) {
      if (!s.def)
        return Status::error(who + "attribute '" + s.name + "' is missing");
      attrs.set(s.name, *s.def);
    } else if (s.kind == 'f' && std::holds_alternative<int64_t>(*v)) {
      attrs.set(s.name, static_cast<double>(std::get<int64_t>(*v)));
    } else if (!hasKind(*v, s.kind)) {
      return Status::error(who + "attribute '" + s.name + "' is " + attrText(*v) + ", expected " +
                           std::string(kindText(s.kind)));
    }
  }
  return {};
}

std::string attrsText(const Attrs &attrs, const std::vector<AttrSpec> &specs) {
  std::string out;
  for (const AttrSpec &s : specs) {
    const AttrValue *v = attrs.find(s.name);
    if (!v || (s.def && attrText(*v) == attrText(*s.def)))
      continue;
    out += out.empty() ? " {" : ", ";
    out += s.name;
    if (!std::holds_alternative<bool>(*v) || !std::get<bool>(*v))
      out += "=" + attrText(*v);
  }
  return out.empty() ? out : out + "}";
}

} // namespace ds
