#include "shard/partition.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <set>
#include <tuple>

#include "ir/builder.h"

namespace rlxc::shard {
namespace {

constexpr size_t kExpertWalk = 64;  // values between two products of an expert

// The value of this device that stands for a value of the whole program.
struct Local {
  ValueId value;
  Sharding sharding;
};

class Partitioner {
 public:
  Partitioner(Graph& g, const Shardings& s)
      : g_(g), s_(s), mesh_(s.mesh()), mesh_text_(s.mesh().text()), local_(g.value_capacity()), replaced_(g.node_capacity()) {}

  bool run() {
    std::vector<NodeId> nodes;
    for (NodeId n : g_.nodes()) nodes.push_back(n);
    for (NodeId n : nodes)
      if (!divide(n)) keep(n);
    for (uint32_t i = 0; i < g_.outputs().size(); ++i) {
      const ValueId v = g_.outputs()[i];
      g_.set_operand(g_.terminator(), i, local(v, whole(g_.rank(v)), g_.terminator()));
    }
    for (size_t i = nodes.size(); i-- > 0;) {
      bool used = has_trait(g_.op(nodes[i]), kLeaf);
      for (size_t r = 0; r < g_.result_count(nodes[i]); ++r) used |= g_.use_count(g_.result(nodes[i], r)) > 0;
      if (!used && replaced_[nodes[i].raw]) g_.erase(nodes[i]);
    }
    return changed_;
  }

 private:
  // The choice for one node: what each factor is split over.
  struct Choice {
    std::vector<DimSharding> factors;
    bool any = false;
  };

  Choice choose(NodeId n, const Rule& rule) const {
    Choice c{std::vector<DimSharding>(rule.factors.size())};
    std::vector<bool> axis_used(mesh_.axes.size());
    const auto blocked = [&](size_t f, const DimSharding& s) {
      for (size_t a : s.axes)
        if (axis_used[a]) return true;
      if (!rule.factors[f].divides(mesh_.group_size(s.axes), s)) return true;
      // A dim is split by one factor.
      const auto shares_dim = [&](const std::vector<std::vector<std::vector<DimFactor>>>& lists) {
        for (const auto& value : lists)
          for (const auto& dim : value)
            if (dim.size() > 1 && std::ranges::any_of(dim, [&](const DimFactor& d) { return d.factor == f; }) &&
                std::ranges::any_of(dim, [&](const DimFactor& d) { return c.factors[d.factor].split(); }))
              return true;
        return false;
      };
      return shares_dim(rule.operands) || shares_dim(rule.results);
    };
    const auto adopt = [&](ValueId v, const std::vector<std::vector<DimFactor>>& dims, bool sums_only = false) {
      for (size_t d = 0; d < dims.size(); ++d) {
        DimSharding s;
        const DimFactor* best = split_factor(rule, dims[d], g_.dims(v)[d], s_.of(v)[d], &s);
        if (!best || c.factors[best->factor].split() || (sums_only && !is_common_sum(n, rule, *best))) continue;
        if (blocked(best->factor, s)) continue;
        c.factors[best->factor] = s;
        for (size_t a : s.axes) axis_used[a] = true;
        c.any = true;
      }
    };
    // Operands that are split alike for a sum or lookup come first: the result can be scattered as it is wanted.
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (g_.operand(n, i).valid()) adopt(g_.operand(n, i), rule.operands[i], true);
    for (size_t r = 0; r < rule.results.size(); ++r) adopt(g_.result(n, r), rule.results[r]);
    for (size_t i = 0; i < rule.operands.size(); ++i)
      if (g_.operand(n, i).valid()) adopt(g_.operand(n, i), rule.operands[i]);
    return c;
  }

  // Whether a factor sums or looks up, and all operands are split by it in the same way.
  bool is_common_sum(NodeId n, const Rule& rule, const DimFactor& f) const {
    if (rule.factors[f.factor].kind == Factor::Kind::Map) return false;
    const DimSharding* first = nullptr;
    for (size_t i = 0; i < rule.operands.size(); ++i)
      for (size_t d = 0; d < rule.operands[i].size(); ++d) {
        if (std::ranges::find(rule.operands[i][d], f) == rule.operands[i][d].end()) continue;
        const DimSharding& s = s_.of(g_.operand(n, i))[d];
        if (first && !(*first == s)) return false;
        first = &s;
      }
    return true;
  }

