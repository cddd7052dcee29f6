// SPDX-License-Identifier: Apache-2.0
#include "tools/MeasureModels.h"

#include <map>

namespace ds {

namespace {

// One layer of a transformer with two activations, and its head. $R = $B x $T rows, $H heads of $D = $C / $H.
constexpr const char *kTransformer = R"(module @transformer {
  param @E : f32[$V,$C] init normal(1,0.02)
  param @g : f32[$C] init normal(2,1)
  param @gb : f32[$C] init normal(3,0.02)
  param @wqkv : f32[$C,$3C] init normal(4,0.02) {module="h.0"}
  param @bqkv : f32[$3C] init normal(5,0.02) {module="h.0"}
  param @wo : f32[$C,$C] init normal(6,0.02) {module="h.0"}
  param @w1 : f32[$C,$4C] init normal(7,0.02) {module="h.1"}
  param @b1 : f32[$4C] init normal(8,0.02) {module="h.1"}
  param @w2 : f32[$4C,$C] init normal(9,0.02) {module="h.1"}
  param @b2 : f32[$C] init normal(10,0.02) {module="h.1"}

  func @micro(%ids: i64[$B,$T] below $V) {
  forward:
    %x = gather @E, %ids : f32[$B,$T,$C]
    %n, %n.mean, %n.rstd = layer_norm %x, @g, @gb : f32[$B,$T,$C], f32[$B,$T], f32[$B,$T]
    %n.rows = reshape %n : f32[$R,$C]
    %qkv.mm = matmul %n.rows, @wqkv : f32[$R,$3C]
    %qkv.rows = add %qkv.mm, @bqkv : f32[$R,$3C]
    %qkv = reshape %qkv.rows : f32[$B,$T,$3C]
    %q = slice %qkv {starts=[0,0,0], limits=[$B,$T,$C], strides=[1,1,1]} : f32[$B,$T,$C]
    %k = slice %qkv {starts=[0,0,$C], limits=[$B,$T,$2C], strides=[1,1,1]} : f32[$B,$T,$C]
    %v = slice %qkv {starts=[0,0,$2C], limits=[$B,$T,$3C], strides=[1,1,1]} : f32[$B,$T,$C]
    %q.4 = reshape %q : f32[$B,$T,$H,$D]
    %k.4 = reshape %k : f32[$B,$T,$H,$D]
    %v.4 = reshape %v : f32[$B,$T,$H,$D]
    %q.t = transpose %q.4 {perm=[0,2,1,3]} : f32[$B,$H,$T,$D]
    %k.t = transpose %k.4 {perm=[0,2,1,3]} : f32[$B,$H,$T,$D]
    %v.t = transpose %v.4 {perm=[0,2,1,3]} : f32[$B,$H,$T,$D]
    %scores.mm = matmul %q.t, %k.t {trans_b} : f32[$B,$H,$T,$T]
    %scale = fill {value=0.125} : f32[]
    %scores = mul %scores.mm, %scale : f32[$B,$H,$T,$T]
    %low = fill {value=-1e30} : f32[1,1,$T,$T]
    %mask = trilu %low {upper, k=1} : f32[1,1,$T,$T]
    %masked = add %scores, %mask : f32[$B,$H,$T,$T]
    %p = softmax %masked : f32[$B,$H,$T,$T]
    %o.mm = matmul %p, %v.t : f32[$B,$H,$T,$D]
    %o.t = transpose %o.mm {perm=[0,2,1,3]} : f32[$B,$T,$H,$D]
    %o.rows = reshape %o.t : f32[$R,$C]
    %o = matmul %o.rows, @wo : f32[$R,$C]
    %o.3 = reshape %o : f32[$B,$T,$C]
    %h = add %o.3, %x : f32[$B,$T,$C]
    %h.rows = reshape %h : f32[$R,$C]
    %f.mm = matmul %h.rows, @w1 : f32[$R,$4C]
    %f = add %f.mm, @b1 : f32[$R,$4C]
    %three = fill {value=3.0} : f32[]
    %f.pow = pow %f, %three : f32[$R,$4C]
    %little = fill {value=0.0447} : f32[]
    %f.pow.mul = mul %f.pow, %little : f32[$R,$4C]
    %f.sum = add %f, %f.pow.mul : f32[$R,$4C]
    %f.tanh = tanh %f.sum : f32[$R,$4C]
    %f.gelu = gelu %f : f32[$R,$4C]
    %f.relu = relu %f : f32[$R,$4C]
    %f.sigmoid = sigmoid %f : f32[$R,$4C]
    %a.1 = mul %f.tanh, %f.gelu : f32[$R,$4C]
    %a.2 = mul %f.relu, %f.sigmoid : f32[$R,$4C]
    %a = sub %a.1, %a.2 : f32[$R,$4C]
    %m.mm = matmul %a, @w2 : f32[$R,$C]
    %m = add %m.mm, @b2 : f32[$R,$C]
    %y = add %m, %h.rows : f32[$R,$C]
    %y.3 = reshape %y : f32[$B,$T,$C]
    %logits = matmul %y.3, @E {trans_b} : f32[$B,$T,$V]
    return %logits
  }
}
)";

