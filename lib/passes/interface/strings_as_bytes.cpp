// Rewrites strings as rows of bytes of one width, padded with zeros: string[n] becomes u8[n,w]. Ops that normalise, join or
// compare strings become arithmetic on bytes, and those that move strings move rows. Widths of inputs are symbols bound by a
// call. Rewrites inputs and outputs of the main graph too. Nodes that share strings, directly or through others, are rewritten
// together. None of them is if an op or a constant has no byte form. A string that ends with a zero byte has none. Warnings name
// these nodes. O(nodes + characters).
#include "passes/interface/strings_as_bytes.h"

#include <algorithm>
#include <array>
#include <numeric>
#include <optional>
#include <unordered_map>

#include "ir/builder.h"
#include "ops/strings.h"
#include "passes/passes.h"

namespace rlxc {

bool has_byte_form(OpKind op) {
  static constexpr OpKind kKnown[] = {
      OpKind::Input,       OpKind::Constant, OpKind::StringNormalize, OpKind::StringConcat, OpKind::StringEqual,
      OpKind::StringIndex, OpKind::Gather,   OpKind::Reshape,         OpKind::Concat,       OpKind::Where,
      OpKind::Narrow,      OpKind::Slice,    OpKind::Reverse,         OpKind::Transpose,    OpKind::Tile,
      OpKind::Expand,      OpKind::GatherNd};
  return std::ranges::find(kKnown, op) != std::end(kKnown);
}

namespace {

bool ends_with_zero(const std::vector<std::string>& strings) {
  return std::ranges::any_of(strings, [](const std::string& s) { return s.ends_with('\0'); });
}
// The strings stored in a node.
const std::vector<std::string>* own_strings(const Graph& g, NodeId n) {
  if (g.op(n) == OpKind::Constant) return &g.module().data[g.attrs<DataAttrs>(n).data].strings;
  if (g.op(n) == OpKind::StringIndex) return &g.attrs<StringIndexAttrs>(n).strings;
  return g.op(n) == OpKind::StringNormalize ? &g.attrs<StringNormalizeAttrs>(n).stopwords : nullptr;
}

bool is_text(const Graph& g, ValueId v) { return v.valid() && g.dtype(v) == DType::String; }
bool touches_text(const Graph& g, NodeId n) {
  for (size_t r = 0; r < g.result_count(n); ++r)
    if (is_text(g, g.result(n, r))) return true;
  return std::ranges::any_of(g.operands(n), [&](ValueId v) { return is_text(g, v); });
}

// Classes of nodes that share strings: the smallest index of a class stands for it.
class TextClasses {
 public:
  explicit TextClasses(const Graph& g) : first_(g.node_capacity()) {
    std::iota(first_.begin(), first_.end(), 0u);
    for (NodeId n : g.nodes())
      for (ValueId v : g.operands(n))
        if (is_text(g, v)) join(n.raw, g.def(v).raw);
  }
  uint32_t of(uint32_t n) {
    while (first_[n] != n) n = first_[n] = first_[first_[n]];
    return n;
  }

 private:
  void join(uint32_t a, uint32_t b) {
    a = of(a), b = of(b);
    first_[std::max(a, b)] = std::min(a, b);
  }
  std::vector<uint32_t> first_;
};

class TextLowering {
 public:
  explicit TextLowering(Graph& g) : g_(g), b_(g), t_(g.module().dims) {}