  Sharding implied(const Rule& rule, const Choice& c, ValueId v, const std::vector<std::vector<DimFactor>>& dims) const {
    Sharding s(dims.size());
    for (size_t d = 0; d < dims.size(); ++d)
      for (const DimFactor& f : dims[d])
        if (c.factors[f.factor].split()) s[d] = split_dim(rule, f, g_.dims(v)[d], c.factors[f.factor]);
    return s;
  }

  // Divides a node over the devices. False: every device is to compute it whole.
  bool divide(NodeId n) {
    if (has_trait(g_.op(n), kLeaf)) return false;
    const Rule& rule = s_.rule(n);
    const Choice c = choose(n, rule);
    if (!c.any) return false;
    std::vector<size_t> summed;  // mesh axes over which results are partial
    std::optional<ReduceOp> combine;
    std::optional<size_t> lookup;
    for (size_t f = 0; f < rule.factors.size(); ++f) {
      if (!c.factors[f].split()) continue;
      if (rule.factors[f].kind == Factor::Kind::Lookup) lookup = f;
      if (rule.factors[f].kind != Factor::Kind::Reduce) continue;
      if (combine && *combine != rule.factors[f].op) return false;
      combine = rule.factors[f].op;
      summed.insert(summed.end(), c.factors[f].axes.begin(), c.factors[f].axes.end());
    }
    if (lookup && (combine.value_or(ReduceOp::Sum) != ReduceOp::Sum || c.factors[*lookup].blocks > 1)) return false;
    std::vector<Type> types;
    std::vector<Sharding> shardings;
    for (size_t r = 0; r < g_.result_count(n); ++r) {
      shardings.push_back(implied(rule, c, g_.result(n, r), rule.results[r]));
      const auto t = local_type(g_.type(g_.result(n, r)), shardings[r], mesh_);
      if (!t) return false;
      types.push_back(*t);
    }
    std::vector<ValueId> operands;
    for (size_t i = 0; i < g_.operands(n).size(); ++i) {
      const ValueId v = g_.operand(n, i);
      operands.push_back(v.valid() ? local(v, implied(rule, c, v, rule.operands[i]), n) : v);
      if (v.valid() && !operands.back().valid()) return false;
    }
    if (!fill_padding(n, rule, c, combine, &operands)) return false;
    Builder b(g_, nullptr, n);
    b.set_node_name(g_.node_name(n));
    Attrs attrs = local_attrs(n, rule, c, types);
    each_window(rule, c, [&](size_t dim, size_t f) {
      if (operands[0].valid()) operands[0] = with_halo(n, operands[0], dim, rule.factors[f], c.factors[f].axes);
    });
    if (lookup) return look_up(n, b, std::move(operands), std::move(attrs), c.factors[*lookup], summed, shardings[0]);
    const NodeId made = b.create_node(g_.op(n), operands, std::move(attrs));
    if (!made.valid()) return false;
    for (size_t r = 0; r < types.size(); ++r)
      if (!(g_.type(g_.result(made, r)) == types[r])) return g_.erase(made), false;
    for (size_t r = 0; r < types.size(); ++r) {
      ValueId v = g_.result(made, r);
      if (combine) v = combined(n, v, *combine, summed, s_.of(g_.result(n, r)), &shardings[r]);
      if (const double more = combine == ReduceOp::Mean ? padded_share(rule, c) : 1; more != 1)
        v = b.mul(v, b.scalar(g_.dtype(v), more));
      settle(n, r, v, std::move(shardings[r]));
    }
    g_.set_origin(made, g_.origin(n));
    return true;
  }

  // The number that padding of an operand must hold to leave the result unchanged; nullopt if any number does.
  std::optional<double> filler(NodeId n, size_t i, const Factor& f, std::optional<ReduceOp> combine) const {
    const OpKind op = g_.op(n);
    const DType t = g_.dtype(g_.operand(n, i));
    if (f.kind == Factor::Kind::Reduce)
      return combine == ReduceOp::Max   ? -std::numeric_limits<double>::infinity()
             : combine == ReduceOp::Min ? std::numeric_limits<double>::infinity()
                                        : 0;
    const bool gathers = op == OpKind::Gather || op == OpKind::GatherElements;
    if ((gathers && i == 1) || (op == OpKind::GroupedMatMul && i == 2)) return 0;  // indices
    const bool divides = op == OpKind::Div || op == OpKind::Mod || op == OpKind::Fmod;
    return divides && i == 1 && is_integer(t) ? std::optional(1.0) : std::nullopt;
  }

