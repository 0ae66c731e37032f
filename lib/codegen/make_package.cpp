#include "codegen/make_package.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/data_dependent_dims.h"
#include "analysis/phases.h"
#include "codegen/control_flow_dims.h"
#include "codegen/equal_sizes.h"
#include "codegen/lower.h"
#include "ir/graphs.h"
#include "kernel/fuse_kernels.h"
#include "kernel/simplify.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kAlignment = 64;
constexpr uint32_t kNone = ~uint32_t{0};

// A lowering with its kernels in the package.
struct Lowered {
  const NodeKernels* node = nullptr;  // null: none
  std::vector<uint32_t> kernels;      // package kernel, by kernel of the node
};

class Packager {
 public:
  Packager(const LirModule& lir, std::string name, LoweringCache& lowerings, Diagnostics& diagnostics)
      : lir_(lir),
        m_(*lir.module),
        dims_(lir.module->dims),
        lowerings_(lowerings),
        row_(lowerings.row()),
        diagnostics_(diagnostics),
        ranges_(data_dependent_ranges(lir.extents)),
        extents_(lir) {
    p_.name = std::move(name);
    p_.lir = &lir;
  }

  std::optional<Package> run() {
    p_.mesh = mesh_of(m_);
    stages_ = stages_of(m_.main());
    if (stages_) p_.groups.push_back({stages_->axis});
    p_.graphs.resize(m_.graph_count());
    packed_base_.assign(m_.graph_count(), Dim(0));
    for (size_t g = 0; g < m_.graph_count(); ++g) {
      packed_base_[g] = packed_;
      packed_ = dims_.add(packed_, aligned(lir_.plans[g].packed_size));
      weight_of_.emplace_back(m_.graph(GraphId(g)).value_capacity(), ~uint32_t{0});
      collect_weights(m_.graph(GraphId(g)));
    }
    std::vector<bool> runs(m_.graph_count(), true);
    for (size_t g = 0; g < m_.graph_count(); ++g)
      for (NodeId n : m_.graph(GraphId(g)).nodes())
        for (GraphId b : m_.graph(GraphId(g)).bodies(n)) runs[b.raw] = runs_bodies(m_.graph(GraphId(g)), n);
    for (size_t g = 0; g < m_.graph_count(); ++g)
      if (runs[g]) lower_graph(m_.graph(GraphId(g)));
    const Graph& main = m_.main();
    for (NodeId n : main.inputs()) p_.inputs.push_back({m_.text(main.value_name(main.result(n))), main.id(), main.result(n)});
    for (size_t i = 0; i < main.outputs().size(); ++i) {
      ForeignText name = m_.text(main.output_name(i));
      if (name.empty()) name = m_.text(main.value_name(main.outputs()[i]));
      p_.outputs.push_back({std::move(name), main.id(), main.outputs()[i]});
    }
    for (const State& s : lir_.states)
      if (s.part) {
        const uint32_t group = group_number(*s.part);
        p_.inputs[s.input].part = p_.outputs[s.output].part =
            PortPart{group, s.part->axis, s.part->blocks, p_.mesh->group_size(p_.groups[group])};
      }
    for (const auto* ports : {&p_.inputs, &p_.outputs})
      for (const Port& port : *ports)
        if (main.type(port.value).kind != TypeKind::Tensor || main.dtype(port.value) == DType::String)
          diagnostics_.error(Code::UnsupportedOnTarget,
                             "the " + row_.name + " target has no values of type " + text(main.type(port.value), dims_),
                             port.name.quoted(),
                             main.type(port.value).key != MapKey::None
                                 ? "give the model a tensor in place of the map, or run it with --engine=reference"
                                 : "");
    p_.packed_bytes = packed_;
    p_.load_scratch_bytes = load_scratch_;
    p_.arena_bytes = aligned(lir_.plans[0].arena_size);
    p_.held_bytes = held_;
    p_.scratch_bytes = scratch_;
    drop_unused_kernels();
    collect_symbols();
    if (!diagnostics_.ok()) return std::nullopt;
    place_size_checks(&p_);
    return std::move(p_);
  }

