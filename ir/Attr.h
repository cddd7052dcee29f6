// SPDX-License-Identifier: Apache-2.0
//
// Compile-time attributes of ops. An op's row in Ops.def declares them as a spec string, e.g.
// "trans_a:b trans_b:b axis:i=-1 eps:f=1e-05 perm:is": name, kind, optional default. Kinds: b bool,
// i int64, f double, s string, is list of int64, whose only default is [], the empty list. An attribute without a
// default must be given, except b, whose default is false. Attributes equal to their default are not printed.
#pragma once

#include "ir/Status.h"

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ds {

using AttrValue = std::variant<bool, int64_t, double, std::string, std::vector<int64_t>>;

struct AttrSpec {
  std::string name;
  char kind; // 'b', 'i', 'f', 's', 'l' (list of int64)
  std::optional<AttrValue> def;
};

/// Parses a spec string of Ops.def; asserts on a malformed one (the tables are ours).
std::vector<AttrSpec> parseAttrSpecs(std::string_view spec);

/// Doubles print as the shortest text that reads back to the same bits; a double always has a '.',
/// an exponent, or is inf/nan, so that kinds can be told apart.
std::string doubleText(double v);
/// The text in quotes, with \\, \", \n and \xNN escapes; never contains "[[", "{{" or "}}" (rule R4).
std::string quoted(std::string_view s);
std::string attrText(const AttrValue &v); // 3, 0.5, true, "text" (quoted), [0,2,1]

class Attrs {
public:
  Attrs() = default;
  Attrs(std::initializer_list<std::pair<const std::string, AttrValue>> l) : values(l) {}

  void set(const std::string &name, AttrValue v) { values[name] = std::move(v); }
  void erase(const std::string &name) { values.erase(name); }
  const AttrValue *find(std::string_view name) const;

  // Value or default; the default must agree with the spec in Ops.def (Op accessors pass it on).
  bool flag(std::string_view name) const;
  int64_t i(std::string_view name, int64_t def = 0) const;
  double f(std::string_view name, double def = 0) const;
  std::string s(std::string_view name, std::string_view def = "") const;
  std::vector<int64_t> list(std::string_view name) const;

  bool empty() const { return values.empty(); }
  auto begin() const { return values.begin(); }
  auto end() const { return values.end(); }
  bool operator==(const Attrs &) const = default;

private:
  std::map<std::string, AttrValue, std::less<>> values;
};

/// Checks attrs against specs (unknown names, kinds, missing ones), fills in defaults as stored
/// values, so that every reader sees a complete set. Errors name the op through `subject`.
Status completeAttrs(Attrs &attrs, const std::vector<AttrSpec> &specs, std::string_view subject);

/// " {a, b=3}" in spec order, without attributes equal to their default; true flags print as "a".
/// Empty string if there is nothing to print.
std::string attrsText(const Attrs &attrs, const std::vector<AttrSpec> &specs);

} // namespace ds