  // Gives the padding of operands the numbers that the node needs there. False if their type has no such number.
  bool fill_padding(NodeId n, const Rule& rule, const Choice& c, std::optional<ReduceOp> combine,
                    std::vector<ValueId>* operands) {
    for (size_t i = 0; i < rule.operands.size(); ++i)
      for (size_t d = 0; d < rule.operands[i].size(); ++d)
        for (const DimFactor& f : rule.operands[i][d]) {
          const DimSharding& s = c.factors[f.factor];
          if (!s.split() || s.padding == 0) continue;
          const ValueId v = g_.operand(n, i);
          const auto number = filler(n, i, rule.factors[f.factor], combine);
          if (!number || (*number == 0 && has_zeros_.contains((*operands)[i].raw))) continue;
          if (!std::isfinite(*number) && !is_float(g_.dtype(v))) return false;
          const int64_t rows = g_.dims(v)[d].size();
          (*operands)[i] = filled(n, (*operands)[i], d, rows, s.axes, *number);
          if (!(*operands)[i].valid()) return false;
        }
    return true;
  }

  // The value with `number` in the padding of a dim. `rows`: of the dim on all devices, without padding.
  ValueId filled(NodeId n, ValueId v, size_t dim, int64_t rows, const std::vector<size_t>& axes, double number) {
    const auto key = std::tuple(v.raw, dim, number);
    if (const auto it = filled_.find(key); it != filled_.end()) return it->second;
    Builder b(g_, nullptr, n);
    const Dim part = g_.dims(v)[dim];
    std::vector<Dim> shape(static_cast<size_t>(g_.rank(v)), Dim(1));
    shape[dim] = part;
    const auto integer = [&](int64_t k) { return b.scalar(DType::I64, static_cast<double>(k)); };
    const ValueId first = b.mul(b.create(OpKind::DeviceIndex, {}, collective(axes)), integer(part.size()));
    const ValueId row = b.add(b.create(OpKind::Range, {integer(0), integer(1)}, DimsAttrs{{part}}), first);
    const ValueId inside = b.create(OpKind::Lt, {b.reshape(row, std::move(shape)), integer(rows)});
    return filled_[key] = b.create(OpKind::Where, {inside, v, b.scalar(g_.dtype(v), number)});
  }

  // A mean over parts counts their padding. Returns by how much too many.
  double padded_share(const Rule& rule, const Choice& c) const {
    double share = 1;
    for (size_t f = 0; f < rule.factors.size(); ++f)
      if (c.factors[f].split() && rule.factors[f].kind == Factor::Kind::Reduce)
        share *= static_cast<double>(rule.factors[f].size + c.factors[f].padding) / static_cast<double>(rule.factors[f].size);
    return share;
  }

  // Calls f with the dims of operand 0 over which a window moves, and their factors, where they are split.
  static void each_window(const Rule& rule, const Choice& c, const auto& f) {
    for (size_t d = 0; !rule.operands.empty() && d < rule.operands[0].size(); ++d)
      for (const DimFactor& each : rule.operands[0][d])
        if (rule.factors[each.factor].kind == Factor::Kind::Window && c.factors[each.factor].split()) f(d, each.factor);
  }

  // The rows of this device, between those that it needs of its neighbours. The first and the last device get padding instead:
  // zeros, or what a maximum ignores.
  ValueId with_halo(NodeId n, ValueId v, size_t dim, const Factor& f, const std::vector<size_t>& axes) {
    Builder b(g_, nullptr, n);
    const auto axis = static_cast<int64_t>(dim);
    const int64_t rows = g_.dims(v)[dim].size(), devices = mesh_.group_size(axes);
    const bool largest = g_.op(n) == OpKind::Pool && g_.attrs<PoolAttrs>(n).op == ReduceOp::Max;
    const double padding = largest ? -INFINITY : 0;
    const auto rows_of = [&](int64_t start, int64_t count) { return b.narrow(v, axis, Dim(start), Dim(count)); };
    const auto received = [&](ValueId sent, int64_t from, int64_t edge) {
      CollectiveAttrs a = collective(axes);
      // A ring: devices that receive nothing would be stages of a pipeline (ir/stages.h).
      for (int64_t p = 0; p < devices; ++p) a.source.push_back((p + from + devices) % devices);
      const ValueId got = named(b, n, OpKind::CollectivePermute, sent, std::move(a));
      const ValueId at = b.create(OpKind::DeviceIndex, {}, collective(axes));
      const ValueId outside = b.create(OpKind::Eq, {at, b.scalar(DType::I64, static_cast<double>(edge))});
      return b.create(OpKind::Where, {outside, b.scalar(g_.dtype(v), padding), got});
    };
    std::vector<ValueId> parts;
    if (f.before > 0) parts.push_back(received(rows_of(rows - f.before, f.before), -1, 0));
    parts.push_back(f.after < 0 ? rows_of(0, rows + f.after) : v);
    if (f.after > 0) parts.push_back(received(rows_of(0, f.after), 1, devices - 1));
    return parts.size() == 1 ? parts[0] : b.concat(parts, axis);
  }

