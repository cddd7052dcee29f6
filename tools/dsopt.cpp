// SPDX-License-Identifier: Apache-2.0
//
// dsopt: .dsir text in, passes, text out. What the tests of passes are made with.
#include "ir/GraphText.h"
#include "passes/PassManager.h"
#include "passes/Passes.h"
#include "tools/Diagnostics.h"
#include "tools/ImportTool.h"
#include "tools/ScheduleTool.h"

#include "llvm/ADT/StringExtras.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/FileSystem.h"

namespace cl = llvm::cl;
using namespace ds;

static cl::OptionCategory category("dsopt options");

static cl::opt<std::string> inputPath(cl::Positional, cl::Required,
                                      cl::desc("FILE.dsir (- is standard input)"),
                                      cl::cat(category));
static cl::list<std::string>
    passes("passes", cl::CommaSeparated, cl::value_desc("a,b"),
           cl::desc("Passes to run, in this order; 'default' is the whole pipeline"),
           cl::cat(category));
static cl::list<std::string> settings("set", cl::value_desc("key=value"),
                                      cl::desc("Set a config value, e.g. stage=3; may be repeated"),
                                      cl::cat(category));
static cl::opt<std::string> emit("emit", cl::value_desc("ir|schedule"), cl::init("ir"),
                                 cl::desc("What to print after the passes"), cl::cat(category));
static cl::list<std::string> printBefore("print-before", cl::CommaSeparated,
                                         cl::value_desc("pass|all"),
                                         cl::desc("Print the module before a pass"),
                                         cl::cat(category));
static cl::list<std::string> printAfter("print-after", cl::CommaSeparated,
                                        cl::value_desc("pass|all"),
                                        cl::desc("Print the module after a pass"),
                                        cl::cat(category));
static cl::opt<std::string> stopAfter("stop-after", cl::value_desc("pass"),
                                      cl::desc("Run up to and including this pass"),
                                      cl::cat(category));
static cl::opt<bool> verifyEach("verify-each", cl::desc("Verify the module after every pass"),
                                cl::cat(category));
static cl::opt<int64_t> bisectLimit("opt-bisect-limit", cl::value_desc("n"), cl::init(-1),
                                    cl::desc("Run only the first n optional passes"),
                                    cl::cat(category));
static cl::opt<bool> printOrigins("print-origins", cl::desc("Show where every op came from"),
                                  cl::cat(category));
static cl::opt<bool> noVerify("no-verify", cl::desc("Do not verify input and output"),
                              cl::cat(category));
static cl::opt<bool> split("split", cl::desc("Lines '// -----' split the input into cases"),
                           cl::cat(category));
static cl::opt<bool> verifySchedules("verify-schedule",
                                     cl::desc("The input is .dsched text: verify and print it"),
                                     cl::cat(category));
static cl::opt<bool>
    verifyErrors("verify-errors",
                 cl::desc("Compare the errors with '// error: text' comments on their lines, "
                          "'// error@none: text' for errors without a line"),
                 cl::cat(category));

static std::string passHelp() {
  std::string s = "PASSES, in the order of the default pipeline:\n";
  for (const PassInfo &p : passTable())
    s += "  " + std::string(p.flag) + std::string(22 - std::min<size_t>(21, strlen(p.flag)), ' ') +
         p.summary + "\n";
  s += "\nKEYS of --set: " + llvm::join(configKeys(), ", ") + "\n";
  return s + "\nEXAMPLES\n"
             "  dsopt mlp.dsir --passes=attach-loss,autodiff --set loss=mse:prediction=y,target=t\n"
             "  dsopt mlp.dsir --passes=default --set stage=3 --set world=4 --emit=schedule\n";
}

static StatusOr<PlanConfig> config() {
  PlanConfig c;
  for (const std::string &s : settings) {
    auto [key, value] = llvm::StringRef(s).split('=');
    TRY(setConfigKey(c, std::string_view(key), std::string_view(value)));
  }
  if (c.gradAccum < 1)
    c.gradAccum = 1;
  return c;
}

static std::vector<std::string> passFlags() {
  std::vector<std::string> flags;
  for (const std::string &f : passes) {
    if (f == "default")
      for (const std::string &d : defaultPipeline())
        flags.push_back(d);
    else if (!f.empty())
      flags.push_back(f);
  }
  return flags;
}

// The cases of the input, each behind as many blank lines as stand before it, so that lines keep their number.
static std::vector<std::string> cases(const std::string &text) {
  if (!split)
    return {text};
  std::vector<std::string> out{""};
  size_t lines = 0;
  llvm::StringRef rest = text;
  while (!rest.empty()) {
    llvm::StringRef line;
    std::tie(line, rest) = rest.split('\n');
    ++lines;
    if (line.trim() == "// -----")
      out.push_back(std::string(lines, '\n'));
    else
      out.back() += line.str() + "\n";
  }
  return out;
}

