// Removes sequences and optionals whose elements are known individually (SequenceEmpty, SequenceInsert at constant positions,
// SplitToSequence into constant parts, ...): reads of an element become the tensor, concatenations and lengths are computed from
// the elements. The body of a SequenceMap is copied for each element, and that of a Loop of known trip count over sequences for
// each iteration. O(nodes + elements + copies).
#include <unordered_map>

#include "ir/bind_dims.h"
#include "ir/builder.h"
#include "ir/dim_postfix.h"
#include "ir/graphs.h"
#include "passes/lower/trip_count.h"
#include "passes/match.h"
#include "passes/passes.h"
#include "support/saturate.h"

namespace rlxc {
namespace {

constexpr int64_t kLongest = 1 << 12;    // limit on parts that become nodes of their own
constexpr size_t kMostCopies = 1 << 14;  // limit on nodes that are copied for the elements of one sequence

class SequenceLowering {
 public:
  SequenceLowering(Graph& g, SymbolValues* sizes) : g_(g), b_(g), sizes_(*sizes) {}

  int64_t run() {
    for (NodeId n : g_.nodes()) {
      if (has_trait(g_.op(n), kSequenceOp)) node(n);
      else if (g_.op(n) == OpKind::Loop) unroll(n);
    }
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
    became_ = to;
    ++lowered_;
  }

  bool is_used(NodeId n) const {
    for (size_t r = 0; r < g_.result_count(n); ++r)
      if (g_.use_count(g_.result(n, r)) > 0) return true;
    return false;
  }

  // `copy`: its uses are still to come.
  void node(NodeId n, bool copy = false) {
    if (!copy && !is_used(n)) return;
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
      case OpKind::SequenceMap:
        if (own) map(n, size);
        return;
      default: return;
    }
  }

  // Records what the symbols of the type `from` stand for in a copy, where it is `to`.
  void bind(const Type& from, const Type& to, SymbolValues* sizes) {
    for (size_t i = 0; i < std::min(from.dims.size(), to.dims.size()); ++i)
      if (const auto symbol = symbol_name(g_.module().dims, from.dims[i])) sizes->try_emplace(*symbol, to.dims[i]);
  }

  // The element that a SequenceAt in a body reads, if that is known.
  ValueId element_at(const std::vector<ValueId>& operands) {
    const Elements* own = elements(operands[0]);
    const auto at = own ? position(operands[1], own->size(), own->size()) : std::nullopt;
    return at ? value((*own)[*at]) : ValueId();
  }

  // Copies a body before `n`. Types are inferred again: those of the body hold for all elements, those of a copy for one. Empty
  // if that cannot be done.
  std::vector<ValueId> copied(NodeId n, const Graph& body, const std::vector<ValueId>& inputs) {
    Module& m = g_.module();
    SymbolValues sizes;
    std::vector<ValueId> map(body.value_capacity()), operands;
    for (size_t i = 0; i < inputs.size(); ++i) {
      const ValueId in = body.result(body.inputs()[i]);
      if (!inputs[i].valid()) return {};
      map[in.raw] = inputs[i];
      bind(body.type(in), g_.type(inputs[i]), &sizes);
    }
    for (NodeId c : body.nodes()) {
      if (body.op(c) == OpKind::Input) continue;
      if (has_trait(body.op(c), kBody)) return {};
      operands.clear();
      for (ValueId v : body.operands(c)) operands.push_back(v.valid() ? map[v.raw] : v);
      b_.insert_before(n);
      b_.set_node_name(body.node_name(c));
      became_ = body.op(c) == OpKind::SequenceAt ? element_at(operands) : ValueId();
      NodeId copy;
      if (!became_.valid()) {
        const auto bound = [&](Dim d) { return substitute(m.dims, d, sizes); };
        copy = b_.create_node(body.op(c), operands, with_dims(m.attrs[body.attr_id(c)], bound));
        if (!copy.valid()) return {};
        g_.set_origin(copy, body.origin(c));
        if (has_trait(body.op(c), kSequenceOp)) node(copy, true);
      }
      for (size_t r = 0; r < body.result_count(c); ++r) {
        const ValueId from = body.result(c, r), to = became_.valid() ? became_ : g_.result(copy, r);
        map[from.raw] = to;
        bind(body.type(from), g_.type(to), &sizes);
      }
    }
    std::vector<ValueId> results;
    for (ValueId v : body.outputs()) results.push_back(map[v.raw]);
    return results;
  }