// A stem, a block, a block of half the size, two wide products, and a head: images of $S x $S become $S2, $S4, $S8.
constexpr const char *kConvolutions = R"(module @convolutions {
  param @k1 : f32[$C,3,7,7] init normal(1,0.1)
  param @g1 : f32[$C] init normal(2,1)
  param @b1 : f32[$C] init normal(3,0.1)
  param @k2 : f32[$C,$C,3,3] init normal(4,0.1)
  param @g2 : f32[$C] init normal(5,1)
  param @b2 : f32[$C] init normal(6,0.1)
  param @k3 : f32[$2C,$C,3,3] init normal(7,0.1)
  param @g3 : f32[$2C] init normal(8,1)
  param @b3 : f32[$2C] init normal(9,0.1)
  param @k4 : f32[$2C,$C,1,1] init normal(10,0.1)
  param @k5 : f32[$4C,$2C,3,3] init normal(11,0.1)
  param @k6 : f32[$4C,$4C,3,3] init normal(12,0.1)
  param @w : f32[$V,$4C] init normal(13,0.1)
  param @b : f32[$V] init normal(14,0.1)

  func @micro(%images: f32[$B,3,$S,$S]) {
  forward:
    %c1 = conv %images, @k1 {strides=[2,2], low=[3,3], high=[3,3]} : f32[$B,$C,$S2,$S2]
    %n1, %n1.mean, %n1.var = batch_norm %c1, @g1, @b1 : f32[$B,$C,$S2,$S2], f32[$C], f32[$C]
    %r1 = relu %n1 : f32[$B,$C,$S2,$S2]
    %p1 = max_pool %r1 {window=[3,3], strides=[2,2], low=[1,1], high=[1,1]} : f32[$B,$C,$S4,$S4]
    %c2 = conv %p1, @k2 {low=[1,1], high=[1,1]} : f32[$B,$C,$S4,$S4]
    %n2, %n2.mean, %n2.var = batch_norm %c2, @g2, @b2 : f32[$B,$C,$S4,$S4], f32[$C], f32[$C]
    %s2 = add %n2, %p1 : f32[$B,$C,$S4,$S4]
    %r2 = relu %s2 : f32[$B,$C,$S4,$S4]
    %c3 = conv %r2, @k3 {strides=[2,2], low=[1,1], high=[1,1]} : f32[$B,$2C,$S8,$S8]
    %n3, %n3.mean, %n3.var = batch_norm %c3, @g3, @b3 : f32[$B,$2C,$S8,$S8], f32[$2C], f32[$2C]
    %c4 = conv %r2, @k4 {strides=[2,2]} : f32[$B,$2C,$S8,$S8]
    %s3 = add %n3, %c4 : f32[$B,$2C,$S8,$S8]
    %r3 = relu %s3 : f32[$B,$2C,$S8,$S8]
    %c5 = conv %r3, @k5 {low=[1,1], high=[1,1]} : f32[$B,$4C,$S8,$S8]
    %c6 = conv %c5, @k6 {low=[1,1], high=[1,1]} : f32[$B,$4C,$S8,$S8]
    %a = avg_pool %c6 {window=[2,2], strides=[2,2]} : f32[$B,$4C,$S16,$S16]
    %sum = reduce_sum %a {axes=[2,3]} : f32[$B,$4C]
    %fc = matmul %sum, @w {trans_b} : f32[$B,$V]
    %logits = add %fc, @b : f32[$B,$V]
    return %logits
  }
}
)";

// Replaces $NAME by its number; longest names first, as std::map has $4C behind $4 and $S16 behind $S1.
std::string filled(const char *text, const std::map<std::string, int64_t> &sizes) {
  std::string out = text;
  for (auto it = sizes.rbegin(); it != sizes.rend(); ++it)
    for (size_t at = 0; (at = out.find("$" + it->first, at)) != std::string::npos;)
      out.replace(at, it->first.size() + 1, std::to_string(it->second));
  return out;
}

std::string transformer(int64_t b, int64_t t, int64_t c, int64_t heads, int64_t v) {
  return filled(kTransformer, {{"B", b},
                               {"T", t},
                               {"R", b * t},
                               {"C", c},
                               {"2C", 2 * c},
                               {"3C", 3 * c},
                               {"4C", 4 * c},
                               {"H", heads},
                               {"D", c / heads},
                               {"V", v}});
}

std::string convolutions(int64_t b, int64_t s, int64_t c, int64_t v) {
  return filled(kConvolutions, {{"B", b},
                                {"S", s},
                                {"S2", s / 2},
                                {"S4", s / 4},
                                {"S8", s / 8},
                                {"S16", s / 16},
                                {"C", c},
                                {"2C", 2 * c},
                                {"4C", 4 * c},
                                {"V", v}});
}

} // namespace

std::vector<MeasureModel> measureModels() {
  std::vector<MeasureModel> all;
  for (bool half : {false, true}) {
    for (bool fuse : {true, false}) {
      all.push_back({transformer(1, 32, 64, 2, 256), 1, half, fuse});
      all.push_back({transformer(2, 96, 192, 4, 2000), 2, half, fuse});
      all.push_back({transformer(4, 224, 704, 11, 16000), 4, half, fuse});
    }
    all.push_back({convolutions(1, 32, 8, 10), 1, half, true});
    all.push_back({convolutions(4, 64, 32, 100), 4, half, true});
    all.push_back({convolutions(12, 160, 56, 500), 12, half, true});
  }
  return all;
}

} // namespace ds
