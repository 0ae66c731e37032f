// Removes sequences and optionals whose elements are known individually (SequenceEmpty, SequenceInsert at constant positions,
// SplitToSequence into constant parts, ...): reads of an element become the tensor, concatenations and lengths are computed from
// the elements. O(nodes + elements).
#include <unordered_map>

#include "ir/bind_dims.h"
#include "ir/builder.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "support/saturate.h"

namespace rlxc {
namespace {

constexpr int64_t kLongest = 1 << 12;  // limit on parts that become nodes of their own

class SequenceLowering {
 public:
  SequenceLowering(Graph& g, SymbolValues* sizes) : g_(g), b_(g), sizes_(*sizes) {}

  int64_t run() {
    for (NodeId n : g_.nodes())
      if (has_trait(g_.op(n), kSequenceOp)) node(n);
    return lowered_;
  }

 private:
  // A tensor, or a part of a SplitToSequence. A part with a data-dependent dim is unknown.
  struct Element {
    ValueId value = {};
    NodeId split = {};
    int64_t at = 0, size = -1;
  };
  using Elements = std::vector<Element>;

  const Elements* elements(ValueId v) const {
    const auto it = v.valid() ? of_.find(v.raw) : of_.end();
    return it == of_.end() ? nullptr : &it->second;
  }

  // The elements of operand 0 for a new sequence. Moved if this is the sole use, so that a chain takes linear time.
  Elements take(NodeId n) {
    const ValueId v = g_.operand(n, 0);
    auto it = of_.find(v.raw);
    if (!g_.has_one_use(v)) return it->second;
    Elements e = std::move(it->second);
    of_.erase(it);
    return e;
  }

  // A constant position, below `places`; negative ones count from the end of `size` elements.
  std::optional<size_t> position(ValueId v, size_t size, size_t places) const {
    const auto p = match::scalar(g_, v);
    if (!p) return std::nullopt;
    const double at = *p < 0 ? *p + static_cast<double>(size) : *p;
    if (at < 0 || at >= static_cast<double>(places)) return std::nullopt;
    return static_cast<size_t>(at);
  }

  ValueId value(const Element& e) {
    if (!e.split.valid() || e.size < 0) return e.value;
    const auto& a = g_.attrs<SequenceSplitAttrs>(e.split);
    const ValueId part = b_.narrow(g_.operand(e.split, 0), a.axis, Dim(e.at), Dim(e.size));
    if (!part.valid() || a.keep_dim || g_.operand(e.split, 1).valid()) return part;
    std::vector<Dim> dims(g_.dims(part).begin(), g_.dims(part).end());
    dims.erase(dims.begin() + a.axis);
    return b_.reshape(part, dims);
  }

  void become(NodeId n, ValueId to) {
    const ValueId from = g_.result(n);
    if (!to.valid()) return;
    if (g_.type(from).kind == TypeKind::Tensor) {
      if (g_.type(to).kind != TypeKind::Tensor || g_.rank(from) != g_.rank(to) || g_.dtype(from) != g_.dtype(to)) return;
      DimTable& dims = g_.module().dims;
      const std::vector<Dim> declared(g_.dims(from).begin(), g_.dims(from).end()), real(g_.dims(to).begin(), g_.dims(to).end());
      for (size_t i = 0; i < declared.size(); ++i)
        if (!dims.assume_equal(declared[i], real[i])) return;
      for (size_t i = 0; i < declared.size(); ++i)
        if (const auto symbol = symbol_name(dims, declared[i])) sizes_.try_emplace(*symbol, substitute(dims, real[i], sizes_));
    }
    g_.replace_all_uses(from, to);
    ++lowered_;
  }

