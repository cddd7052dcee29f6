// SPDX-License-Identifier: Apache-2.0
//
// The state of one import, shared by its steps, in order: nodes flattened (OnnxInline.cpp), inputs bound
// (OnnxInputs.cpp), initializers classified (OnnxParams.cpp), nodes converted (OnnxImport.cpp, with
// converters and evaluators from OnnxOps.def), known values emitted on demand (OnnxEmit.cpp).
#pragma once

#include "frontend/OnnxConvert.h"

#include <deque>
#include <unordered_map>
#include <unordered_set>

namespace ds {

/// The role in which a tensor is used; anything but None makes an unlabelled float tensor a parameter.
enum class TensorRole : uint8_t { None, Table, Matrix, Vector };

struct OnnxTensor {
  TensorHandle handle;
  TensorRole role = TensorRole::None;
  std::string kind; // exporter's label: "PARAMETER", "BUFFER", "CONSTANT_TENSOR", or empty
  bool isParam = false;
  bool isRunning = false; // statistics of BatchNormalization under --bn batch; also a parameter
  int tiedTo = -1;        // another tensor that this one is a copy of (H6)
  bool tiedTransposed = false;
  std::string module;
  Symbol *symbol = nullptr; // made before conversion for parameters, on demand for constants
};

/// Inlining: new names of a body's values, and the attributes of the call.
using OnnxNames = std::unordered_map<std::string, std::string>;
using OnnxAttrs = std::unordered_map<std::string, const onnx::AttributeProto *>;
/// Gives every value name that `names` lacks a fresh one (prefix + name) and fills in attribute references;
/// a reference to an attribute that the call does not give is dropped.
void rewriteNode(onnx::NodeProto &n, OnnxNames &names, const OnnxAttrs &attrs,
                 const std::string &prefix);

class Importer {
public:
  Importer(OnnxFile &file, const ImportOptions &options, ImportReport &report)
      : file(file), options(options), report(report) {}

  OnnxFile &file;
  const ImportOptions &options;
  ImportReport &report;
  std::unique_ptr<Module> module;
  Program *program = nullptr;

  std::vector<OnnxNode> nodes;           // flattened, in order, only those that outputs depend on
  std::deque<onnx::NodeProto> nodeStore; // nodes that inlining made
  std::unordered_map<std::string, OnnxVal> values;
  std::vector<OnnxTensor> tensors; // initializers and tensors of Constant nodes, in file order
  std::unordered_map<std::string, size_t> tensorIndex;
  /// (node index, input index) -> tensor that stands there instead of the named one (H1).
  std::map<std::pair<size_t, size_t>, size_t> separatedUse;
  std::set<size_t>
      maskNodes; // nodes that shape the input of a Softmax: -inf becomes finite there (H7)

  StatusOr<std::unique_ptr<Module>> run();

  // OnnxInline.cpp: fills nodes; function calls replaced by bodies.
  Status flatten();
  Status dropDeadNodes();
  // OnnxInputs.cpp
  Status bindInputs();
  // OnnxParams.cpp
  Status collectTensors();
  Status classify();
  Status restoreTies();
  Status findRunning();
  Status createSymbols();
  // OnnxImport.cpp
  Status checkModel();
  Status checkOperators();
  void findMaskNodes();
  Status setOutputs(Builder &b);
  Status dropDeadOps();
  void renumber();
  void fillReport();

  // OnnxNodes.cpp
  static constexpr size_t kNoIndex = ~size_t(0); // nodes inside branches and expanded functions
  Status convertNode(const OnnxNode &n, size_t index, Builder &b, int depth);
  Status inlineIf(const OnnxNode &n, const OnnxVal &condition, Builder &b, int depth);
  /// Expands an operator that the ONNX standard defines as a function; found is false if it does not.
  Status expandFunction(const OnnxNode &n, const std::vector<OnnxVal> &in, Builder &b, int depth,
                        bool &found);
  Status bindOutputs(const OnnxNode &n, std::vector<OnnxVal> out);
  /// Tells report.unknown which inputs v depends on.
  void needsKnown(const Value *v);
  /// The same for the integer inputs of a node that could not be converted, if nothing was told.
  void needsKnown(const OnnxNode &n);
  /// The value bound to a name: an earlier result, an input, or an initializer.
  StatusOr<OnnxVal> lookup(const std::string &name, Builder &b);
  StatusOr<OnnxVal> tensorValue(size_t index, Builder &b);
  std::unordered_map<size_t, OnnxVal> tensorValues;