  bool run(Diagnostics& d) {
    std::vector<NodeId> nodes;
    TextClasses classes(g_);
    std::vector<bool> stays(g_.node_capacity());
    for (NodeId n : g_.nodes()) {
      if (!touches_text(g_, n)) continue;
      nodes.push_back(n);
      const auto* strings = own_strings(g_, n);
      const bool has_form = g_.type(g_.result(n)).kind == TypeKind::Tensor && has_byte_form(g_.op(n));
      if (has_form && !(strings && ends_with_zero(*strings))) continue;
      d.warning(
          Code::UnsupportedOnTarget,
          "kernels have rows of bytes for strings, and none for " +
              (has_form ? "one that ends with a zero byte" : std::string(name(g_.op(n))) + ", so its strings stay as they are"),
          "node " + g_.label(n).quoted());
      stays[classes.of(n.raw)] = true;
    }
    std::erase_if(nodes, [&](NodeId n) { return stays[classes.of(n.raw)]; });
    for (NodeId n : nodes) {
      b_.insert_before(n);
      b_.set_node_name(g_.node_name(n));
      const ValueId made = lowered(n), old = g_.result(n);
      if (g_.op(n) == OpKind::Input) continue;
      if (is_text(g_, old)) of_[old.raw] = made;
      else g_.replace_all_uses(old, made);
    }
    std::vector<ValueId> outputs(g_.outputs().begin(), g_.outputs().end());
    for (ValueId& v : outputs)
      if (const auto it = of_.find(v.raw); it != of_.end()) v = it->second;
    g_.set_outputs(outputs);
    for (auto n = nodes.rbegin(); n != nodes.rend(); ++n)
      if (g_.op(*n) != OpKind::Input) g_.erase(*n);
    return !nodes.empty();
  }

 private:
  // Helpers.
  ValueId text(NodeId n, size_t i) { return of_.at(g_.operand(n, i).raw); }
  std::vector<Dim> dims(ValueId v) { return {g_.dims(v).begin(), g_.dims(v).end()}; }
  Dim width(ValueId v) { return g_.dims(v).back(); }
  int64_t last(ValueId v) { return g_.rank(v) - 1; }
  ValueId byte(int v) { return b_.scalar(DType::U8, v); }
  ValueId number(double v) { return b_.scalar(DType::I32, v); }
  ValueId make(OpKind op, ValueId x, ValueId y) { return b_.create(op, {x, y}); }
  ValueId where(ValueId c, ValueId x, ValueId y) { return b_.create(OpKind::Where, {c, x, y}); }
  ValueId padded(ValueId x, Dim before, Dim after) {  // pads along the width
    std::vector<Dim> first(dims(x).size()), second(first);
    first.back() = before;
    second.back() = after;
    return b_.create(OpKind::Pad, {x}, PadAttrs{first, second, PadMode::Constant});
  }
  ValueId widened(ValueId x, Dim w) { return t_.equal(width(x), w) ? x : padded(x, Dim(0), t_.sub(w, width(x))); }
  ValueId with_axis(ValueId x, size_t at) {
    auto d = dims(x);
    d.insert(d.begin() + static_cast<std::ptrdiff_t>(at), Dim(1));
    return b_.reshape(x, d);
  }
  ValueId all(ValueId bools, int64_t axis) { return b_.reduce(ReduceOp::Min, b_.cast(bools, DType::I32), {axis}, false); }
  ValueId any(ValueId numbers, int64_t axis) { return b_.reduce(ReduceOp::Max, numbers, {axis}, false); }
  ValueId table(const std::vector<std::string>& strings, std::vector<int64_t> sizes) {
    size_t w = 1;
    for (const std::string& s : strings) w = std::max(w, s.size());
    std::vector<uint8_t> bytes(strings.size() * w);
    for (size_t i = 0; i < strings.size(); ++i) std::ranges::copy(strings[i], bytes.begin() + static_cast<std::ptrdiff_t>(i * w));
    sizes.push_back(static_cast<int64_t>(w));
    return b_.constant(make_data(DType::U8, std::move(sizes), bytes));
  }
  // i32 1 where x and y are equal texts, else 0; broadcasts.
  ValueId same(ValueId x, ValueId y) {
    const Dim w = t_.max(width(x), width(y));
    const ValueId equal = make(OpKind::Eq, widened(x, w), widened(y, w));
    return equal.valid() ? all(equal, last(equal)) : equal;
  }