  void settle(NodeId n, size_t r, ValueId v, Sharding s) {
    const ValueId old = g_.result(n, r);
    if (g_.value_name(old).valid()) g_.set_value_name(v, g_.value_name(old));
    local_[old.raw] = {v, std::move(s)};
    replaced_[n.raw] = true;
    changed_ = true;
  }

  // Every device computes the node on whole operands.
  void keep(NodeId n) {
    for (uint32_t i = 0; i < g_.operands(n).size(); ++i)
      if (const ValueId v = g_.operand(n, i); v.valid()) g_.set_operand(n, i, local(v, whole(g_.rank(v)), n));
    for (size_t r = 0; r < g_.result_count(n); ++r)
      local_[g_.result(n, r).raw] = {g_.result(n, r), whole(g_.rank(g_.result(n, r)))};
  }

  Attrs local_attrs(NodeId n, const Rule& rule, const Choice& c, const std::vector<Type>& types) const {
    Attrs attrs = g_.module().attrs[g_.attr_id(n)];
    const auto part = [&](int64_t count) {
      for (size_t f : rule.counted)
        if (const DimSharding& s = c.factors[f]; s.split())
          count = count / rule.factors[f].size * rule.factors[f].part(mesh_.group_size(s.axes), s);
      return count;
    };
    const bool sized = g_.op(n) == OpKind::Reshape || g_.op(n) == OpKind::Expand;
    if (auto* a = std::get_if<DimsAttrs>(&attrs); a && sized) a->dims = types[0].dims;
    if (auto* a = std::get_if<ResizeAttrs>(&attrs)) a->sizes = types[0].dims;
    if (auto* a = std::get_if<ConvAttrs>(&attrs)) {
      a->groups = part(a->groups);
      each_window(rule, c, [&](size_t dim, size_t) { a->pads_begin[dim - 2] = a->pads_end[dim - 2] = 0; });
    }
    if (auto* a = std::get_if<PoolAttrs>(&attrs))
      each_window(rule, c, [&](size_t dim, size_t) { a->pads_begin[dim - 2] = a->pads_end[dim - 2] = 0; });
    if (auto* a = std::get_if<GroupNormAttrs>(&attrs)) a->groups = part(a->groups);
    if (auto* a = std::get_if<AttentionAttrs>(&attrs)) {
      a->num_heads = part(a->num_heads);
      a->num_kv_heads = part(a->num_kv_heads);
    }
    if (auto* a = std::get_if<NarrowAttrs>(&attrs)) {
      const Dim whole_len = a->len, len = types[0].dims[static_cast<size_t>(a->axis)];
      if (len != whole_len) a->start = Dim(a->start.size() / (whole_len.size() / len.size()));
      a->len = len;
    }
    return attrs;
  }

  CollectiveAttrs collective(const std::vector<size_t>& along) const {
    CollectiveAttrs a;
    a.mesh = mesh_text_;
    for (size_t axis : along) a.along.push_back(mesh_.axes[axis].name);
    return a;
  }