  // OnnxEmit.cpp
  /// Builder::tryCreate that remembers the names asked for, so that renumber() can give them out again.
  StatusOr<Op *> create(Builder &b, OpKind k, llvm::ArrayRef<Value *> operands,
                        llvm::ArrayRef<std::string> names, Attrs attrs = {});
  std::unordered_map<const Value *, std::string> baseNames;
  StatusOr<Value *> emitKnown(const KnownRef &k, const std::string &name, Builder &b);
  StatusOr<Value *> emitFill(DType t, const Dims &dims, double v, const std::string &name,
                             Builder &b);
  StatusOr<Value *> emitIota(DType t, const Dims &dims, int64_t axis, int64_t start, int64_t step,
                             const std::string &name, Builder &b);
  std::unordered_map<std::string, Value *> constantCache; // by text
  std::vector<std::pair<KnownRef, Value *>> emitted;
  /// How a known value too large to embed was computed: emitted as ops if it is needed at run time.
  struct Recipe {
    KnownRef known;
    const OnnxNode *node;
    std::vector<OnnxVal> in;
    size_t output;
  };
  std::unordered_map<const Known *, Recipe> recipes;
  std::unordered_map<const Known *, size_t> tensorOf; // known values that are a tensor's data
  std::vector<size_t> paramOrder() const;             // indices of parameters, by first use
  Status convertWith(const OnnxOpInfo &info, Converter &c);
  /// Large known results by what computed them: layers that repeat a step share its result. Keeps the operands
  /// too, whose addresses are in the key.
  std::unordered_map<std::string, std::pair<std::vector<KnownRef>, std::vector<KnownRef>>>
      evaluated;
  int64_t knownElems = 0; // stored elements of all known values so far
  int64_t knownWork = 0;  // elements that evaluators read and wrote so far
  std::unordered_map<const Known *, std::string> knownNames;
  int expansions = 0;
  std::deque<OnnxNode> branchNodes; // of branches and expanded functions
};

/// "/model/layers.0/fc1/MatMul_output_0" -> "layers.0.fc1"; see OnnxNames.cpp.
std::string shortName(const OnnxNode &n, size_t output);
std::string symbolName(std::string_view initializer);
std::string modulePath(const onnx::NodeProto &n);
/// "model." and "module." wrap everything and say nothing: that prefix of a path, and the module path of
/// "model.layers.0.norm.weight" without it.
std::string wrapperOf(std::string_view path);
std::string moduleOf(std::string_view initializer);
/// Keeps letters, digits, '_' and '.'; the first character is a letter or '_'.
std::string sanitized(std::string_view s);

/// True if emitKnown makes k without its original data: few elements, or a pattern.
bool isEmbeddable(const Known &k);

/// Known values with more stored elements than this are emitted as ops, not as data.
inline constexpr int64_t kMaxEmbedded = int64_t(1) << 16;
/// No single known value, and not all together, may be larger (elements).
inline constexpr int64_t kMaxKnown = int64_t(1) << 24, kMaxKnownTotal = int64_t(1) << 26;
/// Elementwise results with more stored elements are left to the program: a mask of 4096 x 4096, whose steps would take
/// gigabytes here and are a few cheap ops there.
inline constexpr int64_t kMaxComputed = int64_t(1) << 23;
/// Evaluators may read and write this many elements in one import, some seconds of work; then nodes are converted
/// like those whose inputs are not known.
inline constexpr int64_t kMaxKnownWork = int64_t(1) << 30;
/// Float data that is no parameter is read at import up to this many elements; integers up to kMaxKnown.
inline constexpr int64_t kMaxFloatRead = int64_t(1) << 20;
inline constexpr int kMaxCallDepth = 64;
inline constexpr size_t kMaxNodes = 1'000'000;
inline constexpr int64_t kMaxCalls = 100'000; // of functions, before their bodies' own

} // namespace ds
