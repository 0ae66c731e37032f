// TopK by a heap. The results of a row hold the best elements so far. The root is the worst of them, and a better element
// replaces it. The heap is sorted in place at the end. O(n + r log k) for r replacements. r is small unless the row is sorted.
// The heap of a CPU thread holds keys. The upper half of a key is the element's rank and the lower half its index, so one
// comparison orders two elements. Values and indices replace the keys at the end.
#include "codegen/lowerings.h"
#include "kernel/builders/generate.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMostLevels = 40;          // of a heap; more elements exceed any memory
constexpr int64_t kLastIndex = 0xffff'ffff;  // of a key
constexpr int kSignBits = 31;                // below the sign of a rank
constexpr int32_t kMagnitude = 0x7fff'ffff;  // of a rank

class TopRows {
 public:
  // Adds the kernel.
  explicit TopRows(Node& node)
      : s_(node),
        largest_(node.attrs<TopKAttrs>().largest),
        t_(kernel::compute_dtype(node.dtype(0))),
        count_(s_.size(node.attrs<TopKAttrs>().k)) {
    const Dims x = s_.shape(node.dims(0));
    const auto axis = static_cast<size_t>(node.attrs<TopKAttrs>().axis);
    const Index kept = kernel::product(s_.kernel(), s_.shape(node.result_dims()));
    int64_t length = 0;
    by_keys_ = !node.mapping().workgroups && (t_ == DType::F32 || t_ == DType::I32) &&
               !(constant(x[axis], &length) && length > kLastIndex);
    data_ = s_.in_buf(0);
    for (uint32_t r = 0; r < 2; ++r) s_.bind({Binding::Kind::Result, r});
    values_ = b_.inout("values", node.dtype(0), kept);
    indices_ = b_.inout("indices", DType::I64, kept);
    kernel::for_each_row(b_, node.mapping(), x, axis, 1 << 16, [&](Expr row, Expr base, Expr stride) {
      const Expr n = x[axis].in(s_.kernel());
      by_keys_ ? select_keys(row, base, stride, n) : select(row, base, stride, n);
    });
    s_.finish();
  }

 private:
  struct Element {
    Expr value, index;
  };

  // NaN is the largest value.
  Expr better(Expr v, Expr w) const {
    if (!is_float(t_)) return largest_ ? v > w : v < w;
    return largest_ ? v > w || (isnan(v) && !isnan(w)) : v < w || (!isnan(v) && isnan(w));
  }
  Expr comes_after(const Element& a, const Element& b) const {
    return better(b.value, a.value) || (!better(a.value, b.value) && a.index > b.index);
  }
  Expr wide(Expr v) const { return cast_to(v, t_); }
  Element kept(Expr i) {
    const Expr at = b_.let("at", to_ + i * stride_);
    return {b_.let("kept", wide(values_[at])), b_.let("index", indices_[at])};
  }
  void store(Expr i, const Element& e) {
    const Expr at = b_.let("at", to_ + i * stride_);
    values_.store(at, cast_to(e.value, values_.type().dtype));
    indices_.store(at, e.index);
  }

  // Places `e` in the heap of `size` elements: at `first`, or below it.
  void sift(const Element& e, Expr first, Expr size) {
    Buf hole = b_.variable("hole", first), open = b_.variable("open", b_.i64(1));
    b_.loop("level", levels_, [&](Expr) {
      const Expr left = b_.let("left", hole.get() * 2 + 1);
      b_.when(open.get() == 1 && left < size, [&] {
        const Element l = kept(left), r = kept(min(left + 1, size - 1));
        const Expr take_right = b_.let("take_right", left + 1 < size && comes_after(r, l));
        const Element worse{b_.let("v", kernel::select(take_right, r.value, l.value)),
                            b_.let("i", kernel::select(take_right, r.index, l.index))};
        b_.when(
            comes_after(worse, e),
            [&] {
              store(hole.get(), worse);
              hole.set(left + cast_to(take_right, DType::I64));
            },
            [&] { open.set(b_.i64(0)); });
      });
    });
    store(hole.get(), e);
  }

  // Prepares the results of a row and returns their number.
  Expr begin(Expr row, Expr stride) {
    const Expr count = count_.in(s_.kernel());
    stride_ = stride;
    to_ = b_.let("to", row / stride * (count * stride) + row % stride);
    Buf levels = b_.variable("levels", b_.i64(0));
    b_.loop("level", kMostLevels, [&](Expr i) { levels.set(levels.get() + cast_to((count >> (i + 1)) > 0, DType::I64)); });
    levels_ = b_.let("depth", levels.get());
    return count;
  }

