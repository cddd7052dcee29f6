// SPDX-License-Identifier: Apache-2.0
//
// Config.def as data, and the one way a value gets into a PlanConfig: text, whether it came from JSON or a flag.
#pragma once

#include "frontend/Config.h"

#include <cstdint>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

namespace ds {

/// A value on its way into a field. Flags have bare text, which any field may read.
struct ConfigText {
  enum class Kind : uint8_t { Bare, Null, Bool, Number, String, Array, Object } kind = Kind::Bare;
  std::string text;  // as written, without quotes
  std::string shown; // for messages: 'bare', "string", 3, an object
};

// What a field may be. All numbers are read as decimal text; 5e8 is an integer, 0.5 is not.
struct IntField {
  int64_t &(*get)(PlanConfig &);
  int64_t min = 0, max = 0;
  bool optional = false; // 0 stands for none
};
struct RealField { // at least 0; below: less than 1
  double &(*get)(PlanConfig &);
  bool fraction = false;
};
struct BoolField {
  bool &(*get)(PlanConfig &);
  bool optional = false;
  const char *no = "false", *yes = "true"; // other words: a choice between two
};
struct TextField { // empty stands for none
  std::string &(*get)(PlanConfig &);
  const char *choices = ""; // separated by '|'; empty: any text
};
struct BytesField { // -1 stands for none
  int64_t &(*get)(PlanConfig &);
};
struct CustomField {
  Status (*set)(PlanConfig &, const ConfigText &);
  std::string (*json)(const PlanConfig &);
};

struct ConfigKey {
  const char *path, *name;
  std::variant<IntField, RealField, BoolField, TextField, BytesField, CustomField> field;
  const char *dflt, *when, *summary;

  /// The value of the field as JSON text.
  std::string json(PlanConfig &c) const;
  /// Why the key does not matter for this config, "" if it does: its `when` column does not hold.
  std::string mismatch(const PlanConfig &c) const;
};

struct OtherConfigKey {
  enum class Kind : uint8_t { Ignored, Refused, Block } kind;
  const char *path;
  const char *arg;    // Ignored: the type; Refused: harmless values; Block: ""
  const char *reason; // why it has no effect, or what to do

  /// Accepts the value, notes it as having no effect, or refuses it.
  Status take(PlanConfig &c, const ConfigText &v) const;
};

/// The rows, in the table's order.
const std::vector<ConfigKey> &configTable();
const std::vector<OtherConfigKey> &otherConfigTable();

/// Sets a key's field; the message starts with `subject`. "auto" leaves the default.
Status setConfigValue(PlanConfig &c, const ConfigKey &key, const ConfigText &v,
                      std::string_view subject);

/// "is V, expected WHAT": an error without its subject.
Status expectedError(const ConfigText &v, const std::string &what);

/// The shortest decimal text that reads back to v.
std::string realText(double v);

/// "A, B or C" from "A|B|C".
std::string choicesText(std::string_view choices);

/// ASCII letters in lower case.
std::string lower(std::string_view s);

/// Whether text is one of choices, which '|' separates.
bool isChoice(std::string_view choices, std::string_view text);

} // namespace ds