 private:
  Dim aligned(Dim d) { return dims_.mul(dims_.ceil_div(d, Dim(kAlignment)), Dim(kAlignment)); }
  const GraphPlan& plan(const Graph& g) const { return lir_.plans[g.id().raw]; }
  std::string where(const Graph& g, NodeId n) const {
    return "node " + g.label(n).quoted() + " (" + std::string(kind_name(g.op(n))) + ")";
  }

  void collect_weights(const Graph& g) {
    for (NodeId n : g.nodes()) {
      if (is_weight_slice(g, n)) collect_slice(g, n);
      if (!is_weight(g.op(n)) || plan(g).slot[g.result(n).raw].region != Region::Weights) continue;
      const ValueId v = g.result(n);
      const DataId data = g.attrs<DataAttrs>(n).data;
      const Dim size = plan(g).slot[v.raw].size;
      if (!data.valid() && !size.is_static()) {
        diagnostics_.error(Code::UnsupportedOnTarget, "the " + row_.name + " target: the size of a parameter must be a constant",
                           where(g, n));
        continue;
      }
      weight_of_[g.id().raw][v.raw] = static_cast<uint32_t>(p_.weights.size());
      const ForeignText name = m_.text(g.value_name(v));
      p_.weights.push_back({data, g.dtype(v), name.empty() ? g.label(n) : name,
                            data.valid() ? m_.data[data].size_bytes() : static_cast<uint64_t>(size.size())});
    }
  }

  // The stages of a pipeline that compute a node. Bodies belong to nodes of the main graph.
  uint32_t stages(const Graph& g, NodeId n) const { return stages_ && g.id().raw == 0 ? stages_->stages(n) : Stages::kAll; }

  uint32_t group_number(const CollectiveAttrs& a) {
    std::string message;
    const auto group = group_of(a, &message);
    if (!group) return 0;
    const auto it = std::ranges::find(p_.groups, group->along);
    if (it != p_.groups.end()) return static_cast<uint32_t>(it - p_.groups.begin());
    p_.groups.push_back(group->along);
    return static_cast<uint32_t>(p_.groups.size() - 1);
  }

  // A device's part of an axis. `run` and `whole` are bytes of a run of the part and of the whole axis.
  struct Runs {
    Dim runs, run, whole;
  };
  Runs runs_of(const Graph& g, NodeId n) {
    const auto& a = g.attrs<CollectiveAttrs>(n);
    const auto at = static_cast<size_t>(a.axis);
    const auto bytes = [&](std::span<const Dim> dims) {
      const Dim bits = dims_.mul(dims_.product(dims.subspan(at)), Dim(rlxc::bits(g.dtype(g.operand(n, 0)))));
      if (!dims_.divides(Dim(8 * a.blocks), bits))
        diagnostics_.error(Code::UnsupportedOnTarget, "the " + row_.name + " target: the part of a device must be of whole bytes",
                           where(g, n));
      return dims_.floor_div(bits, Dim(8 * a.blocks));
    };
    const ValueId before = g.operand(n, 0), after = g.result(n);
    const auto part = g.dims(g.op(n) == OpKind::AllGather ? before : after);
    return {dims_.mul(dims_.product(part.first(at)), Dim(a.blocks)), bytes(part),
            bytes(g.dims(g.op(n) == OpKind::AllGather ? after : before))};
  }

  void collect_slice(const Graph& g, NodeId n) {
    const NodeId param = g.def(g.operand(n, 0));
    const DataId data = g.attrs<DataAttrs>(param).data;
    const auto [runs, run, whole] = runs_of(g, n);
    const ForeignText name = m_.text(g.value_name(g.result(param)));
    Weight w{data, g.dtype(g.result(n)), name.empty() ? g.label(param) : name, 0};
    if (!runs.is_static() || !run.is_static() || !whole.is_static())
      return (void)diagnostics_.error(Code::UnsupportedOnTarget,
                                      "the " + row_.name + " target: the size of a parameter must be a constant", where(g, n));
    w.bytes = static_cast<uint64_t>(runs.size() * run.size());
    const auto& a = g.attrs<CollectiveAttrs>(n);
    const uint32_t group = group_number(a);
    if (!data.valid() || !m_.data[data].splat)
      w.slice = WeightSlice{group, static_cast<uint64_t>(runs.size()), static_cast<uint64_t>(run.size()),
                            static_cast<uint64_t>(whole.size())};
    weight_of_[g.id().raw][g.result(n).raw] = static_cast<uint32_t>(p_.weights.size());
    p_.weights.push_back(std::move(w));
  }

