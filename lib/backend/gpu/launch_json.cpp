#include "backend/gpu/launch_json.h"

#include <algorithm>
#include <map>

#include "analysis/data_dependent_dims.h"
#include "backend/c/mesh_link.h"
#include "backend/weight_files.h"
#include "codegen/equal_sizes.h"
#include "ir/dim_postfix.h"
#include "support/json_writer.h"
#include "support/number.h"
#include "support/schemas.h"

namespace rlxc {
namespace {

using codegen::BufferSlice;
using codegen::Command;
using codegen::Package;

// Appends an expression over the symbols of a kernel in postfix form.
void postfix(const kernel::Kernel& k, kernel::ExprId id, std::vector<std::string>* out) {
  using kernel::ExprOp;
  const kernel::ExprNode& e = k.expr(id);
  const auto symbol = [&] {
    for (size_t i = 0; i < k.symbols.size(); ++i)
      if (k.symbols[i].raw == static_cast<uint32_t>(e.payload)) return i;
    return size_t{0};
  };
  constexpr std::pair<ExprOp, std::string_view> kOperators[] = {
      {ExprOp::Add, "+"},   {ExprOp::Sub, "-"},   {ExprOp::Mul, "*"},  {ExprOp::Div, "floordiv"},
      {ExprOp::Mod, "mod"}, {ExprOp::Min, "min"}, {ExprOp::Max, "max"}};
  if (e.op == ExprOp::Const) return out->push_back(std::to_string(e.payload));
  if (e.op == ExprOp::Var) return out->push_back("$" + std::to_string(symbol()));
  for (int a = 0; a < kernel::operand_count(e.op); ++a) postfix(k, e.args[static_cast<size_t>(a)], out);
  if (e.op == ExprOp::Cast) return;  // integer casts; sizes fit
  for (const auto& [op, text] : kOperators)
    if (op == e.op) {
      out->emplace_back(text);
      return void();
    }
  out->emplace_back(kernel::name(e.op));  // not an operator of grids: hosts reject it
}

class Writer {
 public:
  Writer(const Package& p, const CpuPackageOptions& options, JsonWriter& j)
      : p_(p), options_(options), m_(*p.lir->module), dims_(m_.dims), j_(j) {}

  void run(std::string_view target, std::span<const std::string> files, std::span<const std::string> f16_files) {
    j_.begin_object();
    j_.key("$schema").string("launch.schema.json").key("format").string("rlxc-launch").key("format_version").string("2.2");
    j_.key("generator").string("rlxc " + std::string(version()));
    j_.key("target").string(target).key("name").string(p_.name);
    j_.key("symbols").begin_array(JsonLayout::Line);
    for (const ForeignText& s : p_.symbols) j_.string(s);
    j_.end_array();
    j_.key("ranges").begin_array(JsonLayout::Line);
    for (const ForeignText& s : p_.symbols)
      if (const auto range = p_.lir->ranges.find(s.bytes()); range != p_.lir->ranges.end()) {
        j_.begin_array(JsonLayout::Line).string(s).integer(range->second.low->size()).integer(range->second.high->size());
        j_.end_array();
      }
    j_.end_array();
    j_.key("memory").begin_object(JsonLayout::Line);
    size("packed", p_.packed_bytes);
    size("load_scratch", p_.load_scratch_bytes);
    size("arena", p_.arena_bytes);
    size("held", most(p_.held_bytes));
    size("scratch", most(p_.scratch_bytes));
    j_.key("cells").unsigned_integer(codegen::cell_bytes(p_));
    j_.end_object();
    j_.key("max_binding").unsigned_integer(p_.lir->max_binding).key("cuts").begin_array(JsonLayout::Line);
    for (uint64_t cut : p_.cuts) j_.unsigned_integer(cut);
    j_.end_array();
    sizes("equal", equal_sizes(p_));
    j_.key("bad_indices");
    p_.lir->check_indices ? (void)j_.unsigned_integer(8 * p_.lir->extents.size()) : (void)j_.null();
    extents();
    ports("inputs", p_.inputs, p_.lir->index_inputs);
    ports("outputs", p_.outputs, {});
    j_.key("states").begin_array(JsonLayout::Line);
    for (const State& s : p_.lir->states)
      j_.begin_array(JsonLayout::Line).unsigned_integer(s.input).unsigned_integer(s.output).end_array();
    j_.end_array();
    mesh();
    weights();
    kernels(files, f16_files);
    j_.key("load").begin_array();
    for (const codegen::GraphProgram& g : p_.graphs)
      for (const Command& s : g.load) step(s);
    j_.end_array();
    j_.key("graphs").begin_array();
    for (const codegen::GraphProgram& g : p_.graphs) {
      j_.begin_array();
      for (const Command& s : g.run) step(s);
      j_.end_array();
    }
    j_.end_array();
    j_.key("sizes").begin_object();
    std::vector<Dim> used;
    for (const auto& [text, dim] : sizes_) used.push_back(dim);
    for (size_t i : dims_.named_sizes_of(used)) {
      j_.key(dims_.text(dims_.named_size(i)));
      expression(definition_postfix(dims_, dims_.named_size(i)));
    }
    for (const auto& [text, dim] : sizes_) {
      if (text[0] == '#') continue;
      j_.key(text);
      expression(dim_postfix(dims_, dim));
    }
    j_.end_object();
    j_.end_object();
    j_.finish();
  }

