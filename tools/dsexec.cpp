// SPDX-License-Identifier: Apache-2.0
//
// dsexec: trains under a schedule, or runs a model once.
#include "passes/Report.h"
#include "runtime/Checkpoint.h"
#include "runtime/File.h"
#include "runtime/Log.h"
#include "runtime/Save.h"
#include "runtime/Trainer.h"
#include "tools/Args.h"
#include "tools/Devices.h"
#include "tools/Diagnostics.h"
#include "tools/ForwardTool.h"
#include "tools/MeasureTool.h"
#include "tools/Membership.h"
#include "tools/PlanArgs.h"
#include "tools/SaveOnnx.h"
#include "tools/SelfCheck.h"
#include "tools/TrainLoop.h"
#include "tools/Workspace.h"

#include "llvm/ADT/StringRef.h"
#include "llvm/Support/CommandLine.h"
#include "llvm/Support/raw_ostream.h"

#include <filesystem>
#include <optional>
#include <unistd.h>

namespace cl = llvm::cl;
using namespace ds;

static cl::OptionCategory running("Running"), output("Output"), testing("Testing");

static cl::opt<std::string>
    inputPath(cl::Positional, cl::desc("MODEL.onnx | MODEL.onnxtext | MODEL.dsir | PLAN.dsched"));
static cl::opt<std::string> data("data", cl::value_desc("spec"), cl::cat(running),
                                 cl::desc("tokens:FILE.bin[,uint32] | npy:DIR | synthetic:SEED"));
static cl::opt<std::string> evalData("eval-data", cl::value_desc("spec"), cl::cat(running),
                                     cl::desc("Data to evaluate the loss on, as --data"));
static cl::opt<int64_t> evalInterval("eval-interval", cl::init(0), cl::value_desc("n"),
                                     cl::cat(running),
                                     cl::desc("Evaluate every n updates; always at the end"));
static cl::opt<std::string>
    modelDir("model-dir", cl::value_desc("folder"), cl::cat(running),
             cl::desc("Where the weights are that a .dsched names (default: next to it)"));
static cl::opt<int64_t> steps("steps", cl::value_desc("n"), cl::cat(running),
                              cl::desc("Updates to run"));
static cl::opt<int64_t> epochs("epochs", cl::value_desc("n"), cl::cat(running),
                               cl::desc("Passes over the data, instead of --steps"));
static cl::opt<std::string> device("device", cl::init("auto"), cl::value_desc("name"),
                                   cl::cat(running),
                                   cl::desc("auto, cpu, ref, or a plugin's name (default: auto)"));
static cl::opt<int64_t> seed("seed", cl::value_desc("n"), cl::cat(running),
                             cl::desc("Seed of the data's order (default: 0), or of --generate"));
static cl::opt<bool> noShuffle("no-shuffle", cl::cat(running),
                               cl::desc("Take the samples in the data's order"));
static cl::opt<int> threads("threads", cl::value_desc("n"), cl::cat(running),
                            cl::desc("Threads of each rank's kernels (default: cores / ranks)"));
static cl::opt<bool> pinMemory("pin-memory", cl::cat(running),
                               cl::desc("Page-lock host memory, as offload_optimizer.pin_memory"));
static cl::opt<int64_t> maxSkips("max-skips", cl::init(3), cl::value_desc("n"), cl::cat(running),
                                 cl::desc("Stop after n skipped updates in a row (default: 3)"));
static cl::opt<int64_t>
    stepsPerPrint("steps-per-print", cl::init(0), cl::value_desc("n"), cl::cat(output),
                  cl::desc("Updates per line without a terminal (default: the config's, or 10)"));
static cl::opt<std::string> logJson("log-json", cl::value_desc("file"), cl::cat(output),
                                    cl::desc("Write one JSON object per update"));
static cl::opt<bool> verbose("verbose", cl::cat(output),
                             cl::desc("Print what kernels choose at load"));
static cl::opt<std::string> tracePath("trace", cl::value_desc("file"), cl::cat(output),
                                      cl::desc("Write a Chrome trace of the last updates; a GPU's "
                                               "instructions then run one by one"));
static cl::opt<std::string> checkpointDir("checkpoint-dir", cl::value_desc("folder"),
                                          cl::cat(output),
                                          cl::desc("Where checkpoints go, and --resume looks"));