  void collective(const Graph& g, NodeId n, std::vector<Command>* steps) {
    if (!row_.collectives)
      return (void)diagnostics_.error(Code::UnsupportedOnTarget, "the " + row_.name + " target runs on one device", where(g, n),
                                      "docs/sharding.md names the targets that exchange data between devices");
    const auto& a = g.attrs<CollectiveAttrs>(n);
    Command s;
    s.kind = Command::Kind::Collective;
    s.graph = g.id();
    s.node = n;
    s.group = group_number(a);
    for (ValueId v : g.operands(n)) s.places.push_back(place_of(g, v));
    s.places.push_back(place_of(g, g.result(n)));
    if (g.op(n) == OpKind::DeviceSlice || g.op(n) == OpKind::AllGather) {
      const auto [runs, run, whole] = runs_of(g, n);
      s.sizes = {runs, run};
      if (g.op(n) == OpKind::DeviceSlice) s.sizes.push_back(whole);
    } else if (!g.operands(n).empty()) {
      s.sizes = {dims_.product(g.dims(g.operand(n, 0)))};
    }
    steps->push_back(std::move(s));
  }

  Dim in_packed(const Graph& g, Dim offset) { return dims_.add(packed_base_[g.id().raw], offset); }

  BufferSlice place_of(const Graph& g, ValueId v) {
    const Slot& s = plan(g).slot[v.raw];
    const Slot& whole = s.view ? plan(g).slot[s.root.raw] : s;
    switch (s.region) {
      case Region::Input: return {BufferSlice::Memory::Input, s.index, s.offset, whole.offset, whole.size};
      case Region::Output:
      case Region::State: return {BufferSlice::Memory::Output, s.index, s.offset, whole.offset, whole.size};
      case Region::Weights: {
        const ValueId root = s.root.valid() ? s.root : v;
        return {BufferSlice::Memory::Weights, weight_of_[g.id().raw][root.raw],
                dims_.sub(s.offset, plan(g).slot[root.raw].offset)};
      }
      case Region::Packed:
        return {BufferSlice::Memory::Packed, 0, in_packed(g, s.offset), in_packed(g, whole.offset), whole.size};
      case Region::None:  // empty
        if (plan(g).phase[g.def(v).raw] == Phase::Prologue) return {BufferSlice::Memory::Packed, 0, Dim(0), Dim(0), Dim(0)};
        break;
      case Region::Activations: break;
    }
    return {BufferSlice::Memory::Arena, 0, s.offset, whole.offset, whole.size};
  }

  // Returns the byte offset of each value in its buffer.
  std::vector<Dim> offsets_in_buffers(const Graph& g) {
    const std::vector<Slot>& slot = plan(g).slot;
    std::vector<Dim> offsets(slot.size());
    for (size_t v = 0; v < slot.size(); ++v)
      if (slot[v].root.valid()) offsets[v] = dims_.sub(slot[v].offset, slot[slot[v].root.raw].offset);
    return offsets;
  }

  void lower_graph(const Graph& g) {
    GraphProgram& program = p_.graphs[g.id().raw];
    const GraphPlan& pl = plan(g);
    offset_ = row_.mapping.workgroups ? offsets_in_buffers(g) : std::vector<Dim>();
    prepacked_of_.assign(g.node_capacity(), {});
    for (const PrepackedWeight& pack : pl.prepacked) prepacked_of_[pack.node.raw].push_back(&pack);
    Symbol launch;  // the launch of the commands from `first` on
    size_t first = 0;
    for (NodeId n : pl.schedule) {
      const OpKind op = g.op(n);
      if (has_trait(op, kLeaf | kTerminator) || (g.result_count(n) > 0 && pl.slot[g.result(n).raw].view)) continue;
      if (pl.phase[n.raw] != Phase::Prologue && launch != g.launch(n)) {
        join_steps(g, launch, first, &program.run);
        launch = g.launch(n);
        first = program.run.size();
      }
      const size_t loads = program.load.size(), runs = program.run.size();
      lower_node(g, n, &program);
      for (size_t i = loads; i < program.load.size(); ++i) program.load[i].stages = stages(g, n);
      for (size_t i = runs; i < program.run.size(); ++i) program.run[i].stages = stages(g, n);
    }
    join_steps(g, launch, first, &program.run);
    share_packed(&program.load);
    copy_outputs(g, &program);
  }