 private:
  void expression(const std::vector<std::string>& items) {
    j_.begin_array(JsonLayout::Line);
    for (const std::string& s : items) {
      const bool number = (s[0] >= '0' && s[0] <= '9') || (s[0] == '-' && s.size() > 1);
      number ? j_.raw(s) : j_.string(s);
    }
    j_.end_array();
  }

  void size(Dim d) {
    if (const auto v = dims_.constant_value(d)) {
      j_.integer(*v);
      return;
    }
    std::string text = dims_.text(d);
    j_.string(text);
    sizes_.emplace(std::move(text), d);
  }
  void size(std::string_view key, Dim d) {
    j_.key(key);
    size(d);
  }
  void sizes(std::string_view key, const std::vector<Dim>& list) {
    j_.key(key).begin_array(JsonLayout::Line);
    for (Dim d : list) size(d);
    j_.end_array();
  }

  Dim most(Dim d) const { return largest(dims_, d, p_.lir->ranges); }
  Dim room(const Graph& g, ValueId v) const { return p_.lir->plans[g.id().raw].slot[v.raw].size; }
  Dim bytes(const Graph& g, ValueId v) const { return dense_bytes(dims_, g.type(v)); }

  void extents() {
    j_.key("extents").begin_array();
    for (const DataDependentDim& e : p_.lir->extents) {
      j_.begin_object(JsonLayout::Line).key("name").string(e.symbol);
      size("bound", *e.bound);
      j_.end_object();
    }
    j_.end_array();
  }
  void control_flow_dims(const Command& s) {
    j_.key("extents").begin_array(JsonLayout::Line);
    for (const codegen::ControlFlowDim& e : s.extents) {
      j_.begin_array(JsonLayout::Line).unsigned_integer(e.extent);
      size(e.size[0]);
      size(e.size[1]);
      j_.end_array();
    }
    j_.end_array();
  }
  void stacked(const Command& s) {
    j_.key("stacked").begin_array(JsonLayout::Line);
    for (const codegen::Stacked& k : s.stacked) {
      j_.begin_array(JsonLayout::Line);
      size(k.rows);
      if (k.extent) j_.unsigned_integer(*k.extent);
      else j_.null();
      j_.begin_array(JsonLayout::Line);
      for (uint32_t e : k.changing) j_.unsigned_integer(e);
      j_.end_array().end_array();
    }
    j_.end_array();
  }