  // The rank of a value: better values have larger ranks, equal ones the same. The first of equal elements has the larger key.
  Expr rank(Expr v) const {
    Expr bits = v;
    if (is_float(t_)) {
      const Expr word = b_.let("word", kernel::select(v == 0, b_.value(DType::I32, 0), bitcast_to(v, DType::I32)));  // -0 is 0
      bits = kernel::select(isnan(v), b_.value(DType::I32, kMagnitude), word ^ (word >> kSignBits & kMagnitude));
    }
    return largest_ ? bits : bits ^ -1;
  }
  Expr key_of(Expr rank, Expr index) const { return (cast_to(rank, DType::I64) << 32) | (kLastIndex - index); }
  Expr place(Expr i) const { return to_ + i * stride_; }

  // Places `key` in the heap of `size` keys: at the root or below it.
  void sift_key(Expr key, Expr first, Expr size) {
    Buf hole = b_.variable("hole", first), open = b_.variable("open", b_.i64(1));
    b_.loop("level", levels_, [&](Expr) {
      const Expr left = b_.let("left", hole.get() * 2 + 1);
      b_.when(open.get() == 1 && left < size, [&] {
        const Expr l = b_.let("l", indices_[place(left)]), r = b_.let("r", indices_[place(min(left + 1, size - 1))]);
        const Expr worse = b_.let("worse", min(l, r));
        b_.when(
            worse < key,
            [&] {
              indices_.store(place(hole.get()), worse);
              hole.set(left + cast_to(r < l, DType::I64));
            },
            [&] { open.set(b_.i64(0)); });
      });
    });
    indices_.store(place(hole.get()), key);
  }

  void select_keys(Expr row, Expr base, Expr stride, Expr n) {
    const Expr count = begin(row, stride);
    const auto rank_at = [&](Expr i) { return b_.let("rank", rank(b_.let("element", wide(data_[base + i * stride])))); };
    const auto kept_key = [&](Expr i) { return b_.let("kept", indices_[place(i)]); };
    b_.loop("i", count, [&](Expr i) { indices_.store(place(i), key_of(rank_at(i), i)); });
    b_.loop("i", count / 2, [&](Expr i) {
      const Expr at = b_.let("first", count / 2 - 1 - i);
      sift_key(kept_key(at), at, count);
    });
    b_.when(count > 0, [&] {
      const auto worst_rank = [&] { return cast_to(kept_key(b_.i64(0)) >> 32, DType::I32); };
      Buf worst = b_.variable("worst", worst_rank());
      b_.loop("i", n - count, [&](Expr i) {
        const Expr own = rank_at(count + i);
        b_.when(own > worst.get(), [&] {
          sift_key(b_.let("key", key_of(own, count + i)), b_.i64(0), count);
          worst.set(worst_rank());
        });
      });
      b_.loop("i", count - 1, [&](Expr i) {
        const Expr last = b_.let("last", count - 1 - i), moved = kept_key(last);
        indices_.store(place(last), kept_key(b_.i64(0)));
        sift_key(moved, b_.i64(0), last);
      });
    });
    b_.loop("i", count, [&](Expr i) {
      const Expr index = b_.let("index", kLastIndex - (kept_key(i) & kLastIndex));
      values_.store(place(i), data_[base + index * stride]);
      indices_.store(place(i), index);
    });
  }

  void select(Expr row, Expr base, Expr stride, Expr n) {
    const Expr count = begin(row, stride);
    const auto element = [&](Expr i) { return Element{b_.let("element", wide(data_[base + i * stride])), i}; };
    b_.loop("i", count, [&](Expr i) { store(i, element(i)); });
    b_.loop("i", count / 2, [&](Expr i) {
      const Expr at = b_.let("first", count / 2 - 1 - i);
      sift(kept(at), at, count);
    });
    b_.when(count > 0, [&] {
      Buf worst = b_.variable("worst", kept(b_.i64(0)).value);
      b_.loop("i", n - count, [&](Expr i) {
        const Element e = element(count + i);
        b_.when(better(e.value, worst.get()), [&] {
          sift(e, b_.i64(0), count);
          worst.set(kept(b_.i64(0)).value);
        });
      });
      b_.loop("i", count - 1, [&](Expr i) {
        const Expr last = b_.let("last", count - 1 - i);
        const Element moved = kept(last);
        store(last, kept(b_.i64(0)));
        sift(moved, b_.i64(0), last);
      });
    });
  }

  Scope s_;
  kernel::Builder& b_ = s_.builder();
  const bool largest_;
  bool by_keys_ = false;
  const DType t_;
  const Index count_;
  Buf data_, values_, indices_;
  Expr to_, stride_, levels_;  // of the row
};

}  // namespace

bool lower_topk(Node& node) {
  TopRows rows(node);
  return true;
}

}  // namespace rlxc::codegen
