// SPDX-License-Identifier: Apache-2.0
//
// The loss as text: KIND:KEY=VALUE,... Names may hold anything but ',', so that ONNX names need no quotes.
#include "frontend/ConfigFile.h"

#include <charconv>
#include <set>

namespace ds {

namespace {

constexpr const char *kForms = "ce:logits=NAME,labels=NAME[,ignore_index=N][,shift=1], "
                               "mse:prediction=NAME,target=NAME or output:NAME";

std::string didYouMean(const std::string &near) {
  return near.empty() ? "" : "; did you mean '" + near + "'?";
}

bool readInt(std::string_view v, int64_t &out) {
  auto r = std::from_chars(v.data(), v.data() + v.size(), out);
  return r.ec == std::errc() && r.ptr == v.data() + v.size();
}

// One KEY=VALUE of a loss of the given kind.
Status setItem(LossConfig &loss, const std::string &key, std::string_view value) {
  bool mse = loss.kind == LossConfig::Kind::Mse;
  if (key == (mse ? "prediction" : "logits") || key == (mse ? "target" : "labels")) {
    if (value.empty())
      return Status::error(key + " is empty, expected a name");
    (key == "prediction" || key == "logits" ? loss.logits : loss.labels) = value;
    return {};
  }
  if (!mse && key == "ignore_index")
    return readInt(value, loss.ignoreIndex)
               ? Status()
               : Status::error("ignore_index is '" + std::string(value) + "', expected an integer");
  if (!mse && key == "shift")
    return readInt(value, loss.shift) && (loss.shift == 0 || loss.shift == 1)
               ? Status()
               : Status::error("shift is '" + std::string(value) + "', expected 0 or 1");
  std::vector<std::string> known = {"logits", "labels", "ignore_index", "shift"};
  if (mse)
    known = {"prediction", "target"};
  return Status::error("unknown key '" + key + "', expected " +
                       (mse ? "prediction or target" : "logits, labels, ignore_index or shift") +
                       didYouMean(nearest(key, known)));
}

} // namespace

StatusOr<LossConfig> parseLoss(std::string_view text) {
  LossConfig loss;
  loss.text = text;
  size_t colon = std::min(text.find(':'), text.size());
  std::string kind(text.substr(0, colon));
  std::string_view rest = text.substr(std::min(colon + 1, text.size()));
  if (kind == "output") {
    loss.kind = LossConfig::Kind::Output;
    loss.logits = rest;
    if (rest.empty())
      return Status::error("expected output:NAME");
    return loss;
  }
  if (kind != "ce" && kind != "mse")
    return Status::error("unknown loss '" + kind + "', expected " + kForms +
                         didYouMean(nearest(kind, {"ce", "mse", "output"})));
  bool mse = kind == "mse";
  loss.kind = mse ? LossConfig::Kind::Mse : LossConfig::Kind::CrossEntropy;
  std::set<std::string> given;
  while (!rest.empty()) {
    std::string_view item = rest.substr(0, rest.find(','));
    rest = rest.substr(std::min(item.size() + 1, rest.size()));
    size_t eq = item.find('=');
    if (eq == item.npos)
      return Status::error("'" + std::string(item) + "' is not KEY=VALUE; expected " + kForms);
    std::string key(item.substr(0, eq));
    if (!given.insert(key).second)
      return Status::error("'" + key + "' is given twice");
    TRY(setItem(loss, key, item.substr(eq + 1)));
  }
  if (loss.logits.empty())
    return Status::error(mse ? "prediction=NAME is missing" : "logits=NAME is missing");
  return loss;
}

} // namespace ds