  void ports(std::string_view key, const std::vector<codegen::Port>& list, std::span<const IndexInput> indices) {
    j_.key(key).begin_array();
    for (size_t i = 0; i < list.size(); ++i) {
      const codegen::Port& port = list[i];
      const Graph& g = m_.graph(port.graph);
      j_.begin_object(JsonLayout::Line).key("name").string(port.name).key("dtype").string(name(g.dtype(port.value)));
      const auto dims = g.dims(port.value);
      sizes("shape", {dims.begin(), dims.end()});
      size("bytes", bytes(g, port.value));
      size("room", most(room(g, port.value)));
      for (const IndexInput& x : indices)
        if (x.input == i) size("largest", x.largest);
      j_.end_object();
    }
    j_.end_array();
  }

  void weights() {
    const WeightFiles located = locate_weights(p_, options_);
    const std::vector<uint32_t> stages = weight_stages(p_);
    j_.key("weights_file").string(weights_file(p_)).key("weights_header").string(weights_header(p_, options_));
    j_.key("weights").begin_array();
    for (size_t i = 0; i < p_.weights.size(); ++i) {
      j_.begin_object(JsonLayout::Line).key("name").string(p_.weights[i].name).key("dtype").string(name(p_.weights[i].dtype));
      j_.key("file").string(located.files[located.weights[i].file]).key("offset").unsigned_integer(located.weights[i].offset);
      j_.key("stored").unsigned_integer(located.weights[i].stored).key("bytes").unsigned_integer(p_.weights[i].bytes);
      if (const auto& slice = p_.weights[i].slice)
        j_.key("slice")
            .begin_object(JsonLayout::Line)
            .key("group")
            .unsigned_integer(slice->group)
            .key("runs")
            .unsigned_integer(slice->runs)
            .key("run")
            .unsigned_integer(slice->run)
            .key("whole")
            .unsigned_integer(slice->whole)
            .end_object();
      if (!stages.empty()) j_.key("stages").unsigned_integer(stages[i]);
      j_.end_object();
    }
    j_.end_array();
  }

  void kernels(std::span<const std::string> files, std::span<const std::string> f16_files) {
    j_.key("kernels").begin_array();
    for (size_t i = 0; i < p_.kernels.size(); ++i) {
      const kernel::Kernel& k = p_.kernels[i];
      const kernel::Launch launch = kernel::launch_of(k);
      j_.begin_object(JsonLayout::Line).key("name").string(k.name).key("file").string(files[i]);
      if (!f16_files.empty() && !f16_files[i].empty()) j_.key("f16_file").string(f16_files[i]);
      j_.key("grid").begin_array(JsonLayout::Line);
      for (kernel::ExprId e : launch.grid) {
        std::vector<std::string> items;
        e.valid() ? postfix(k, e, &items) : items.push_back("1");
        items.size() == 1 && items[0][0] != '$' ? (void)j_.raw(items[0]) : expression(items);
      }
      j_.end_array().key("group").begin_array(JsonLayout::Line);
      for (kernel::ExprId e : launch.threads) j_.integer(e.valid() ? k.expr(e).payload : 1);
      j_.end_array().key("shared_bytes").unsigned_integer(kernel::shared_bytes(k));
      j_.key("arguments").begin_array(JsonLayout::Line);
      for (size_t b = 0; b < k.argument_count(); ++b) j_.string(name(k.buffers[b].type.dtype));
      j_.end_array().key("separate").begin_array(JsonLayout::Line);
      for (size_t b = 0; b < k.argument_count(); ++b) j_.integer(k.buffers[b].separate);
      j_.end_array().key("bindings").begin_array(JsonLayout::Line);
      for (size_t b = 0; b < k.argument_count(); ++b) {
        j_.begin_array(JsonLayout::Line).integer(k.buffers[b].binding).integer(k.buffers[b].bindings);
        j_.end_array();
      }
      j_.end_array().key("symbols").begin_array(JsonLayout::Line);
      for (kernel::VarId v : k.symbols) j_.string(name(k.var(v).type.dtype));
      j_.end_array().end_object();
    }
    j_.end_array();
  }

