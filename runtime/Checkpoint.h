// SPDX-License-Identifier: Apache-2.0
//
// Checkpoints: the state of training between two updates, as a folder of its own (docs/checkpoints.md).
//   DIR/update-00000100/rank-00000.safetensors ...   slice r of every trained bucket: weights and states
//   DIR/update-00000100/manifest.json                what lies where, scalars, the data's position
//   DIR/latest                                       the name of the newest one
// A folder gets its name when everything in it has been written and synced, so one with a name is complete.
#pragma once

#include "runtime/Comm.h"
#include "runtime/Loader.h"
#include "runtime/Manifest.h"
#include "runtime/PieceFile.h"

namespace ds {

/// Called by every rank, between updates; `run` holds what is not in the schedule (update, data, seed, shuffle;
/// tensors: those of the checkpoint that the run went on from), and is the same on all ranks. No collective is used, ranks only wait for each other. After an error no folder is left
/// behind, older checkpoints are untouched, and every rank returns an error.
Status writeCheckpoint(const Schedule &s, const LoadedRank &rank, Comm &comm, const Manifest &run,
                       const std::string &dir);

/// The folder of the complete checkpoint that was written last into dir, or "" if there is none.
StatusOr<std::string> newestCheckpoint(const std::string &dir);
/// manifest.json of a checkpoint's folder. Errors say what is missing.
StatusOr<Manifest> readManifest(const std::string &folder);

/// A file of the checkpoint that the manifest describes; another checkpoint's is refused.
StatusOr<PieceFile> openPieces(const std::string &folder, const std::string &file,
                               const Manifest &m);

/// Whether the plan can go on from the checkpoint: the same parameters, states, scalars and global batch; any stage,
/// number of ranks, micro-batch and accumulation. Reports all differences.
Status checkResume(const Schedule &s, const Manifest &m);
/// Fills the rank's weights, states and scalars. checkResume must have passed. Every piece read is checked against
/// its checksum.
Status loadCheckpoint(const Schedule &s, const LoadedRank &rank, const Manifest &m,
                      const std::string &folder);

/// What dsexec --inspect prints: the run, tensors and bytes by slot, and whether every file is whole.
StatusOr<std::string> describeCheckpoint(const std::string &folder);

} // namespace ds
