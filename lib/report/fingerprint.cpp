#include "report/fingerprint.h"

#include <bit>
#include <unordered_map>

#include "ir/bind_dims.h"

namespace rlxc::report {
namespace {

constexpr uint64_t kAbsent = ~uint64_t{0};

class Walk {
 public:
  explicit Walk(const LirModule& lir) : lir_(lir), module_(*lir.module) {}

  Digest128 run() {
    hash_.update_text("rlxc-lir 1");
    hash_.update_u64(lir_.alignment);
    hash_.update_u64(module_.dims.equalities().size());
    for (const auto& [a, b] : module_.dims.equalities()) {
      hash_.update_text(module_.dims.text(a));
      hash_.update_text(module_.dims.text(b));
    }
    hash_.update_u64(module_.graph_count());
    for (size_t i = 0; i < module_.graph_count(); ++i) graph(module_.graph(GraphId(i)), lir_.plans[i]);
    if (module_.dims.named_sizes() > 0) {
      for (Dim d : dims_of(module_)) used_.push_back(d);
      for (size_t i : module_.dims.named_sizes_of(used_)) hash_.update_text(module_.dims.definition(i));
    }
    return hash_.digest();
  }

 private:
  void put(Digest128 d) {
    hash_.update_u64(d.high);
    hash_.update_u64(d.low);
  }

  void put(Dim d) {
    hash_.update_u64(static_cast<uint64_t>(d.is_static() ? d.size() : -1));
    if (d.is_static()) return;
    std::string& text = texts_[d.raw()];
    if (text.empty()) {
      text = module_.dims.text(d);
      used_.push_back(d);
    }
    hash_.update_text(text);
  }

  void data(Hash128& h, const TensorData& d) const {
    h.update_text(name(d.dtype));
    h.update_u64(d.dims.size());
    for (int64_t n : d.dims) h.update_u64(static_cast<uint64_t>(n));
    h.update_u64(d.splat);
    h.update_text(d.file);
    h.update_u64(d.offset);
    h.update_u64(d.size_bytes());
    if (d.file.empty()) {
      h.update_u64(d.bytes.size());
      h.update(d.bytes);
      for (const std::string& s : d.strings) h.update_text(s);
    }
  }

  struct Field {
    Hash128& h;
    void operator()(bool v) const { h.update_u64(v); }
    void operator()(int64_t v) const { h.update_u64(static_cast<uint64_t>(v)); }
    void operator()(double v) const { h.update_u64(std::bit_cast<uint64_t>(v)); }
    void operator()(const std::string& v) const { h.update_text(v); }
    template <class T>
    void operator()(const std::vector<T>& list) const {
      h.update_u64(list.size());
      for (const T& v : list) (*this)(v);
    }
  };

  Digest128 attrs(AttrId id, OpKind op) {
    if (id.raw >= attrs_.size()) attrs_.resize(id.raw + id.raw / 2 + 16);
    Digest128& made = attrs_[id.raw];
    if (made == Digest128{}) {
      Hash128 h;
      const Attrs& a = module_.attrs[id];
      for (const auto& [field, value] : attr_fields(a, module_.dims, true, op)) {
        h.update_text(field);
        h.update_u64(value.index());
        std::visit(Field{h}, value);
      }
      if (const auto* d = std::get_if<DataAttrs>(&a); d && d->data.valid()) data(h, module_.data[d->data]);
      made = h.digest();
    }
    return made;
  }

  Digest128 type(TypeId id) {
    if (id.raw >= types_.size()) types_.resize(module_.types.size());
    Digest128& made = types_[id.raw];
    if (made == Digest128{}) {
      Hash128 h;
      h.update_text(text(module_.types[id], module_.dims));
      made = h.digest();
    }
    return made;
  }

  // Numbers values in execution order, so that dead nodes and renumbering do not change the hash.
  void graph(const Graph& g, const GraphPlan& plan) {
    std::vector<uint32_t> number(g.value_capacity());
    uint32_t next = 0;
    const auto put_value = [&](ValueId v) { hash_.update_u64(v.valid() ? number[v.raw] : kAbsent); };
    const auto put_operands = [&](NodeId n) {
      hash_.update_u64(g.operands(n).size());
      for (ValueId v : g.operands(n)) put_value(v);
    };
    hash_.update_u64(g.live_nodes());
    for (NodeId n : g.nodes()) {
      hash_.update_text(kind_name(g.op(n)));
      put(attrs(g.attr_id(n), g.op(n)));
      put_operands(n);
      hash_.update_u64(g.bodies(n).size());
      for (GraphId b : g.bodies(n)) hash_.update_u64(b.raw);
      if (g.launch(n).valid()) hash_.update_text(module_.bytes(g.launch(n)));
      hash_.update_u64(g.result_count(n));
      for (size_t r = 0; r < g.result_count(n); ++r) {
        number[g.result(n, r).raw] = next++;
        put(type(g.type_id(g.result(n, r))));
      }
      hash_.update_u64(plan.step[n.raw]);
      hash_.update_u64(static_cast<uint64_t>(plan.phase[n.raw]));
      if (n.raw < plan.body_offset.size()) put(plan.body_offset[n.raw]);
    }
    put_operands(g.terminator());
    for (NodeId n : g.inputs()) put_value(g.result(n));
    for (NodeId n : g.nodes())
      for (size_t r = 0; r < g.result_count(n); ++r) {
        const Slot& s = plan.slot[g.result(n, r).raw];
        hash_.update_u64(static_cast<uint64_t>(s.region) | uint64_t{s.view} << 8 | uint64_t{s.in_place} << 9 |
                         uint64_t{s.index} << 32);
        if (s.region == Region::None) continue;
        put_value(s.root);
        put(s.offset);
        put(s.size);
      }
    put(plan.arena_size);
    put(plan.packed_size);
    hash_.update_u64(plan.prepacked.size());
    for (const PrepackedWeight& p : plan.prepacked) {
      hash_.update_u64(plan.step[p.node.raw]);
      put(p.offset);
      put(p.bytes);
    }
  }

  const LirModule& lir_;
  const Module& module_;
  Hash128 hash_;
  std::unordered_map<int64_t, std::string> texts_;  // of dims
  std::vector<Dim> used_;                           // those in texts_
  std::vector<Digest128> attrs_, types_;
};

}  // namespace

Digest128 fingerprint(const LirModule& lir) { return Walk(lir).run(); }

}  // namespace rlxc::report