  void place(const BufferSlice& p) {
    constexpr std::string_view kNames[] = {"W", "P", "A", "S", "I", "O", "C"};
    const bool numbered = p.memory == BufferSlice::Memory::Weights || p.memory == BufferSlice::Memory::Input ||
                          p.memory == BufferSlice::Memory::Output;
    j_.begin_array(JsonLayout::Line).string(kNames[static_cast<size_t>(p.memory)]);
    if (numbered) j_.unsigned_integer(p.index);
    size(p.offset);
    j_.end_array();
  }
  void places(std::string_view key, const Command& s, size_t begin, size_t end) {
    j_.key(key).begin_array(JsonLayout::Line);
    for (size_t i = begin; i < end; ++i) {
      if (i < s.present.size() && !s.present[i]) j_.null();
      else place(s.places[i]);
    }
    j_.end_array();
  }
  void optional_place(std::string_view key, const Command& s, size_t i) {
    j_.key(key);
    if (s.present[i]) place(s.places[i]);
    else j_.null();
  }
  void flags(std::string_view key, const std::vector<int64_t>& list, size_t n) {
    j_.key(key).begin_array(JsonLayout::Line);
    for (size_t i = 0; i < n; ++i) j_.integer(i < list.size() && list[i] != 0);
    j_.end_array();
  }

  // Writes the two held places of each body output, the final sizes of carried values, and the row sizes of stacked results.
  void held(const Command& s, const Graph& body, size_t first, size_t carries) {
    const Graph& g = m_.graph(s.graph);
    std::vector<Dim> carried, rows;
    for (size_t k = 0; k < carries; ++k) carried.push_back(bytes(g, g.result(s.node, k)));
    for (size_t k = first + carries; k < body.outputs().size(); ++k) rows.push_back(bytes(body, body.outputs()[k]));
    sizes("bytes", carried);
    sizes("row_bytes", rows);
    stacked(s);
    j_.key("held").begin_array(JsonLayout::Line);
    Dim at = s.held;
    for (ValueId v : body.outputs())
      for (int copy = 0; copy < 2; ++copy) {
        j_.begin_array(JsonLayout::Line).string("H");
        size(at);
        j_.end_array();
        at = dims_.add(at, dims_.mul(dims_.ceil_div(room(body, v), Dim(64)), Dim(64)));
      }
    j_.end_array();
  }

  void extents_of_launch(const Command& s) {
    const auto is_extent = [&](const BufferSlice& p) {
      return p.memory == BufferSlice::Memory::Extent && p.index < p_.lir->extents.size();
    };
    if (std::ranges::none_of(s.places, is_extent)) return;
    j_.key("extents").begin_array(JsonLayout::Line);
    for (const BufferSlice& p : s.places)
      if (is_extent(p)) j_.unsigned_integer(p.index);
    j_.end_array();
  }

  // `count` elements of `run` bytes, or for device_slice and all_gather runs of so many bytes.
  void collective(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const OpKind op = g.op(s.node);
    const auto& a = g.attrs<CollectiveAttrs>(s.node);
    j_.key("collective").string(name(op)).key("group").unsigned_integer(s.group);
    j_.key("to");
    place(s.places.back());
    if (s.places.size() < 2) return;
    const DType t = g.dtype(g.operand(s.node, 0));
    j_.key("from");
    place(s.places[0]);
    size("count", s.sizes[0]);
    size("run", s.sizes.size() > 1 ? s.sizes[1] : Dim(std::max(bits(t), 8) / 8));
    if (op == OpKind::DeviceSlice) size("whole", s.sizes[2]);
    if (op == OpKind::AllReduce || op == OpKind::ReduceScatter)
      j_.key("dtype").string(name(t)).key("op").string(a.op == ReduceOp::Max ? "max" : a.op == ReduceOp::Min ? "min" : "sum");
    if (op != OpKind::CollectivePermute) return;
    j_.key("source").begin_array(JsonLayout::Line);
    for (int64_t source : a.source) j_.integer(source);
    j_.end_array();
  }