  // Combines partial results; scatters them if the value is to be split over the same devices.
  ValueId combined(NodeId n, ValueId v, ReduceOp op, const std::vector<size_t>& along, const Sharding& want, Sharding* have) {
    Builder b(g_, nullptr, n);
    CollectiveAttrs a = collective(along);
    a.op = op;
    for (size_t d = 0; d < want.size(); ++d) {
      Sharding scattered = *have;
      scattered[d] = want[d];
      if (want[d].axes != along || (*have)[d].split() || !local_type(g_.type(v), scattered_only(scattered, d), mesh_)) continue;
      a.axis = static_cast<int64_t>(d);
      a.blocks = want[d].blocks;
      *have = std::move(scattered);
      if (want[d].padding > 0) v = padded(b, v, d, want[d].padding);
      return named(b, n, OpKind::ReduceScatter, v, a);
    }
    return named(b, n, OpKind::AllReduce, v, a);
  }
  ValueId padded(Builder& b, ValueId v, size_t dim, int64_t rows) {
    PadAttrs a;
    a.before.resize(static_cast<size_t>(g_.rank(v)), Dim(0));
    a.after = a.before;
    a.after[dim] = Dim(rows);
    return b.create(OpKind::Pad, {v}, std::move(a));
  }
  static Sharding scattered_only(const Sharding& s, size_t dim) {
    Sharding one(s.size());
    one[dim] = s[dim];
    return one;
  }

  ValueId named(Builder& b, NodeId n, OpKind op, ValueId v, CollectiveAttrs a) {
    Module& m = g_.module();
    b.set_node_name(m.symbol(g_.label(n).bytes() + "." + std::string(name(op))));
    const ValueId out = b.create(op, {v}, std::move(a));
    b.set_node_name({});
    if (out.valid()) g_.set_origin(g_.def(out), g_.origin(n));
    return out;
  }

  // Rows of a split table, or products with split matrices: each device computes those that it has and zeros for the others, and
  // the sum over all devices has them all.
  bool look_up(NodeId n, Builder& b, std::vector<ValueId> operands, Attrs attrs, const DimSharding& split,
               std::vector<size_t> summed, Sharding sharding) {
    const bool gathers = g_.op(n) == OpKind::Gather;
    const ValueId table = operands[gathers ? 0 : 1];
    ValueId& index = operands[gathers ? 1 : 2];
    const size_t axis = gathers ? static_cast<size_t>(g_.attrs<AxisAttrs>(n).axis) : 0;
    if (!is_float(g_.dtype(table)) && !is_integer(g_.dtype(table))) return false;
    const DType t = g_.dtype(index);
    const int64_t rows = g_.dims(table)[axis].size(), all = g_.dims(g_.operand(n, gathers ? 0 : 1))[axis].size();
    const auto number = [&](int64_t k) { return b.scalar(t, static_cast<double>(k)); };
    const ValueId device = b.cast(b.create(OpKind::DeviceIndex, {}, collective(split.axes)), t);
    const ValueId counted = b.create(OpKind::Where, {b.create(OpKind::Lt, {index, number(0)}), b.add(index, number(all)), index});
    const ValueId own = b.sub(counted, b.mul(device, number(rows)));
    const ValueId inside =
        b.create(OpKind::And, {b.create(OpKind::Ge, {own, number(0)}), b.create(OpKind::Lt, {own, number(rows)})});
    std::vector<Dim> mask(g_.dims(index).begin(), g_.dims(index).end());
    mask.resize(mask.size() + (gathers ? static_cast<size_t>(g_.rank(table)) - 1 - axis : 1), Dim(1));
    index = b.create(OpKind::Min, {b.create(OpKind::Max, {own, number(0)}), number(rows - 1)});
    ValueId y = b.create(g_.op(n), operands, std::move(attrs));
    if (!y.valid()) return false;
    summed.insert(summed.end(), split.axes.begin(), split.axes.end());
    if (gathers || !summed_later(n, split, summed)) {
      y = b.create(OpKind::Where, {b.reshape(inside, std::move(mask)), y, b.scalar(g_.dtype(y), 0)});
      if (!y.valid()) return false;
      y = combined(n, y, ReduceOp::Sum, summed, s_.of(g_.result(n)), &sharding);
    }
    settle(n, 0, y, std::move(sharding));
    return true;
  }