  // Rewrites of ops.
  ValueId lowered(NodeId n) {
    switch (g_.op(n)) {
      case OpKind::Input: {
        Type t = tensor_type(DType::U8, dims(g_.result(n)));
        t.dims.push_back(t_.fresh("text"));
        g_.set_type(g_.result(n), g_.module().types.intern(t));
        return of_[g_.result(n).raw] = g_.result(n);
      }
      case OpKind::Constant: {
        const TensorData& d = g_.module().data[g_.attrs<DataAttrs>(n).data];
        std::vector<std::string> strings = d.strings;
        if (d.splat && !strings.empty()) strings.assign(static_cast<size_t>(d.elements()), d.strings[0]);
        return table(strings, d.dims);
      }
      case OpKind::Reshape:
      case OpKind::Expand:
      case OpKind::Tile: {
        DimsAttrs a = g_.attrs<DimsAttrs>(n);
        a.dims.push_back(g_.op(n) == OpKind::Tile ? Dim(1) : width(text(n, 0)));
        return b_.create(g_.op(n), {text(n, 0)}, a);
      }
      case OpKind::Transpose: {
        PermAttrs a = g_.attrs<PermAttrs>(n);
        a.perm.push_back(static_cast<int64_t>(a.perm.size()));
        return b_.create(OpKind::Transpose, {text(n, 0)}, a);
      }
      case OpKind::Gather:
      case OpKind::GatherNd:
      case OpKind::Narrow:
      case OpKind::Slice:
      case OpKind::Reverse:
      case OpKind::Concat:
      case OpKind::Where: return moved(n);
      case OpKind::StringEqual: return b_.cast(same(text(n, 0), text(n, 1)), DType::Bool);
      case OpKind::StringConcat: return joined(text(n, 0), text(n, 1));
      case OpKind::StringIndex: return position(text(n, 0), g_.attrs<StringIndexAttrs>(n).strings);
      default: return normalised(n);
    }
  }

  // The op on rows of one width. Its axes stay, since the width is the last one.
  ValueId moved(NodeId n) {
    std::optional<Dim> w;
    for (ValueId v : g_.operands(n))
      if (const auto rows = of_.find(v.raw); rows != of_.end()) w = w ? t_.max(*w, width(rows->second)) : width(rows->second);
    std::vector<ValueId> operands;
    for (ValueId v : g_.operands(n)) {
      if (const auto rows = of_.find(v.raw); rows != of_.end()) v = widened(rows->second, *w);
      else if (g_.op(n) == OpKind::Where) v = with_axis(v, dims(v).size());  // the condition
      operands.push_back(v);
    }
    return b_.create(g_.op(n), operands, g_.module().attrs[g_.attr_id(n)]);
  }

  // Concatenates the texts: byte i is taken from x up to its length, then from y.
  ValueId joined(ValueId x, ValueId y) {
    const ValueId zero = byte(0);
    auto outer =
        dims(make(OpKind::Add, b_.reduce(ReduceOp::Max, x, {last(x)}, false), b_.reduce(ReduceOp::Max, y, {last(y)}, false)));
    const auto spread = [&](ValueId v) {
      auto d = outer;
      d.push_back(width(v));
      return b_.expand(v, d);
    };
    x = spread(x);
    y = spread(y);
    const Dim w = t_.add(width(x), width(y));
    const ValueId length = b_.reduce(ReduceOp::Sum, b_.cast(make(OpKind::Ne, x, zero), DType::I32), {last(x)}, true);
    const ValueId at = b_.create(OpKind::Range, {number(0), number(1)}, DimsAttrs{{w}, false});
    const ValueId own = b_.cast(b_.create(OpKind::DimValue, {}, DimsAttrs{{width(x)}, true}), DType::I32);
    const ValueId from = where(make(OpKind::Lt, at, length), at, make(OpKind::Add, make(OpKind::Sub, at, length), own));
    const ValueId both = padded(b_.concat(std::array{x, y}, last(x)), Dim(0), width(x));
    return b_.create(OpKind::GatherElements, {both, from}, AxisAttrs{last(x)});
  }

  ValueId position(ValueId x, const std::vector<std::string>& strings) {
    const ValueId list = table(strings, {static_cast<int64_t>(strings.size())});
    const ValueId found = same(with_axis(x, static_cast<size_t>(last(x))), list);
    const ValueId at = b_.create(OpKind::ArgReduce, {found}, ArgAttrs{last(found), true, false, false});
    return where(b_.cast(any(found, last(found)), DType::Bool), at, b_.scalar(DType::I64, -1));
  }