  // Devices that run the program together.
  void mesh() {
    if (!p_.mesh) return;
    j_.key("mesh").begin_array();
    for (const MeshAxis& a : p_.mesh->axes)
      j_.begin_object(JsonLayout::Line).key("axis").string(a.name).key("size").integer(a.size).end_object();
    j_.end_array().key("groups").begin_array(JsonLayout::Line);
    for (const std::vector<size_t>& along : p_.groups) {
      j_.begin_array(JsonLayout::Line);
      for (size_t axis : along) j_.unsigned_integer(axis);
      j_.end_array();
    }
    j_.end_array();
    if (const auto group = pipeline_group(p_)) j_.key("pipeline").unsigned_integer(*group);
  }

  void step(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const size_t operands = s.present.size(), results = s.places.size() - operands;
    j_.begin_object(JsonLayout::Line);
    switch (s.kind) {
      case Command::Kind::Launch:
        j_.key("kernel").unsigned_integer(s.kernel);
        places("places", s, 0, s.places.size());
        sizes("sizes", s.sizes);
        extents_of_launch(s);
        break;
      case Command::Kind::Copy:
        places("copy", s, 0, 2);
        size("bytes", s.sizes[0]);
        break;
      case Command::Kind::Collective: collective(s); break;
      case Command::Kind::If:
        optional_place("if", s, 0);
        j_.key("then").unsigned_integer(g.bodies(s.node)[0].raw).key("else").unsigned_integer(g.bodies(s.node)[1].raw);
        sizes("then_equal", s.branch_equal[0]);
        sizes("else_equal", s.branch_equal[1]);
        control_flow_dims(s);
        places("in", s, 1, operands);
        places("out", s, operands, s.places.size());
        break;
      case Command::Kind::Loop: {
        const Graph& body = m_.graph(g.bodies(s.node)[0]);
        const auto carries = static_cast<size_t>(g.attrs<LoopAttrs>(s.node).carries);
        j_.key("loop").unsigned_integer(body.id().raw).key("cells").unsigned_integer(codegen::loop_cell(p_, loops_++));
        optional_place("trips", s, 0);
        optional_place("go", s, 1);
        places("in", s, 2, operands);
        places("results", s, operands, s.places.size());
        j_.key("carries").unsigned_integer(carries);
        control_flow_dims(s);
        held(s, body, 1, carries);
        break;
      }
      case Command::Kind::Scan: {
        const Graph& body = m_.graph(g.bodies(s.node)[0]);
        const auto& a = g.attrs<ScanAttrs>(s.node);
        const auto states = static_cast<size_t>(a.states), inputs = static_cast<size_t>(a.scan_inputs);
        j_.key("scan").unsigned_integer(body.id().raw).key("states").unsigned_integer(states);
        places("in", s, 0, operands);
        places("results", s, operands, s.places.size());
        std::vector<Dim> rows;
        for (size_t i = 0; i < inputs; ++i) rows.push_back(bytes(body, body.result(body.inputs()[states + i])));
        sizes("in_bytes", rows);
        flags("in_reverse", a.input_reverse, inputs);
        flags("out_reverse", a.output_reverse, results - states);
        held(s, body, 0, states);
        size("length", g.dims(g.operand(s.node, states))[0]);
        break;
      }
    }
    if (s.stages != Stages::kAll) j_.key("stages").unsigned_integer(s.stages);
    if (s.is_control()) size("arena", s.body_arena);
    if (!s.equal.empty()) sizes("equal", s.equal);
    if (s.node.valid()) j_.key("node").string(g.label(s.node));
    j_.end_object();
  }

  const Package& p_;
  const CpuPackageOptions& options_;
  Module& m_;
  DimTable& dims_;
  JsonWriter& j_;
  std::map<std::string, Dim> sizes_;
  uint64_t loops_ = 0;
};

}  // namespace

void write_launch_json(const Package& p, std::string_view target, std::span<const std::string> kernel_files,
                       const CpuPackageOptions& options, JsonWriter& j, std::span<const std::string> f16_files) {
  Writer(p, options, j).run(target, kernel_files, f16_files);
}

}  // namespace rlxc