  // Stages that read what a node of another stage makes at load time.
  void share_packed(std::vector<Command>* load) {
    for (Command& s : *load)
      for (const BufferSlice& p : s.places)
        if (const auto it = read_packed_.find(p.offset.raw());
            p.memory == BufferSlice::Memory::Packed && it != read_packed_.end())
          s.stages |= it->second;
  }

  void lower_node(const Graph& g, NodeId n, GraphProgram* program) {
    const OpKind op = g.op(n);
    if (runs_bodies(g, n)) return control(g, n, &program->run);
    const bool prologue = plan(g).phase[n.raw] == Phase::Prologue;
    if (has_trait(op, kCollective)) {
      if (!is_weight_slice(g, n)) collective(g, n, prologue ? &program->load : &program->run);
      return;
    }
    if (lir_.check_indices && !prologue) check_indices(g, n, &program->run);
    if (const Lowered* l = lower(g, n, prologue)) launches(g, n, *l, prologue, program);
  }

  void copy_outputs(const Graph& g, GraphProgram* program) {
    // States are copied last, because other outputs may be copied from their buffers.
    std::vector<size_t> order, states;
    for (size_t i = 0; i < g.outputs().size(); ++i)
      (g.id().raw == 0 && std::ranges::any_of(lir_.states, [&](const State& s) { return s.output == i; }) ? states : order)
          .push_back(i);
    order.insert(order.end(), states.begin(), states.end());
    for (size_t i : order) {
      const ValueId v = g.outputs()[i];
      const BufferSlice from = place_of(g, v);
      if (from.memory == BufferSlice::Memory::Output && from.index == i && from.offset == Dim(0)) continue;
      Command copy;
      copy.kind = Command::Kind::Copy;
      copy.graph = g.id();
      copy.places = {{BufferSlice::Memory::Output, static_cast<uint32_t>(i), Dim(0)}, from};
      copy.sizes = {dense_bytes(dims_, g.type(v))};
      program->run.push_back(std::move(copy));
    }
  }

  // Returns, by result, the operand that it overwrites, or kNone. Elementwise kernels always allow it.
  std::vector<uint32_t> overwritten_operands(const Graph& g, NodeId n) const {
    const std::vector<Slot>& slot = plan(g).slot;
    std::vector<uint32_t> operands(g.result_count(n), kNone);
    if (has_trait(g.op(n), kElementwise)) return operands;
    for (size_t r = 0; r < operands.size(); ++r)
      for (uint32_t i = 0; i < g.operands(n).size() && operands[r] == kNone; ++i) {
        const Slot& to = slot[g.result(n, r).raw];
        if (!to.in_place || !g.operand(n, i).valid()) continue;
        const Slot& from = slot[g.operand(n, i).raw];
        if (from.region == to.region && from.index == to.index && from.offset == to.offset) operands[r] = i;
      }
    return operands;
  }

  const Lowered* lower(const Graph& g, NodeId n, bool prologue) {
    const bool vectors = !row_.mapping.workgroups || vectors_fit(g, n, offset_);
    std::span<const PrepackedBuffer> prepacked;
    if (prologue || !prepacked_of_[n.raw].empty()) prepacked = lowerings_.info(g, plan(g).layouts, n, plan(g).phase).prepacked;
    const LoweringCache::Lowered& lowering = lowerings_.lower(g, plan(g).layouts, n, vectors, prepacked);
    if (!lowering.kernels) {
      diagnostics_.error(
          Code::UnsupportedOnTarget, "the " + row_.name + " target: " + lowering.reason, where(g, n),
          has_lowering(g.op(n)) ? "" : "rlxc run --engine=reference; or compute it before the model, and feed the result");
      return nullptr;
    }
    const std::vector<uint32_t> overwritten = overwritten_operands(g, n);
    Lowered& l = lowered_[{&lowering, overwritten}];
    if (!l.node) {
      l.node = &*lowering.kernels;
      std::vector<kernel::Kernel> kernels = l.node->kernels;
      let_overwrite(overwritten, l.node->launches, &kernels);
      for (kernel::Kernel& k : kernels) l.kernels.push_back(intern(std::move(k)));
    }
    for (uint32_t k : l.kernels) note_user(k, g, n);
    return &l;
  }