// Parses, runs and prints one case. What it prints is appended to out, also when it fails.
static Status run(const std::string &text, const PlanConfig &c, llvm::raw_ostream &out) {
  if (verifySchedules) {
    std::string printed;
    TRY(checkSchedule(text, inputPath, printed));
    out << printed;
    return {};
  }
  TRY_ASSIGN(std::unique_ptr<Module> m, isOnnxPath(std::string(inputPath))
                                            ? importModel(inputPath, c)
                                            : parseModule(text, inputPath));
  if (!noVerify)
    TRY(verifyModule(*m));
  PassOptions o;
  o.printBefore.assign(printBefore.begin(), printBefore.end());
  o.printAfter.assign(printAfter.begin(), printAfter.end());
  o.stopAfter = stopAfter;
  o.verifyEach = verifyEach;
  o.bisectLimit = bisectLimit;
  o.out = &out;
  TRY(runPasses(*m, c, passFlags(), o));
  if (!noVerify)
    TRY(verifyModule(*m));
  if (emit == "schedule") {
    TRY_ASSIGN(Schedule s, scheduleModule(*m, c));
    out << printSchedule(s);
  } else {
    out << printModule(*m, {printOrigins});
  }
  return {};
}

// -- --verify-errors --------------------------------------------------------------------------------

struct Expected {
  int64_t line; // 0: no line
  std::string text;
  bool seen = false;
};

static std::vector<Expected> expectedErrors(llvm::StringRef text) {
  std::vector<Expected> out;
  for (int64_t line = 1; !text.empty(); ++line) {
    llvm::StringRef current;
    std::tie(current, text) = text.split('\n');
    size_t at = current.find("// error: "), anywhere = current.find("// error@none: ");
    if (at != llvm::StringRef::npos)
      out.push_back({line, current.substr(at + 10).trim().str()});
    else if (anywhere != llvm::StringRef::npos)
      out.push_back({0, current.substr(anywhere + 15).trim().str()});
  }
  return out;
}

/// Reports what differs between the errors and the comments; true if nothing does.
static bool asExpected(const Status &s, const std::string &text) {
  std::vector<Expected> expected = expectedErrors(text);
  std::string differences;
  for (const ErrorEntry &e : s.entries()) {
    int64_t line = lineOf(e.place, inputPath);
    auto match = llvm::find_if(expected, [&](const Expected &x) {
      return !x.seen && x.line == line && e.text.find(x.text) != std::string::npos;
    });
    if (match != expected.end())
      match->seen = true;
    else
      differences +=
          inputPath + ":" + std::to_string(line) + ": unexpected error: " + e.text + "\n";
  }
  for (const Expected &x : expected)
    if (!x.seen)
      differences += inputPath + ":" + std::to_string(x.line) + ": missing error: " + x.text + "\n";
  if (expected.empty())
    differences += inputPath + ": no '// error: text' comment in this case\n";
  llvm::errs() << differences;
  return differences.empty();
}

// -----------------------------------------------------------------------------------------------------

// Internal errors carry the module that shows them: it goes to a file, ready to run.
static Status keepRepro(Status s) {
  Status out;
  for (const ErrorEntry &e : s.entries()) {
    Status one = Status::error(e.text, s.code()).at(e.place);
    for (llvm::StringRef n : e.notes) {
      if (!n.consume_front(kReproNote)) {
        one = std::move(one).note(n.str());
        continue;
      }
      std::error_code failed;
      llvm::raw_fd_ostream file("repro.dsir", failed);
      if (failed)
        continue;
      file << kReproNote;
      for (const std::string &set : settings)
        file << "--set '" << set << "' ";
      file << n;
      one = std::move(one).note("the module before the pass is in repro.dsir");
    }
    out.merge(std::move(one));
  }
  return out;
}

int main(int argc, char **argv) {
  exitOnFatalErrors("dsopt");
  cl::extrahelp help("\n" + passHelp());
  cl::HideUnrelatedOptions(category);
  cl::ParseCommandLineOptions(argc, argv, "Runs passes on .dsir text\n");
  auto fail = [](const Status &s, std::string_view text = {}) {
    llvm::errs() << diagnostics(s, "dsopt", text, inputPath);
    return static_cast<int>(s.code());
  };
  if (emit != "ir" && emit != "schedule")
    return fail(Status::error("--emit is '" + emit + "', expected ir or schedule"));
  StatusOr<PlanConfig> c = config();
  if (!c.ok())
    return fail(c.status());
  StatusOr<std::string> text = readInput(inputPath);
  if (!text.ok())
    return fail(text.status());
  int code = 0;
  bool first = true;
  for (const std::string &one : cases(*text)) {
    std::string printed;
    llvm::raw_string_ostream out(printed);
    Status s = run(one, *c, out);
    if (verifyErrors) {
      code = std::max(code, asExpected(s, one) ? 0 : 1);
      continue;
    }
    llvm::outs() << (first ? "" : "// -----\n") << out.str();
    first = false;
    llvm::outs().flush();
    if (!s.ok())
      code = std::max(code, fail(keepRepro(std::move(s)), one));
  }
  return code;
}
