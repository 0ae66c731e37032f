#include "kernel/builders/rotate_append.h"

#include "kernel/builders/generate.h"
#include "kernel/builders/row_walk.h"

namespace rlxc::kernel {
namespace {

class RotateAppend {
 public:
  RotateAppend(Builder& b, const RotateAppendSpec& s, const Mapping& m)
      : b_(b), k_(b.kernel()), s_(s), m_(m), compute_(compute_dtype(s.q.dtype)) {
    const auto in = [&](const Operand& o) { return b.input(o.name, o.dtype, o.extent); };
    q_ = in(s.q);
    k_in_ = in(s.k);
    v_ = in(s.v);
    for (int i : {0, 1}) {
      cosine_[i] = in(s.cosine[i]);
      sine_[i] = in(s.sine[i]);
    }
    at_ = in(s.at);
    y_ = b.output(s.y.name, s.y.dtype, s.y.extent);
    keys_ = b.inout(s.keys.name, s.keys.dtype, s.keys.extent);
    values_ = b.inout(s.values.name, s.values.dtype, s.values.extent);
    bool vectors = s.step == 1;
    for (const Operand* o : {&s.cosine[0], &s.cosine[1], &s.sine[0], &s.sine[1]})
      vectors = vectors && (same(o->strides.back(), 1) || same(o->strides.back(), 0));
    lanes_ = vectors ? vector_for(m, s.pairs.in(k_), compute_) : 1;
  }

  void run() {
    const Expr heads = s_.heads.in(k_), kv_heads = s_.kv_heads.in(k_);
    const Dims rows = {s_.batch, heads + kv_heads * 2, s_.length};
    per_row(b_, m_, product(k_, rows), s_.width.in(k_), rlxc::bits(compute_) / 8, [&](Expr row, Thread thread) {
      std::vector<Expr> at = split_index(row, rows);
      for (Expr& e : at) e = b_.let("i", e);
      const Expr head = at[1];
      const auto of_head = [&](Expr first) { return std::vector<Expr>{at[0], b_.let("head", head - first), at[2]}; };
      b_.when(
          head < heads, [&] { rotate(q_, s_.q, at, at, y_, s_.y, at[2], thread); },
          [&] {
            const Expr found = at_[s_.at.offset.in(k_) + at[0] * s_.at.strides[0].in(k_) + at[2] * s_.at.strides[1].in(k_)];
            const Expr to = b_.let("to", wrap_index(cast_to(found, DType::I64), s_.room.in(k_)));
            b_.when(
                head < heads + kv_heads, [&] { rotate(k_in_, s_.k, of_head(heads), at, keys_, s_.keys, to, thread); },
                [&] {
                  const std::vector<Expr> from = of_head(heads + kv_heads);
                  copy(v_, base(s_.v, from, from[2]), values_, base(s_.values, from, to), s_.value_width.in(k_), thread);
                });
          });
    });
  }

 private:
  using Thread = std::optional<Expr>;

  Expr base(const Operand& o, const std::vector<Expr>& at, Expr row) {
    return b_.let("base",
                  o.offset.in(k_) + at[0] * o.strides[0].in(k_) + at[1] * o.strides[1].in(k_) + row * o.strides[2].in(k_));
  }

  void copy(const Buf& x, Expr from, const Buf& y, Expr to, Expr count, Thread thread) {
    const int lanes = vector_for(m_, count, compute_);
    across(b_, count, lanes, thread, m_.workgroup_size, 1,
           [&](Expr i, int w, int) { y.store(to + i, cast_to(x.load(from + i, w), y.type().dtype)); });
  }

  // `at`: batch, head of x and row of x; `of_table`: the same with the head of the table.
  void rotate(const Buf& x, const Operand& of_x, const std::vector<Expr>& at, const std::vector<Expr>& of_table, const Buf& y,
              const Operand& of_y, Expr to, Thread thread) {
    const Expr x_base = base(of_x, at, at[2]), y_base = base(of_y, at, to), second = s_.second.in(k_);
    Expr cosine[2], sine[2];
    for (int i : {0, 1}) {
      cosine[i] = base(s_.cosine[i], of_table, of_table[2]);
      sine[i] = base(s_.sine[i], of_table, of_table[2]);
    }
    across(b_, s_.pairs.in(k_), lanes_, thread, m_.workgroup_size, 1, [&](Expr i, int w, int) {
      const auto angle = [&](const Buf& table, const Operand& o, Expr first) {
        const Expr found = table.load(first + i * o.strides.back().in(k_), same(o.strides.back(), 0) ? 1 : w);
        return broadcast(cast_to(found, compute_), w);
      };
      const auto element = [&](Expr offset) { return b_.let("x", cast_to(x.load(x_base + i * s_.step + offset, w), compute_)); };
      const Expr a = element(b_.i64(0)), e = element(second);
      y.store(y_base + i * s_.step,
              cast_to(a * angle(cosine_[0], s_.cosine[0], cosine[0]) - e * angle(sine_[0], s_.sine[0], sine[0]), of_y.dtype));
      y.store(y_base + i * s_.step + second,
              cast_to(e * angle(cosine_[1], s_.cosine[1], cosine[1]) + a * angle(sine_[1], s_.sine[1], sine[1]), of_y.dtype));
    });
    const Expr rotated = s_.rotated.in(k_), rest = s_.width.in(k_)-rotated;
    if (!is_constant(rest, 0)) copy(x, x_base + rotated, y, y_base + rotated, rest, thread);
  }

  Builder& b_;
  Kernel* k_;
  const RotateAppendSpec& s_;
  const Mapping& m_;
  const DType compute_;
  int lanes_ = 1;
  Buf q_, k_in_, v_, cosine_[2], sine_[2], at_, y_, keys_, values_;
};

}  // namespace

void build_rotate_append(Builder& b, const RotateAppendSpec& s, const Mapping& m) { RotateAppend(b, s, m).run(); }

}  // namespace rlxc::kernel