  // Whether only products with the same experts read these rows: the rows of other devices are not needed, and these products add
  // theirs up.
  bool summed_later(NodeId n, const DimSharding& split, const std::vector<size_t>& summed) const {
    if (summed.size() > split.axes.size()) return false;
    std::vector<ValueId> work{g_.result(n)};
    for (size_t head = 0; head < work.size(); ++head) {
      const ValueId v = work[head];
      if (work.size() > kExpertWalk || g_.rank(v) != 2) return false;
      for (size_t axis : split.axes)
        if (uses_axis(s_.of(v), axis)) return false;
      for (Graph::Use use : g_.uses(v)) {
        const NodeId user = use.user;
        if (user == g_.terminator()) return false;
        const bool cuts = g_.op(user) == OpKind::Narrow && g_.attrs<NarrowAttrs>(user).axis == 1;
        if (has_trait(g_.op(user), kElementwise) || cuts) {
          if (std::ranges::find(work, g_.result(user)) == work.end()) work.push_back(g_.result(user));
        } else if (g_.op(user) != OpKind::GroupedMatMul || use.index != 0 || g_.operand(user, 2) != g_.operand(n, 2) ||
                   !looks_up(user, split)) {
          return false;
        }
      }
    }
    return true;
  }
  bool looks_up(NodeId n, const DimSharding& split) const {
    const Rule& rule = s_.rule(n);
    const Choice c = choose(n, rule);
    for (size_t f = 0; f < rule.factors.size(); ++f)
      if (rule.factors[f].kind == Factor::Kind::Lookup) return c.factors[f] == split;
    return false;
  }

  // The value in the wanted sharding, converted before `before` if need be. Invalid if it has no such form.
  ValueId local(ValueId v, const Sharding& want, NodeId before) {
    Local have = local_[v.raw];
    if (have.sharding == want) return have.value;
    const auto key = std::pair(v.raw, text(want, mesh_));
    if (const auto it = converted_.find(key); it != converted_.end()) return it->second;
    if (!local_type(g_.type(v), want, mesh_)) return {};
    Builder b(g_, nullptr, before);
    const NodeId maker = g_.def(v);
    move_axes(b, maker, want, &have);
    for (size_t d = 0; d < want.size(); ++d)
      if (have.sharding[d].split() && !(have.sharding[d] == want[d])) {
        have.value = resized(b, maker, OpKind::AllGather, have.value, d, have.sharding[d]);
        if (have.sharding[d].padding > 0) have.value = b.narrow(have.value, static_cast<int64_t>(d), Dim(0), g_.dims(v)[d]);
        have.sharding[d] = {};
      }
    for (size_t d = 0; d < want.size(); ++d)
      if (want[d].split() && !have.sharding[d].split()) {
        have.value = resized(b, maker, OpKind::DeviceSlice, have.value, d, want[d]);
        if (is_whole(have.sharding)) has_zeros_.insert(have.value.raw);
      }
    changed_ = true;
    return converted_[key] = have.value;
  }

  ValueId resized(Builder& b, NodeId n, OpKind op, ValueId v, size_t dim, const DimSharding& s) {
    CollectiveAttrs a = collective(s.axes);
    a.axis = static_cast<int64_t>(dim);
    a.blocks = s.blocks;
    if (op == OpKind::DeviceSlice) a.padding = s.padding;
    return named(b, n, op, v, std::move(a));
  }

  // Mesh axes that move from one dim to another need one all_to_all.
  void move_axes(Builder& b, NodeId n, const Sharding& want, Local* have) {
    for (size_t from = 0; from < want.size(); ++from)
      for (size_t to = 0; to < want.size(); ++to) {
        const DimSharding s = have->sharding[from];
        if (from == to || !s.split() || s.blocks != 1 || s.padding != 0 || want[from].split() || !(want[to] == s) ||
            have->sharding[to].split())
          continue;
        CollectiveAttrs a = collective(s.axes);
        a.axis = static_cast<int64_t>(to);
        a.to = static_cast<int64_t>(from);
        const ValueId moved = named(b, n, OpKind::AllToAll, have->value, std::move(a));
        if (!moved.valid()) continue;
        have->value = moved;
        std::swap(have->sharding[from], have->sharding[to]);
      }
  }

  Graph& g_;
  const Shardings& s_;
  const Mesh& mesh_;
  const std::string mesh_text_;
  std::vector<Local> local_;  // by value of the whole program
  std::map<std::pair<uint32_t, std::string>, ValueId> converted_;
  std::map<std::tuple<uint32_t, size_t, double>, ValueId> filled_;
  std::set<uint32_t> has_zeros_;  // values whose padding is zeros
  std::vector<bool> replaced_;    // by node
  bool changed_ = false;
};

}  // namespace

bool partition(Graph& g, const Shardings& s) { return Partitioner(g, s).run(); }

}  // namespace rlxc::shard