static cl::opt<int64_t>
    saveInterval("save-interval", cl::init(0), cl::value_desc("n"), cl::cat(output),
                 cl::desc("Save a checkpoint every n updates; always at the end, and when\n"
                          "SIGINT or SIGTERM ends the run"));
static cl::opt<std::string>
    resume("resume", cl::value_desc("auto|name"), cl::cat(running),
           cl::desc("Go on from a checkpoint of --checkpoint-dir: the latest (auto; none: start\n"
                    "anew), or the one of this name; --steps counts from the very start"));
static cl::opt<std::string> inspect("inspect", cl::value_desc("folder"), cl::cat(output),
                                    cl::desc("Print what a checkpoint holds, check it, and end"));
static cl::opt<std::string>
    savePath("save-model", cl::value_desc("out.safetensors|out.onnx"), cl::cat(output),
             cl::desc("Write the weights at the end; out.onnx: the model itself, with its\n"
                      "weights in out.safetensors beside it"));
static cl::opt<bool> detectAnomaly(
    "detect-anomaly", cl::cat(testing),
    cl::desc("Look at the result of every operation (slow), and end the run at\n"
             "an update that is skipped, with the first one that is infinite or NaN"));
static cl::opt<bool> selfChecks(
    "self-check", cl::cat(testing),
    cl::desc("Instead of training, run some updates (--steps, default 2) that check every\n"
             "instruction's reads and writes, allocations, and the losses against\n"
             "stage 0 on one rank; slow, and twice the memory"));
static cl::opt<bool> noGraphs("no-graphs", cl::cat(testing),
                              cl::desc("On a GPU, enqueue every launch by itself"));
static cl::opt<double> linkRate("link-bytes-per-second", cl::value_desc("n"), cl::cat(testing),
                                cl::desc("Slow every collective down to this rate per rank"));

static const char *const kExamples =
    "\nEXAMPLES\n"
    "  dsexec model.onnx --config ds_config.json --world-size 4 --loss "
    "ce:logits=logits,labels=labels \\\n"
    "         --data tokens:text.bin --steps 200\n"
    "  dsexec plan.dsched --data tokens:text.bin --steps 200 --log-json log.jsonl\n"
    "  dsexec plan.dsched --data npy:samples --epochs 2 --device cpu --save-model "
    "out.safetensors\n"
    "  dsexec plan.dsched --data tokens:text.bin --steps 10000 --checkpoint-dir ckpt "
    "--save-interval 500 \\\n"
    "         --resume auto\n"
    "  dsexec model.onnx --config ds_config.json --world-size 4 --data synthetic:1 --self-check\n"
    "  dsexec --measure-target here.json --world-size 2\n"
    "  dsexec model.onnx --forward --feed inputs --fetch outputs --weights out.safetensors\n"
    "  dsexec model.onnx --generate 80 --prompt 'The license' --vocab vocab.json --seed 1\n"
    "  dsexec model.onnx --vjp --wrt 'fc1|input' --feed inputs --cotangent random:1 --fetch "
    "grads\n";

// What can be said about the flags before anything is loaded.
static Status checkFlags() {
  if (inputPath.empty())
    return Status::error("no model or plan is given").note("dsexec --help shows examples");
  bool haveSteps = steps.getNumOccurrences() > 0, haveEpochs = epochs.getNumOccurrences() > 0;
  if (selfChecks && (haveEpochs || !savePath.empty() || !logJson.empty() || !tracePath.empty() ||
                     !checkpointDir.empty()))
    return Status::error(
        "--self-check runs a few --steps, and leaves no log, trace, checkpoint or model");
  if (detectAnomaly && (selfChecks || !tracePath.empty()))
    return Status::error("--detect-anomaly executes one instruction after the other: it goes with "
                         "neither --trace nor "
                         "--self-check");
  if (saveInterval < 0)
    return Status::error("--save-interval cannot be negative");
  if (evalInterval < 0 || (evalInterval > 0 && evalData.empty()))
    return Status::error("--eval-interval takes a number of updates, and needs --eval-data");
  if (saveInterval > 0 && checkpointDir.empty())
    return Status::error("--save-interval needs --checkpoint-dir, where checkpoints go");
  if (haveSteps == haveEpochs && !(selfChecks && !haveSteps))
    return Status::error("expected either --steps N or --epochs N");
  if ((haveSteps && steps < 0) || (haveEpochs && epochs < 0))
    return Status::error("--steps and --epochs cannot be negative");
  if (seed < 0 || threads < 0 || linkRate < 0 || stepsPerPrint < 0 || maxSkips < 1)
    return Status::error(
        "--seed, --threads, --steps-per-print and --link-bytes-per-second cannot be negative, "
        "--max-skips must be at least 1");
  if (savePath.empty())
    return {};
  llvm::StringRef save(savePath);
  if (!save.endswith(".safetensors") && !save.endswith(".onnx"))
    return Status::error("--save-model " + savePath +
                         ": only .safetensors and .onnx files are written");
  if (save.endswith(".onnx") && !isOnnxPath(inputPath))
    return Status::error("--save-model " + savePath +
                         ": only what was read from ONNX is written "
                         "as ONNX, and this run is of " +
                         inputPath);
  std::string folder = std::filesystem::path(savePath.getValue()).parent_path().string();
  if (folder.empty())
    folder = ".";
  if (access(folder.c_str(), W_OK | X_OK) != 0)
    return Status::error("--save-model " + savePath + ": the folder " + folder +
                         " does not exist or cannot be written");
  return {};
}