  static void let_overwrite(const std::vector<uint32_t>& overwritten, const std::vector<Launch>& launches,
                            std::vector<kernel::Kernel>* kernels) {
    for (const Launch& l : launches)
      for (uint32_t r = 0; r < overwritten.size(); ++r)
        for (size_t b = 0; b < l.buffers.size() && overwritten[r] != kNone; ++b)
          if (l.buffers[b] == Binding{Binding::Kind::Result, r} ||
              l.buffers[b] == Binding{Binding::Kind::Operand, overwritten[r]})
            (*kernels)[l.kernel].buffers[b].may_alias = true;
  }

  void launches(const Graph& g, NodeId n, const Lowered& lowered, bool prologue, GraphProgram* program) {
    std::vector<BufferSlice> scratch;
    Dim run_bytes(0), load_bytes(0);
    size_t kept = 0;
    for (const Scratch& s : lowered.node->scratch) {
      const Dim bytes = aligned(largest(dims_, scratch_bytes(dims_, s.dtype, s.elements), ranges_));
      if (s.on_load && !prologue) {
        const Dim at = in_packed(g, prepacked_of_[n.raw][kept++]->offset);
        scratch.push_back({BufferSlice::Memory::Packed, 0, at, at, bytes});
      } else {
        Dim& top = prologue ? load_bytes : run_bytes;
        scratch.push_back({BufferSlice::Memory::Scratch, 0, top, top, bytes});
        top = dims_.add(top, bytes);
      }
    }
    load_scratch_ = larger(load_scratch_, load_bytes);
    scratch_ = larger(scratch_, run_bytes);
    const bool made_before = !prologue && kept > 0 && prepacked_of_[n.raw][0]->shared;
    if (made_before && stages_)
      for (const BufferSlice& p : scratch)
        if (p.memory == BufferSlice::Memory::Packed) read_packed_[p.offset.raw()] |= stages(g, n);
    for (const Launch& l : lowered.node->launches) {
      if (copies_to_itself(g, n, l) || (made_before && l.on_load)) continue;
      Command s;
      s.graph = g.id();
      s.node = n;
      s.kernel = lowered.kernels[l.kernel];
      s.sizes = l.sizes;
      for (const Binding& b : l.buffers) {
        if (b.kind == Binding::Kind::Scratch) s.places.push_back(scratch[b.index]);
        else if (b.kind == Binding::Kind::Extent) s.places.push_back(extent_of(g, n, b.index));
        else s.places.push_back(place_of(g, b.kind == Binding::Kind::Operand ? g.operand(n, b.index) : g.result(n, b.index)));
      }
      const bool load = prologue || l.on_load;
      if (load && !std::all_of(s.sizes.begin(), s.sizes.end(), [&](Dim d) { return dims_.constant_value(d).has_value(); }))
        diagnostics_.error(Code::UnsupportedOnTarget,
                           "the " + row_.name + " target: what is made of weights alone must have constant sizes", where(g, n));
      (load ? program->load : program->run).push_back(std::move(s));
    }
  }

  // Counts out-of-range indices before the node reads them. Skips indices known at load time.
  void check_indices(const Graph& g, NodeId n, std::vector<Command>* steps) {
    ValueId indices;
    auto check = lower_index_check(g, plan(g).layouts, n, row_, &indices);
    if (!check) return;
    if (is_known_on_load(g, plan(g).phase, indices) || is_weight(g.op(g.def(indices)))) return;
    const Launch& l = check->launches[0];
    Command s;
    s.graph = g.id();
    s.node = n;
    s.kernel = intern(std::move(check->kernels[l.kernel]));
    s.sizes = l.sizes;
    note_user(s.kernel, g, n);
    const auto cell = static_cast<uint32_t>(lir_.extents.size());
    for (const Binding& b : l.buffers)
      s.places.push_back(b.kind == Binding::Kind::Operand
                             ? place_of(g, g.operand(n, b.index))
                             : BufferSlice{BufferSlice::Memory::Extent, cell, Dim(8 * int64_t{cell})});
    steps->push_back(std::move(s));
  }

