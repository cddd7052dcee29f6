// SPDX-License-Identifier: Apache-2.0
//
// What the two halves of the attention kernels share: tasks for the code of each Highway target, and where the buffers of a
// thread lie in the workspace.
#pragma once

#include "kernels/AttentionShape.h"
#include "kernels/cpu/Half.h"

namespace ds::cpu {

/// Queries and keys of a block: its scores stay in the second-level cache.
inline constexpr int64_t kAttentionQueries = 96, kAttentionKeys = 128;
/// Rows are padded to this many floats, the most that any target has in a vector; scores by more, against equal cache sets.
inline constexpr int64_t attentionPad(int64_t n) { return (n + 15) / 16 * 16; }
inline constexpr int64_t kAttentionScores = kAttentionKeys + 16;

struct AttentionTask {
  AttentionShape s;
  FloatPort port; // q, k, v, o and their gradients
  const void *q, *k, *v, *o, *dO;
  void *out, *dq, *dk, *dv;
  AttentionAxes dOAxes, dqAxes, dkAxes, dvAxes;
  float *lse; // [B,H,T]: written forward, read backward
  const int64_t *lseStrides;
  int64_t lseAt(int64_t b, int64_t h, int64_t t) const {
    return b * lseStrides[0] + h * lseStrides[1] + t * lseStrides[2];
  }
};

/// Takes floats off a thread's workspace, 64-byte aligned; with a null base it only counts.
class FloatBuffers {
public:
  explicit FloatBuffers(float *base) : base(base) {}
  float *take(int64_t n) {
    float *p = base ? base + used : nullptr;
    used += (n + 15) / 16 * 16;
    return p;
  }
  int64_t used = 0;

private:
  float *base;
};

/// Buffers of a forward task.
struct ForwardBuffers {
  float *q, *o, *top, *sum, *kt, *v, *rows, *scores, *mask;
  static ForwardBuffers take(const AttentionShape &s, FloatBuffers &b) {
    const int64_t depth = attentionPad(s.depth), width = attentionPad(s.width);
    ForwardBuffers f{};
    f.q = b.take(s.queries * depth), f.o = b.take(s.queries * width);
    f.top = b.take(s.queries), f.sum = b.take(s.queries);
    f.kt = b.take(s.depth * kAttentionScores), f.v = b.take(kAttentionKeys * width);
    f.rows = b.take(kAttentionKeys * depth);
    f.scores = b.take(kAttentionQueries * kAttentionScores);
    f.mask = b.take(kAttentionScores);
    return f;
  }
};

struct BackwardBuffers {
  float *q, *dO, *dq, *delta, *o, *dk, *dv, *k, *kt, *v, *vt, *scores, *slopes, *mask;
  static BackwardBuffers take(const AttentionShape &s, FloatBuffers &b) {
    const int64_t depth = attentionPad(s.depth), width = attentionPad(s.width);
    BackwardBuffers f{};
    f.q = b.take(s.queries * depth), f.dO = b.take(s.queries * width);
    f.dq = b.take(s.queries * depth), f.delta = b.take(s.queries), f.o = b.take(width);
    f.dk = b.take(s.keys * depth), f.dv = b.take(s.keys * width);
    f.k = b.take(kAttentionKeys * depth), f.kt = b.take(s.depth * kAttentionScores);
    f.v = b.take(kAttentionKeys * width), f.vt = b.take(s.width * kAttentionScores);
    f.scores = b.take(kAttentionQueries * kAttentionScores);
    f.slopes = b.take(kAttentionQueries * kAttentionScores);
    f.mask = b.take(kAttentionScores);
    return f;
  }
};

/// n rows of `width` elements from row `row` of head h of t on, as f32 rows of `pad` floats, times `factor`, zeros behind.
void loadRows(const AttentionTask &t, const void *data, const AttentionAxes &a, int64_t b,
              int64_t h, int64_t row, int64_t n, int64_t width, float factor, float *out);
/// The opposite.
void storeRows(const AttentionTask &t, void *data, const AttentionAxes &a, int64_t b, int64_t h,
               int64_t row, int64_t n, int64_t width, const float *x);
/// What the mask adds to the scores of query t and keys [from, from + n).
void loadMask(const AttentionShape &s, int64_t b, int64_t h, int64_t t, int64_t from, int64_t n,
              float *out);

} // namespace ds::cpu