static StatusOr<int64_t> totalUpdates(const Trainer &t) {
  if (!epochs.getNumOccurrences())
    return int64_t(steps);
  if (t.updatesPerEpoch() == 0)
    return Status::error("--epochs needs data with an end; use --steps");
  int64_t total;
  if (__builtin_mul_overflow(epochs.getValue(), t.updatesPerEpoch(), &total))
    return Status::error("--epochs " + std::to_string(epochs) +
                         " is more updates than can be counted");
  return total;
}

static Status save(Trainer &t, const std::optional<OnnxSaver> &saver, bool isFirst) {
  if (savePath.empty())
    return {};
  TRY(t.saveModel(saver ? saver->paramsPath() : savePath));
  if (saver && isFirst)
    TRY(saver->write());
  llvm::outs() << "saved " << savePath
               << (saver ? ", with its weights in " + saver->safetensorsPath() : "") << "\n";
  return {};
}

// Whether something else than training was asked for; it is done then.
static StatusOr<bool> runOther() {
  if (!inspect.empty()) {
    TRY_ASSIGN(std::string text, describeCheckpoint(inspect));
    llvm::outs() << text;
    return true;
  }
  TRY_ASSIGN(bool measures, asksForMeasure());
  if (measures) {
    if (!inputPath.empty())
      return Status::error("--measure-target measures this machine, not " + inputPath);
    TRY(runMeasure(device, threads));
    return true;
  }
  TRY_ASSIGN(bool once, asksForForward());
  if (once)
    TRY(runForward(inputPath, device, threads,
                   seed.getNumOccurrences() ? std::optional<int64_t>(seed) : std::nullopt));
  return once;
}

static RunOptions runOptions(const PlanConfig &config, const std::string &from,
                             const Membership &process) {
  RunOptions o;
  o.data = data;
  o.seed = static_cast<uint64_t>(seed);
  o.shuffle = !noShuffle;
  o.threads = threads;
  o.linkBytesPerSecond = linkRate;
  o.resume = from;
  o.evalData = evalData;
  o.detectAnomaly = detectAnomaly;
  o.process = process;
  o.exactSums = config.reduction == "exact";
  o.nvmePath = config.nvmePath;
  o.graphs = !noGraphs;
  o.pinHost = pinMemory || pinsHost(config);
  o.nvme.blockBytes = (config.aioBlock + kBlockAlign - 1) / kBlockAlign * kBlockAlign;
  o.nvme.queueDepth = static_cast<int>(config.aioDepth);
  o.traceEvents = tracePath.empty() ? 0 : size_t(1) << 16;
  return o;
}