  // ASCII letters by arithmetic; letters of two bytes by two tables, indexed with their 5 and 6 payload bits.
  ValueId cased(ValueId x, LetterCase change) {
    if (change == LetterCase::None) return x;
    std::vector<uint8_t> high, low;
    for (int i = 0; i < 32 * 64; ++i) {
      const std::string s = ops::change_case({static_cast<char>(0xC0 | i / 64), static_cast<char>(0x80 | i % 64)}, change);
      high.push_back(static_cast<uint8_t>(s[0]));
      low.push_back(static_cast<uint8_t>(s[1]));
    }
    const Dim w = width(x);
    const ValueId next = b_.narrow(padded(x, Dim(0), Dim(1)), last(x), Dim(1), w),
                  before = b_.narrow(padded(x, Dim(1), Dim(0)), last(x), Dim(0), w);
    const auto leads = [&](ValueId v) { return make(OpKind::Eq, make(OpKind::BitAnd, v, byte(0xE0)), byte(0xC0)); };
    const auto of_pair = [&](const std::vector<uint8_t>& bytes, ValueId first, ValueId second) {
      const ValueId row = make(OpKind::Mul, b_.cast(make(OpKind::BitAnd, first, byte(31)), DType::I32), number(64));
      const ValueId at = make(OpKind::Add, row, b_.cast(make(OpKind::BitAnd, second, byte(63)), DType::I32));
      return b_.create(OpKind::Gather, {b_.constant(make_data(DType::U8, {2048}, bytes)), at}, AxisAttrs{0});
    };
    const char first = change == LetterCase::Upper ? 'a' : 'A', end = change == LetterCase::Upper ? 'z' : 'Z';
    const ValueId letter = make(OpKind::And, make(OpKind::Ge, x, byte(first)), make(OpKind::Le, x, byte(end)));
    const ValueId single = where(letter, make(OpKind::BitXor, x, byte(0x20)), x);
    return where(leads(x), of_pair(high, x, next), where(leads(before), of_pair(low, before, x), single));
  }

  // Rows that are no stop words, or one empty row if none is left.
  ValueId normalised(NodeId n) {
    const StringNormalizeAttrs a = g_.attrs<StringNormalizeAttrs>(n);
    auto outer = dims(g_.result(n));
    const ValueId in = text(n, 0);
    const Dim w = width(in);
    ValueId rows = b_.reshape(in, {t_.product(std::span(g_.dims(in)).first(g_.dims(in).size() - 1)), w});
    const ValueId empty = b_.expand(byte(0), {Dim(1), w});
    if (dims(rows)[0] == Dim(0)) {
      rows = empty;
    } else if (!a.stopwords.empty()) {
      std::vector<std::string> words = a.stopwords;
      for (std::string& s : words)
        if (!a.case_sensitive) s = ops::change_case(s, LetterCase::Lower);
      const ValueId seen = a.case_sensitive ? rows : cased(rows, LetterCase::Lower);
      const ValueId stops = any(same(with_axis(seen, 1), table(words, {static_cast<int64_t>(words.size())})), 1);
      // Keeps the empty row at the end only if all others are dropped.
      const ValueId none = b_.reduce(ReduceOp::Min, stops, {0}, true);
      const ValueId keep = b_.concat(std::array{make(OpKind::Eq, stops, number(0)), b_.cast(none, DType::Bool)}, 0);
      const ValueId kept = b_.create(OpKind::NonZero, {keep});
      rows = b_.create(OpKind::Gather, {b_.concat(std::array{rows, empty}, 0), b_.reshape(kept, {dims(kept)[1]})}, AxisAttrs{0});
    }
    const Dim count = dims(rows)[0];
    t_.assume_equal(outer.back(), count);
    outer.back() = count;
    outer.push_back(w);
    return b_.reshape(cased(rows, a.change), outer);
  }

  Graph& g_;
  Builder b_;
  DimTable& t_;
  std::unordered_map<uint32_t, ValueId> of_;  // string value -> rows of bytes
};

}  // namespace

PassResult strings_as_bytes(Module& m, PassContext& context) { return {TextLowering(m.main()).run(context.diagnostics), {}}; }

}  // namespace rlxc