  void node(NodeId n) {
    if (g_.result_count(n) == 1 && g_.use_count(g_.result(n)) == 0) return;
    b_.insert_before(n);
    b_.set_node_name(g_.node_name(n));
    const ValueId from = g_.operand(n, 0);
    const Elements* own = elements(from);
    const size_t size = own ? own->size() : 0;
    switch (g_.op(n)) {
      case OpKind::SequenceEmpty: of_[g_.result(n).raw] = {}; return;
      case OpKind::SplitToSequence: return split(n);
      case OpKind::OptionalMake: of_[g_.result(n).raw] = from.valid() ? Elements{{from}} : Elements{}; return;
      case OpKind::OptionalHas:
        if (!from.valid() || own || g_.type(from).kind != TypeKind::Optional)
          become(n, b_.scalar(DType::Bool, from.valid() && (!own || size > 0)));
        return;
      case OpKind::OptionalGet:
        if (from.valid() && g_.type(from).kind != TypeKind::Optional) return become(n, from);
        if (own && size == 1) become(n, value(own->front()));
        return;
      case OpKind::SequenceLength:
        if (own) become(n, b_.constant(make_data(DType::I64, {}, std::vector<int64_t>{static_cast<int64_t>(size)})));
        return;
      case OpKind::SequenceAt:
        if (own)
          if (const auto at = position(g_.operand(n, 1), size, size)) become(n, value((*own)[*at]));
        return;
      case OpKind::SequenceInsert:
      case OpKind::SequenceErase: return edit(n, own);
      case OpKind::ConcatFromSequence:
        if (own && size > 0) join(n, *own);
        return;
      default: return;
    }
  }

  void edit(NodeId n, const Elements* own) {
    if (!own) return;
    const bool insert = g_.op(n) == OpKind::SequenceInsert;
    const ValueId where = g_.operand(n, insert ? 2 : 1);
    const size_t size = own->size(), places = insert ? size + 1 : size;
    if (places == 0) return;
    const auto at = where.valid() ? position(where, size, places) : places - 1;
    if (!at) return;
    Elements e = take(n);
    const auto it = e.begin() + static_cast<std::ptrdiff_t>(*at);
    if (insert) e.insert(it, {g_.operand(n, 1)});
    else e.erase(it);
    of_[g_.result(n).raw] = std::move(e);
  }

  void split(NodeId n) {
    const auto& a = g_.attrs<SequenceSplitAttrs>(n);
    const ValueId x = g_.operand(n, 0), pieces = g_.operand(n, 1);
    const auto whole = match::size_at(g_, x, static_cast<int>(a.axis));
    std::vector<int64_t> sizes;
    if (pieces.valid() && g_.rank(pieces) == 1) {
      const auto count = match::size_at(g_, pieces, 0);
      if (!count || *count > kLongest) return;
      for (double v : match::elements(g_, pieces, *count)) sizes.push_back(saturating_cast<int64_t>(v));
      if (sizes.empty()) return void(of_[g_.result(n).raw] = Elements(static_cast<size_t>(*count)));
    } else {
      const auto piece = pieces.valid() ? match::scalar(g_, pieces) : 1;
      if (!piece || *piece < 1 || !whole || *whole / *piece > static_cast<double>(kLongest)) return;
      for (int64_t at = 0; at < *whole; at += saturating_cast<int64_t>(*piece))
        sizes.push_back(std::min(saturating_cast<int64_t>(*piece), *whole - at));
    }
    Elements e;
    int64_t at = 0;
    for (int64_t size : sizes) {
      const bool fits = whole && size >= 0 && size <= *whole - at;
      e.push_back(fits ? Element{{}, n, at, size} : Element{});
      if (fits) at += size;
    }
    if (!whole || at == *whole) of_[g_.result(n).raw] = std::move(e);
  }

  void join(NodeId n, const Elements& own) {
    const SequenceConcatAttrs a = g_.attrs<SequenceConcatAttrs>(n);
    std::vector<ValueId> parts;
    for (const Element& e : own) {
      ValueId v = value(e);
      if (!v.valid()) return;
      if (a.new_axis) {
        std::vector<Dim> dims(g_.dims(v).begin(), g_.dims(v).end());
        dims.insert(dims.begin() + a.axis, Dim(1));
        v = b_.reshape(v, dims);
      }
      parts.push_back(v);
    }
    become(n, b_.concat(parts, a.axis));
  }

  Graph& g_;
  Builder b_;
  SymbolValues& sizes_;                        // sizes of the elements that replace those of the reads
  std::unordered_map<uint32_t, Elements> of_;  // by value
  int64_t lowered_ = 0;
};

}  // namespace

PassResult lower_sequences(Module& m, PassContext&) {
  int64_t lowered = 0;
  SymbolValues sizes;
  for (GraphId id : graphs_in_use(m)) lowered += SequenceLowering(m.graph(id), &sizes).run();
  for (NodeId n : m.main().inputs())
    for (Dim d : m.main().dims(m.main().result(n)))
      for (const std::string& symbol : m.dims.symbols_of(d)) sizes.erase(symbol);
  if (!sizes.empty()) substitute_dims(m, sizes);
  return {lowered > 0, {{"sequence_reads_lowered", lowered}}};
}

}  // namespace rlxc
