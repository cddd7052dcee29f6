// SPDX-License-Identifier: Apache-2.0
//
// The generator's own table of rows: what a node of a random graph may be. A row makes a few ops around its first operand and
// keeps values near 1, so that nothing overflows and differences stay meaningful; it never mixes samples, so that a batch may
// be cut anywhere. An op of ir/Ops.def that no row draws and that notDrawn does not explain fails a test.
#pragma once

#include "test/property/GraphMaker.h"

namespace ds::property {

struct Row {
  const char *name;
  std::vector<OpKind> ops; // what it is there to draw
  /// x and y: float values whose first axis holds the samples. Returns x itself if the row does not fit.
  Value *(*make)(GraphMaker &, Value *x, Value *y);
  bool isLayer = false; // has weights of its own: drawn more often
};

const std::vector<Row> &rows();
/// Indices of the rows that are layers.
const std::vector<int> &layerRows();
/// Ops of the table that no row draws, with the reason.
const std::vector<std::pair<OpKind, const char *>> &notDrawn();

// Families, each in its Rows*.cpp.
void addElementwiseRows(std::vector<Row> &);
void addMovementRows(std::vector<Row> &);
void addMatrixRows(std::vector<Row> &);
void addWindowRows(std::vector<Row> &);

} // namespace ds::property