// The exit code, if there is no error.
static StatusOr<int> run() {
  TRY_ASSIGN(bool other, runOther());
  if (other)
    return 0;
  TRY(checkFlags());
  TRY_ASSIGN(Membership process, membership());
  if (process.rank > 0)
    quiet();
  TRY_ASSIGN(std::string from, chooseResume(checkpointDir, resume));
  TRY_ASSIGN(Device d, findDevice(device));
  planForDevice(d.name);
  PlanConfig config;
  std::optional<Schedule> reference;
  ImportReport report;
  TRY_ASSIGN(Schedule s,
             planFromArgs(inputPath, threads, config, !evalData.empty(),
                          selfChecks ? &reference : nullptr,
                          steps.getNumOccurrences() ? std::optional<int64_t>(steps) : std::nullopt,
                          &report));
  std::optional<OnnxSaver> saver;
  if (llvm::StringRef(savePath).endswith(".onnx")) {
    TRY_ASSIGN(saver, OnnxSaver::prepare(inputPath, report, savePath));
  }
  if (!modelDir.empty())
    s.directory = modelDir;
  std::string deviceName = d.name, name = s.name;
  RunOptions o = runOptions(config, from, process);
  if (selfChecks) {
    TRY(selfCheck({std::move(s), std::move(d), o, steps.getNumOccurrences() ? steps : 2,
                   std::move(reference)}));
    return 0;
  }
  TRY_ASSIGN(std::unique_ptr<Trainer> t, Trainer::create(std::move(s), std::move(d), o));
  TRY_ASSIGN(int64_t total, totalUpdates(*t));

  if (!savePath.empty() || !checkpointDir.empty())
    TRY(checkNames(t->schedule()));
  std::optional<FolderLock> lock;
  if (!checkpointDir.empty() && process.rank <= 0) {
    TRY_ASSIGN(FolderLock taken, FolderLock::take(checkpointDir));
    lock.emplace(std::move(taken));
  }

  const Schedule &plan = t->schedule();
  llvm::outs() << name << ": " << plan.world() << " ranks x " << t->threads() << " threads on "
               << deviceName << ", stage " << plan.step.stage << ", micro-batch "
               << plan.step.microBatch << " x " << plan.step.gradAccum << ", " << t->arenaText()
               << " per rank\n";
  if (std::string masks = dropoutText(plan); !masks.empty())
    llvm::outs() << masks << "\n";
  if (std::string again = recomputedText(plan); !again.empty())
    llvm::outs() << again << "\n";
  for (const std::string &note : t->notes())
    llvm::outs() << note << "\n";
  for (const std::string &choice : verbose ? t->kernelNotes() : std::vector<std::string>())
    llvm::outs() << choice << "\n";
  if (!from.empty())
    llvm::outs() << "going on from " << from << ", update " << t->updates()
                 << (t->updates() >= total ? ": nothing is left of " + std::to_string(total) : "")
                 << "\n";
  llvm::outs().flush();

  LogOptions l;
  l.firstUpdate = t->updates();
  l.out = stdout;
  l.terminal = isatty(STDOUT_FILENO);
  l.linesEvery = stepsPerPrint > 0 ? stepsPerPrint : config.stepsPerPrint;
  l.totalUpdates = total;
  l.jsonPath = process.rank > 0 ? "" : logJson.getValue();
  TRY_ASSIGN(std::unique_ptr<RunLog> log, RunLog::create(*t, l));
  if (process.rank < 0)
    catchSignals(); // processes would not end after the same update: a signal ends one, and that the others
  StatusOr<int> ended = train(
      *t, *log, {total, maxSkips, checkpointDir, saveInterval, !evalData.empty(), evalInterval});
  log->endLine();
  Status after = std::move(ended).status();
  if (!tracePath.empty() && process.rank <= 0) // also after an error: it shows what came before
    after.merge(t->writeTrace(tracePath));
  TRY(std::move(after));
  TRY(log->finish());
  if (*ended) {
    llvm::outs() << "ended by signal " << *ended << " after update " << t->updates() << " of "
                 << total << (checkpointDir.empty() ? "" : "; --resume auto goes on from here")
                 << "\n";
    return 128 + *ended;
  }
  TRY(save(*t, saver, process.rank <= 0));
  return 0;
}

int main(int argc, char **argv) {
  exitOnFatalErrors("dsexec");
  Args args(argc, argv);
  cl::extrahelp help(kExamples);
  Status s = parseFlags(args, "Trains an ONNX model under ZeRO\n",
                        {&running, &forwardCategory(), &output, &testing, &planCategory(),
                         &passCategory(), &importCategory()});
  if (s.ok()) {
    StatusOr<int> code = run();
    if (code.ok())
      return *code;
    s = std::move(code).status();
  }
  llvm::errs() << diagnostics(s, "dsexec");
  return static_cast<int>(s.code());
}