  // Fuses the commands from `first` on into one, with all their buffers and sizes.
  void join_steps(const Graph& g, Symbol launch, size_t first, std::vector<Command>* steps) {
    if (!launch.valid() || !row_.mapping.workgroups || steps->size() < first + 2) return;
    std::vector<const kernel::Kernel*> parts;
    Command whole = (*steps)[first];
    whole.places.clear();
    whole.sizes.clear();
    std::vector<NodeId> nodes;
    for (size_t i = first; i < steps->size(); ++i) {
      const Command& s = (*steps)[i];
      parts.push_back(&p_.kernels[s.kernel]);
      whole.stages |= s.stages;
      whole.places.insert(whole.places.end(), s.places.begin(), s.places.end());
      whole.sizes.insert(whole.sizes.end(), s.sizes.begin(), s.sizes.end());
      if (nodes.empty() || nodes.back() != s.node) nodes.push_back(s.node);
    }
    const std::string_view name = m_.bytes(launch);
    std::string reason;
    auto joined = kernel::fuse_kernels(std::string(name.substr(0, name.rfind('_'))), parts, row_.mapping, &reason);
    if (!joined)
      return (void)diagnostics_.error(Code::UnsupportedOnTarget, "no kernel for what one launch is to do: " + reason,
                                      where(g, nodes[0]));
    for (size_t i = 0; i < whole.places.size(); ++i)
      joined->buffers[i].may_alias =
          whole.places[i].memory != BufferSlice::Memory::Weights && whole.places[i].memory != BufferSlice::Memory::Packed;
    kernel::simplify(*joined);
    joined->comments.push_back({joined->name + ": " + std::to_string(parts.size()) + " kernels, one after another", {}});
    whole.kernel = intern(std::move(*joined));
    for (NodeId n : nodes) note_user(whole.kernel, g, n);
    steps->resize(first);
    steps->push_back(std::move(whole));
  }

  void drop_unused_kernels() {  // fused kernels leave unused parts
    std::vector<uint32_t> place(p_.kernels.size(), kNone);
    const auto each_launch = [&](auto f) {
      for (GraphProgram& g : p_.graphs)
        for (auto* steps : {&g.load, &g.run})
          for (Command& s : *steps)
            if (s.kind == Command::Kind::Launch) f(s);
    };
    each_launch([&](const Command& s) { place[s.kernel] = 0; });
    std::vector<kernel::Kernel> kept;
    for (size_t k = 0; k < place.size(); ++k)
      if (place[k] != kNone) {
        place[k] = static_cast<uint32_t>(kept.size());
        kept.push_back(std::move(p_.kernels[k]));
      }
    each_launch([&](Command& s) { s.kernel = place[s.kernel]; });
    p_.kernels = std::move(kept);
  }

  // Skips the copy of a concat-in-place operand, and of an operand that its copy overwrites.
  bool copies_to_itself(const Graph& g, NodeId n, const Launch& l) {
    if ((g.op(n) != OpKind::Concat && !l.copies) || l.buffers[0].kind != Binding::Kind::Operand) return false;
    const std::vector<Slot>& slot = plan(g).slot;
    const Slot &part = slot[g.operand(n, l.buffers[0].index).raw],
               &whole = slot[g.result(n, l.copies ? l.buffers[1].index : 0).raw];
    if (!(l.copies ? whole.in_place : part.part) || part.root != whole.root) return false;
    Dim at = whole.offset;
    for (uint32_t i = 0; !l.copies && i < l.buffers[0].index; ++i) at = dims_.add(at, slot[g.operand(n, i).raw].size);
    return at == part.offset;
  }

  BufferSlice extent_of(const Graph& g, NodeId n, uint32_t index) {
    if (const auto extent = extents_.of_node(g, n, index))
      return {BufferSlice::Memory::Extent, *extent, Dim(8 * int64_t{*extent})};
    diagnostics_.error(Code::UnsupportedOnTarget, "the " + row_.name + " target: the size of its result is given elsewhere",
                       where(g, n));
    return {};
  }