  void map(NodeId n, size_t size) {
    const Graph& body = g_.module().graph(g_.bodies(n)[0]);
    if (body.live_nodes() > kMostCopies / std::max<size_t>(size, 1)) return;
    const auto count = static_cast<size_t>(g_.attrs<LoopAttrs>(n).carries);
    std::vector<std::vector<ValueId>> made(g_.result_count(n));
    for (size_t i = 0; i < size; ++i) {
      std::vector<ValueId> inputs;
      for (size_t j = 0; j < g_.operands(n).size(); ++j) {
        const ValueId v = g_.operand(n, j);
        const bool sequence = j < count && g_.type(v).kind == TypeKind::Sequence;
        const Elements* own = sequence ? elements(v) : nullptr;
        if (sequence && (!own || own->size() != size)) return;
        b_.insert_before(n);
        inputs.push_back(sequence ? value((*own)[i]) : v);
      }
      const std::vector<ValueId> results = copied(n, body, inputs);
      if (results.size() != made.size()) return;
      for (size_t r = 0; r < made.size(); ++r) made[r].push_back(results[r]);
    }
    b_.insert_before(n);
    for (size_t r = 0; r < made.size(); ++r) {
      const DType t = g_.dtype(g_.result(n, r));
      ValueId v = b_.create(OpKind::SequenceEmpty, std::span<const ValueId>{}, CastAttrs{t, true});
      for (ValueId element : made[r]) v = b_.create(OpKind::SequenceInsert, {v, element});
      Elements e;
      for (ValueId element : made[r]) e.push_back({element});
      of_[v.raw] = std::move(e);
      g_.replace_all_uses(g_.result(n, r), v);
    }
    g_.erase(n);
    ++lowered_;
  }

  // A loop over sequences.
  void unroll(NodeId n) {
    bool any = false;
    if (!is_used(n)) return;
    std::vector<ValueId> inputs(g_.operands(n).begin(), g_.operands(n).end());
    for (size_t i = kBeforeCarries; i < inputs.size(); ++i) {
      const bool holder = inputs[i].valid() && g_.type(inputs[i]).kind != TypeKind::Tensor;
      if (holder && !elements(inputs[i])) return;
      any |= holder;
    }
    if (!any) return;
    const auto trips = trip_count(g_, n);
    const Graph& body = g_.module().graph(g_.bodies(n)[0]);
    const auto carries = static_cast<size_t>(g_.attrs<LoopAttrs>(n).carries);
    if (!trips || *trips < 1 || g_.result_count(n) != carries || body.live_nodes() > kMostCopies / static_cast<uint64_t>(*trips))
      return;
    b_.insert_before(n);
    inputs[1] = b_.scalar(DType::Bool, 1);
    for (int64_t i = 0; i < *trips; ++i) {
      b_.insert_before(n);
      inputs[0] = b_.scalar(DType::I64, static_cast<double>(i));
      const std::vector<ValueId> results = copied(n, body, inputs);
      if (results.size() != 1 + carries) return;
      std::copy_n(results.begin() + 1, carries, inputs.begin() + kBeforeCarries);
    }
    for (size_t j = 0; j < carries; ++j) g_.replace_all_uses(g_.result(n, j), inputs[kBeforeCarries + j]);
    g_.erase(n);
    ++lowered_;
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
  ValueId became_;                             // what the last result was replaced by
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