  // As many bytes as either needs. DimTable::max takes symbols to be 1 or more, but they may be 0: where only that proves which
  // is larger, it gets what it lacks with all symbols 0.
  Dim larger(Dim a, Dim b) {
    const auto holds = [&](Dim x, Dim y, int64_t symbols) { return dims_.at_least(dims_.sub(x, y), 0, symbols); };
    if (holds(a, b, 0)) return a;
    if (holds(b, a, 0)) return b;
    if (!holds(a, b, 1)) std::swap(a, b);
    if (!holds(a, b, 1)) return dims_.max(a, b);
    DimBindings zeros;
    for (const std::string& s : dims_.symbol_names()) zeros[s] = 0;
    const int64_t lacks = dims_.evaluate(b, zeros).value_or(0) - dims_.evaluate(a, zeros).value_or(0);
    const Dim enough = dims_.add(a, Dim(std::max<int64_t>(lacks, 0)));
    return holds(enough, b, 0) ? enough : dims_.add(a, b);
  }

  // Deduplicates kernels whose text differs only in name and head.
  uint32_t intern(kernel::Kernel k) {
    const std::string op = std::move(k.name);
    std::vector<kernel::Comment> head = std::move(k.comments);
    k.name = "k";
    k.comments.clear();
    for (const kernel::Buffer& b : k.buffers) k.comments.push_back({b.may_alias ? "shared" : "", {}});
    std::string text = kernel::to_text(k);
    const auto [it, is_new] = by_text_.try_emplace(std::move(text), static_cast<uint32_t>(p_.kernels.size()));
    if (is_new) {
      k.name = p_.name + "_" + op + "_" + std::to_string(counts_[op]++);
      k.comments = std::move(head);
      p_.kernels.push_back(std::move(k));
      users_.push_back(0);
    }
    return it->second;
  }

  // Lists the nodes that share a kernel in its head.
  void note_user(uint32_t kernel, const Graph& g, NodeId n) {
    constexpr size_t kListed = 8;
    std::vector<kernel::Comment>& comments = p_.kernels[kernel].comments;
    if (++users_[kernel] <= kListed) comments.push_back({"node ", g.label(n)});
    else if (users_[kernel] == kListed + 1) comments.push_back({"and other nodes", {}});
  }

  void control(const Graph& g, NodeId n, std::vector<Command>* steps) {
    bool tensors = g.op(n) != OpKind::SequenceMap;
    for (size_t r = 0; r < g.result_count(n); ++r) tensors = tensors && g.type(g.result(n, r)).kind == TypeKind::Tensor;
    if (!tensors)
      return (void)diagnostics_.error(Code::UnsupportedOnTarget, "the " + row_.name + " target has no sequences and maps",
                                      where(g, n));
    Command s;
    s.kind = g.op(n) == OpKind::If ? Command::Kind::If : g.op(n) == OpKind::Loop ? Command::Kind::Loop : Command::Kind::Scan;
    s.graph = g.id();
    s.node = n;
    s.body_arena = plan(g).body_offset[n.raw];
    for (ValueId v : g.operands(n)) {
      s.present.push_back(v.valid());
      s.places.push_back(v.valid() ? place_of(g, v) : BufferSlice());
    }
    for (size_t r = 0; r < g.result_count(n); ++r) s.places.push_back(place_of(g, g.result(n, r)));
    s.held = held_;
    if (s.kind == Command::Kind::If) {
      const auto& a = g.attrs<IfAttrs>(n);
      s.branch_equal[0] = a.then_equal;
      s.branch_equal[1] = a.else_equal;
    } else {
      // Double buffers for each carried value: a body never writes what it reads.
      const Graph& body = m_.graph(g.bodies(n)[0]);
      for (ValueId v : body.outputs()) {
        const Dim bytes = aligned(plan(body).slot[v.raw].size);
        held_ = dims_.add(held_, dims_.mul(bytes, Dim(2)));
      }
    }
    extents_.tell(&s);
    steps->push_back(std::move(s));
  }

  // Sizes must follow from input sizes, or, for data-dependent dims, have bounds that do.
  void collect_symbols() {
    std::set<std::string> known, extents, used;
    for (const DataDependentDim& e : lir_.extents) {
      extents.insert(e.symbol.bytes());
      if (e.bound) continue;
      diagnostics_.error(Code::UnsupportedOnTarget,
                         "the " + row_.name + " target: nothing says how large " + e.symbol.quoted() + " of its result can get",
                         where(m_.graph(e.graph), e.node), "give a bound with --bound " + e.symbol.shell_word() + "=SIZE");
    }
    for (const Port& in : p_.inputs)
      for (Dim d : m_.main().dims(in.value))
        for (std::string& s : dims_.symbols_of(d)) known.insert(std::move(s));
    std::map<std::string, std::string> unknown, unbounded;  // by symbol, a node that needs it
    auto use = [&](Dim d, const Command& s) {
      if (d.is_static()) return;
      for (const std::string& name : dims_.symbols_of(d)) {
        if (extents.contains(name)) continue;
        used.insert(name);
        if (!known.contains(name))
          unknown.try_emplace(name, s.node.valid() ? where(m_.graph(s.graph), s.node) : std::string("the outputs"));
      }
    };
    const auto reserve = [&](Dim d, const Command& s) {
      use(d, s);
      if (d.is_static()) return;
      for (const std::string& name : dims_.symbols_of(d))
        if (extents.contains(name))
          unbounded.try_emplace(name, s.node.valid() ? where(m_.graph(s.graph), s.node) : std::string());
    };
    for (const GraphProgram& g : p_.graphs)
      for (const auto* steps : {&g.load, &g.run})
        for (const Command& s : *steps) {
          for (Dim d : s.sizes) use(d, s);
          for (const BufferSlice& p : s.places) {
            use(p.offset, s);  // of a view; any offset within the reserved buffer
            for (Dim d : {p.slot, p.slot_bytes}) reserve(d, s);
          }
          reserve(s.body_arena, s);
          reserve(s.held, s);
        }
    for (const Port& out : p_.outputs)
      for (Dim d : m_.main().dims(out.value)) use(d, {});
    for (Dim d : {p_.arena_bytes, p_.held_bytes, p_.scratch_bytes}) reserve(d, {});
    for (const auto& [name, node] : unbounded)
      diagnostics_.error(
          Code::UnsupportedOnTarget,
          "the " + row_.name + " target: nothing bounds the memory of what depends on " + ForeignText(name).quoted(), node,
          "give a bound with --bound " + ForeignText(name).shell_word() + "=SIZE, or bind the sizes of the inputs");
    for (const auto& [name, node] : unknown)
      diagnostics_.error(Code::UnsupportedOnTarget,
                         "the " + row_.name + " target needs sizes that follow from those of the inputs; " +
                             ForeignText(name).quoted() + " does not",
                         node);
    used.insert(known.begin(), known.end());
    for (const std::string& s : used) p_.symbols.emplace_back(s);
  }

  const LirModule& lir_;
  Module& m_;
  DimTable& dims_;
  LoweringCache& lowerings_;
  const CapabilityRow& row_;
  std::optional<Stages> stages_;             // of the main graph
  std::map<int64_t, uint32_t> read_packed_;  // by offset: stages
  Diagnostics& diagnostics_;
  SymbolRanges ranges_;  // of extents
  ControlFlowDims extents_;
  Package p_;
  std::vector<Dim> packed_base_;
  std::vector<std::vector<const PrepackedWeight*>> prepacked_of_;  // by node of the current graph
  std::vector<std::vector<uint32_t>> weight_of_;                   // by graph, by value
  std::vector<Dim> offset_;                                        // by value of the current graph: its offset in its buffer
  std::map<std::pair<const void*, std::vector<uint32_t>>, Lowered> lowered_;  // by lowering and overwritten operands
  std::map<std::string, uint32_t> by_text_;
  std::map<std::string, uint32_t> counts_;
  std::vector<size_t> users_;
  Dim packed_{0}, load_scratch_{0}, scratch_{0}, held_{0};
};

}  // namespace

std::optional<Package> make_package(const LirModule& lir, std::string name, LoweringCache& lowerings, Diagnostics& diagnostics) {
  return Packager(lir, std::move(name), lowerings, diagnostics).run();
}

std::optional<Package> make_package(const LirModule& lir, std::string name, const CapabilityRow& row, Diagnostics& diagnostics) {
  LoweringCache lowerings(row);
  return make_package(lir, std::move(name), lowerings, diagnostics);
}

}  // namespace rlxc::codegen
