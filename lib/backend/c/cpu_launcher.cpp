#include "backend/c/cpu_launcher.h"

#include <algorithm>
#include <set>
#include <unordered_map>
#include <utility>

#include "analysis/data_dependent_dims.h"
#include "ir/dim_postfix.h"
#include "support/saturate.h"
#include "support/text.h"

namespace rlxc {
namespace {

using codegen::BufferSlice;
using codegen::Command;
using codegen::Package;

constexpr size_t kStepsInFunction = 64;

class Launcher {
 public:
  Launcher(const Package& p, const CpuPackageOptions& o, CSizes* sizes)
      : p_(p), m_(*p.lir->module), guard_(o.guard), laps_(o.laps), limited_(o.max_operations > 0), n_(*sizes) {}

  std::string run() {
    for (size_t g = 0; g < p_.graphs.size(); ++g) declare(g);
    out_ += "\n";
    functions("load", all_loads(), true);
    for (size_t g = 0; g < p_.graphs.size(); ++g) {
      std::vector<const Command*> steps;
      for (const Command& s : p_.graphs[g].run) steps.push_back(&s);
      functions("graph_" + std::to_string(g), steps, false);
    }
    return std::move(out_);
  }

 private:
  static constexpr std::string_view kParameters = "unsigned char* a, const void* const* in, void* const* out";
  std::string context() const { return p_.name + "_ctx* c"; }
  void declare(size_t g) {
    out_ += "static int graph_" + std::to_string(g) + "(" + context() + ", " + std::string(kParameters) + ");\n";
  }

  std::vector<const Command*> all_loads() const {
    std::vector<const Command*> steps;
    for (const codegen::GraphProgram& g : p_.graphs)
      for (const Command& s : g.load) steps.push_back(&s);
    return steps;
  }

  void functions(const std::string& name, const std::vector<const Command*>& steps, bool load) {
    const std::string parameters = load ? context() + ", unsigned char* scratch" : context() + ", " + std::string(kParameters);
    const std::string arguments = load ? "c, scratch" : "c, a, in, out";
    std::string calls;
    for (size_t first = 0; first < steps.size(); first += kStepsInFunction) {
      const std::string part = name + "_" + std::to_string(first / kStepsInFunction);
      body_.clear();
      for (size_t i = first; i < std::min(first + kStepsInFunction, steps.size()); ++i) {
        const bool timed = laps_ && !load && !steps[i]->is_control();
        enter_stages(i > first ? steps[i - 1]->stages : Stages::kAll, steps[i]->stages);
        if (guard_ && !load) guard(*steps[i]);
        if (timed) line("rlxc_lap(-1);");
        step(*steps[i]);
        for (const BufferSlice& p : steps[i]->places)
          if (load && p.memory == BufferSlice::Memory::Weights) line("release(c, " + std::to_string(p.index) + ");");
        if (timed) line("rlxc_lap(" + std::to_string(lap_) + ");");
        lap_ += !load;
      }
      enter_stages(steps[std::min(first + kStepsInFunction, steps.size()) - 1]->stages, Stages::kAll);
      out_ += "static int " + part + "(" + parameters + ") {\n";
      if (load) out_ += "  (void)scratch;\n";
      else out_ += "  unsigned char* scratch = c->scratch;\n  (void)scratch, (void)a, (void)in, (void)out;\n";
      out_ += "  const int64_t* n = c->n;\n  (void)n;\n";
      if (!load && codegen::extent_cells(p_) > 0)
        out_ += "  int64_t* x = c->x;\n  int bad = 0;  // sizes are within bounds that were checked\n  (void)x, (void)bad;\n";
      out_ += body_ + "  return 0;\n}\n\n";
      calls += "  if ((status = " + part + "(" + arguments + "))) return status;\n";
    }
    out_ += "static int " + name + "(" + parameters + ") {\n  int status = 0;\n";
    out_ += load ? "  (void)c, (void)scratch;\n" : "  (void)c, (void)a, (void)in, (void)out;\n";
    out_ += calls + (guard_ && !load ? "  rlxc_open_all(c);\n" : "") + "  return status;\n}\n\n";
  }

  // Commands of some stages of a pipeline are in a block.
  void enter_stages(uint32_t before, uint32_t now) {
    if (before == now) return;
    if (before != Stages::kAll) line("}");
    if (now != Stages::kAll) line("if (computes(" + std::to_string(now) + "u)) {");
  }

  std::string plus(const std::string& base, Dim offset) { return offset == Dim(0) ? base : base + " + " + n_(offset); }

  std::string pointer(const BufferSlice& p) {
    const std::string i = std::to_string(p.index);
    switch (p.memory) {
      case BufferSlice::Memory::Weights: return "W(" + i + ", " + n_(p.offset) + ")";
      case BufferSlice::Memory::Packed: return "P(" + n_(p.offset) + ")";
      case BufferSlice::Memory::Arena: return "A(" + n_(p.offset) + ")";
      case BufferSlice::Memory::Scratch: return "S(" + n_(p.offset) + ")";
      case BufferSlice::Memory::Input: return "IN(" + i + ", " + n_(p.offset) + ")";
      case BufferSlice::Memory::Output: return "OUT(" + i + ", " + n_(p.offset) + ")";
      case BufferSlice::Memory::Extent: return "&x[" + i + "]";
    }
    return "0";
  }

  // A kernel argument. Buffers of zero bytes are null: `restrict` pointers must not be equal.
  std::string argument(const BufferSlice& p) {
    return p.memory == BufferSlice::Memory::Arena && p.slot_bytes == Dim(0) ? "0" : pointer(p);
  }

  void line(const std::string& s) { body_ += "  " + s + "\n"; }

  // Poisons all but the command's buffers. Bodies of control flow do this themselves.
  void guard(const Command& s) {
    if (s.is_control()) return line("rlxc_open_all(c);");
    line("rlxc_close_all(c);");
    for (const BufferSlice& p : s.places) {
      const bool caller = p.memory == BufferSlice::Memory::Input || p.memory == BufferSlice::Memory::Output;
      if (caller ? s.graph.raw == 0 : p.memory != BufferSlice::Memory::Arena && p.memory != BufferSlice::Memory::Scratch)
        continue;
      line("rlxc_open(" + pointer({p.memory, p.index, p.slot}) + ", " + n_(p.slot_bytes) + ");");
    }
  }

  void step(const Command& s) {
    if (s.node.valid() && s.node != last_) line("// " + m_.graph(s.graph).label(s.node).line());
    last_ = s.node;
    for (size_t i = 0; i < s.equal.size(); i += 2)
      line("if (" + n_(s.equal[i]) + " != " + n_(s.equal[i + 1]) + ") return RLXC_DYNAMIC_SIZE;");
    switch (s.kind) {
      case Command::Kind::Launch: {
        std::string call = p_.kernels[s.kernel].name + "(";
        for (size_t i = 0; i < s.places.size(); ++i) call += (i ? ", " : "") + argument(s.places[i]);
        for (Dim d : s.sizes) call += (call.back() == '(' ? "" : ", ") + n_(d);
        line(call + ");");
        for (const BufferSlice& p : s.places)
          if (p.memory == BufferSlice::Memory::Extent && p.index < p_.lir->extents.size()) check_extent(p.index);
        return;
      }
      case Command::Kind::Copy:
        return line("memcpy(" + pointer(s.places[0]) + ", " + pointer(s.places[1]) + ", (size_t)" + n_(s.sizes[0]) + ");");
      case Command::Kind::Collective: return collective(s);
      case Command::Kind::If: return if_step(s);
      case Command::Kind::Loop: return loop(s);
      case Command::Kind::Scan: return scan(s);
    }
  }

  // Exchanges data with other devices by the functions of the link.
  void collective(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const OpKind op = g.op(s.node);
    const auto& a = g.attrs<CollectiveAttrs>(s.node);
    const std::string group = std::to_string(s.group), position = "position_in(" + group + ")", to = pointer(s.places.back());
    if (op == OpKind::DeviceIndex) return line("*(int64_t*)" + to + " = " + position + ";");
    const std::string from = pointer(s.places[0]), devices = std::to_string(p_.mesh->group_size(p_.groups[s.group]));
    if (op == OpKind::DeviceSlice)
      return line("take_runs(" + to + ", " + from + ", " + n_(s.sizes[0]) + ", " + n_(s.sizes[1]) + ", " + n_(s.sizes[2]) + ", " +
                  position + ");");
    const DType t = g.dtype(g.operand(s.node, 0));
    const std::string count = n_(s.sizes[0]), bytes = count + " * " + std::to_string(std::max(bits(t), 8) / 8);
    const std::string pair = from + ", " + to + ", ", call = std::string(op == OpKind::CollectivePermute ? "permute" : name(op)) +
                                                             "(kLink->self, " + group + ", ";
    const std::string numbers = ", \"" + std::string(name(t)) + "\", \"" +
                                (a.op == ReduceOp::Max   ? "max"
                                 : a.op == ReduceOp::Min ? "min"
                                                         : "sum") +
                                "\"";
    std::string arguments;
    if (op == OpKind::AllGather && computed_in_result(g, s.node))
      return line("if (!kLink || gather_from_end(" + group + ", " + to + ", " + count + ", " + n_(s.sizes[1]) + ", " + devices +
                  ")) return RLXC_LINK;");
    if (op == OpKind::AllReduce) arguments = pair + count + numbers;
    else if (op == OpKind::ReduceScatter) arguments = pair + count + " / " + devices + numbers;
    else if (op == OpKind::AllGather) arguments = pair + count + ", " + n_(s.sizes[1]);
    else if (op == OpKind::AllToAll) arguments = pair + bytes + " / " + devices;
    else {
      std::vector<std::string> sources;
      for (int64_t source : a.source) sources.push_back(std::to_string(source));
      arguments = from + ", (const int[]){" + join(sources, ", ") + "}, " + to + ", " + bytes;
    }
    line("if (!kLink || kLink->" + call + arguments + ")) return RLXC_LINK;");
  }

  // Whether the operand is a part of the result.
  bool computed_in_result(const Graph& g, NodeId n) const {
    const std::vector<Slot>& slots = p_.lir->plans[g.id().raw].slot;
    const Slot &part = slots[g.operand(n, 0).raw], &whole = slots[g.result(n).raw];
    return part.part && part.region == whole.region && part.index == whole.index && part.root == whole.root;
  }

  // Memory was planned for the bound.
  void check_extent(size_t i, const std::string& indent = {}) {
    if (const auto& bound = p_.lir->extents[i].bound)
      line(indent + "if (" + at("x", i) + " < 0 || " + at("x", i) + " > " + n_(*bound) + ") return RLXC_DYNAMIC_SIZE;");
    store_open_sizes(indent);
  }

  void store_open_sizes(const std::string& indent) {
    if (n_.has_open_sizes()) line(indent + "open_sizes(c);");
  }

  std::string list(const std::string& type, const std::string& name, const std::vector<std::string>& items) {
    return type + " " + name + "[] = {" + (items.empty() ? "0" : join(items, ", ")) + "};";
  }
  std::string call_body(GraphId g, const Command& s) {
    return "graph_" + std::to_string(g.raw) + "(c, " + plus("a", s.body_arena) + ", bi, bo)";
  }
  std::string bytes(const Graph& g, ValueId v) { return n_(dense_bytes(m_.dims, g.type(v))); }
  static std::string at(std::string_view array, size_t i) { return std::string(array) + "[" + std::to_string(i) + "]"; }

  void if_step(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const Graph &then_body = m_.graph(g.bodies(s.node)[0]), &else_body = m_.graph(g.bodies(s.node)[1]);
    const size_t operands = s.present.size();
    std::vector<std::string> in, out;
    for (size_t i = 1; i < operands; ++i) in.push_back(s.present[i] ? pointer(s.places[i]) : "0");
    for (size_t r = operands; r < s.places.size(); ++r) out.push_back(pointer(s.places[r]));
    line("{");
    line("  " + list("const void*", "bi", in));
    line("  " + list("void*", "bo", out));
    line("  const int taken = *(const uint8_t*)" + pointer(s.places[0]) + ";");
    for (const bool taken : {true, false}) {
      const std::vector<Dim>& equal = s.branch_equal[taken ? 0 : 1];
      for (size_t i = 0; i < equal.size(); i += 2)
        line(std::string("  if (") + (taken ? "taken" : "!taken") + " && " + n_(equal[i]) + " != " + n_(equal[i + 1]) +
             ") return RLXC_NO_SIZES;");
    }
    line("  const int failed = taken ? " + call_body(then_body.id(), s) + " : " + call_body(else_body.id(), s) + ";");
    line("  if (failed) return failed;");
    for (const codegen::ControlFlowDim& e : s.extents)
      line("  " + at("x", e.extent) + " = taken ? " + n_(e.size[0]) + " : " + n_(e.size[1]) + ";");
    if (!s.extents.empty()) store_open_sizes("  ");
    line("}");
  }

  // Returns the double buffer of each output of a loop body.
  std::vector<std::string> carry_buffers(const Command& s, const Graph& body) {
    std::vector<std::string> places;
    DimTable& t = m_.dims;
    Dim at = s.held;
    for (ValueId v : body.outputs()) {
      const Dim size = t.mul(t.ceil_div(p_.lir->plans[body.id().raw].slot[v.raw].size, Dim(64)), Dim(64));
      for (int copy = 0; copy < 2; ++copy) {
        places.push_back("H(" + n_(at) + ")");
        at = t.add(at, size);
      }
    }
    return places;
  }

  // Stacked results: iteration `i` writes row `row`. If extents of the body determine the row's shape, the row is written to a
  // buffer and copied.
  struct Rows {
    const codegen::Stacked& stacked;
    size_t output;                // output number of the body
    std::string to, held, bytes;  // of a row
    std::string row;
  };
  void before_loop(const std::vector<Rows>& list) {
    for (const Rows& k : list)
      for (size_t e : k.stacked.changing)
        line("  int64_t rows_" + std::to_string(k.output) + "_" + std::to_string(e) + " = " + at("x", e) + " = 0;");
  }
  void before_body(const std::vector<Rows>& list) {
    for (const Rows& k : list)
      line("    " + at("bo", k.output) + " = " +
           (k.stacked.changing.empty() ? "(unsigned char*)" + k.to + " + " + k.row + " * " + k.bytes : k.held) + ";");
  }
  void after_body(const std::vector<Rows>& list) {
    for (const Rows& k : list) {
      for (size_t e : k.stacked.changing) {
        const std::string seen = "rows_" + std::to_string(k.output) + "_" + std::to_string(e);
        line("    if (i > 0 && " + seen + " != " + at("x", e) + ") return RLXC_DYNAMIC_SIZE;");
        line("    " + seen + " = " + at("x", e) + ";");
      }
      if (!k.stacked.changing.empty())
        line("    memcpy((unsigned char*)" + k.to + " + " + k.row + " * " + k.bytes + ", " + k.held + ", (size_t)" + k.bytes +
             ");");
    }
  }

  // Emits the cost of an iteration: launches, copies, and bytes written, if sizes are static.
  void spend(const Command& s, const Graph& body) {
    if (!limited_) return;
    constexpr double kStep = 100;  // bytes that take as long to write as a launch
    double operations = kStep * static_cast<double>(1 + p_.graphs[body.id().raw].run.size());
    for (NodeId n : body.nodes())
      for (size_t r = 0; r < body.result_count(n) && !has_trait(body.op(n), kLeaf); ++r)
        if (const auto size = byte_size(body.type(body.result(n, r)))) operations += static_cast<double>(*size);
    line("    if (rlxc_spend(" + std::to_string(saturating_cast<int64_t>(operations)) + ", " +
         m_.graph(s.graph).label(s.node).c_string() + ")) return " + std::to_string(kLimitError) + ";");
  }

  void loop(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const Graph& body = m_.graph(g.bodies(s.node)[0]);
    const auto carries = static_cast<size_t>(g.attrs<LoopAttrs>(s.node).carries);
    const size_t operands = s.present.size(), results = s.places.size() - operands;
    const auto held = carry_buffers(s, body);
    std::vector<std::string> in = {"&i", "&go"}, out = {"&next"};
    for (size_t k = 2; k < operands; ++k) in.push_back(s.present[k] ? pointer(s.places[k]) : "0");
    for (size_t k = 0; k < results; ++k) out.push_back("0");
    std::vector<Rows> stacks;
    for (size_t k = 0; k < s.stacked.size(); ++k) {
      const size_t output = 1 + carries + k;
      stacks.push_back({s.stacked[k], output, pointer(s.places[operands + carries + k]), held[2 * output],
                        bytes(body, body.outputs()[output]), "i"});
    }
    line("{");
    line("  const int64_t trips = " + (s.present[0] ? "*(const int64_t*)" + pointer(s.places[0]) : std::string("INT64_MAX")) +
         ";");
    line("  int64_t i = 0;");
    line("  uint8_t go = " + (s.present[1] ? "*(const uint8_t*)" + pointer(s.places[1]) : std::string("1")) + ", next = go;");
    line("  " + list("const void*", "bi", in));
    line("  " + list("void*", "bo", out));
    before_loop(stacks);
    for (const codegen::ControlFlowDim& e : s.extents) {
      line("  " + at("x", e.extent) + " = " + n_(e.size[0]) + ";");
      check_extent(e.extent, "  ");
    }
    line("  for (; i < trips && go; ++i) {");
    spend(s, body);
    for (size_t k = 0; k < carries; ++k)
      line("    " + at("bo", k + 1) + " = i % 2 ? " + held[2 * (k + 1) + 1] + " : " + held[2 * (k + 1)] + ";");
    for (const codegen::Stacked& k : s.stacked) line("    if (i >= " + n_(k.rows) + ") return RLXC_DYNAMIC_SIZE;");
    before_body(stacks);
    line("    const int failed = " + call_body(body.id(), s) + ";");
    line("    if (failed) return failed;");
    line("    go = next;");
    after_body(stacks);
    for (size_t k = 0; k < carries; ++k) line("    " + at("bi", k + 2) + " = " + at("bo", k + 1) + ";");
    std::set<size_t> stated;  // several carried values may have the same dim
    for (const codegen::ControlFlowDim& e : s.extents) {
      const std::string next = "next_" + std::to_string(e.extent);
      line(stated.insert(e.extent).second ? "    const int64_t " + next + " = " + n_(e.size[1]) + ";"
                                          : "    if (" + next + " != " + n_(e.size[1]) + ") return RLXC_DYNAMIC_SIZE;");
    }
    for (size_t e : stated) {
      line("    " + at("x", e) + " = next_" + std::to_string(e) + ";");
      check_extent(e, "    ");
    }
    line("  }");
    for (const codegen::Stacked& k : s.stacked)
      line(k.extent ? "  " + at("x", *k.extent) + " = i;" : "  if (i != " + n_(k.rows) + ") return RLXC_DYNAMIC_SIZE;");
    if (std::ranges::any_of(s.stacked, [](const codegen::Stacked& k) { return k.extent.has_value(); })) store_open_sizes("  ");
    for (size_t k = 0; k < carries; ++k)
      line("  memcpy(" + pointer(s.places[operands + k]) + ", " + at("bi", k + 2) + ", (size_t)" + bytes(g, g.result(s.node, k)) +
           ");");
    line("}");
  }

  void scan(const Command& s) {
    const Graph& g = m_.graph(s.graph);
    const Graph& body = m_.graph(g.bodies(s.node)[0]);
    const auto& a = g.attrs<ScanAttrs>(s.node);
    const auto states = static_cast<size_t>(a.states), inputs = static_cast<size_t>(a.scan_inputs), operands = s.present.size();
    const size_t results = s.places.size() - operands;
    const auto held = carry_buffers(s, body);
    const std::string length = n_(g.dims(g.operand(s.node, states))[0]);
    const auto row = [&](const std::vector<int64_t>& reverse, size_t k) {
      return k < reverse.size() && reverse[k] != 0 ? "(" + length + " - 1 - i)" : std::string("i");
    };
    std::vector<std::string> in, out;
    for (size_t k = 0; k < operands; ++k) in.push_back(s.present[k] ? pointer(s.places[k]) : "0");
    for (size_t k = 0; k < results; ++k) out.push_back("0");
    std::vector<Rows> stacks;
    for (size_t k = states; k < results; ++k)
      stacks.push_back({s.stacked[k - states], k, pointer(s.places[operands + k]), held[2 * k], bytes(body, body.outputs()[k]),
                        row(a.output_reverse, k - states)});
    line("{");
    line("  " + list("const void*", "bi", in));
    line("  " + list("void*", "bo", out));
    before_loop(stacks);
    line("  for (int64_t i = 0; i < " + length + "; ++i) {");
    spend(s, body);
    for (size_t k = 0; k < states; ++k) line("    " + at("bo", k) + " = i % 2 ? " + held[2 * k + 1] + " : " + held[2 * k] + ";");
    for (size_t k = 0; k < inputs; ++k)
      line("    " + at("bi", states + k) + " = (const unsigned char*)" + pointer(s.places[states + k]) + " + " +
           row(a.input_reverse, k) + " * " + bytes(body, body.result(body.inputs()[states + k])) + ";");
    before_body(stacks);
    line("    const int failed = " + call_body(body.id(), s) + ";");
    line("    if (failed) return failed;");
    after_body(stacks);
    for (size_t k = 0; k < states; ++k) line("    " + at("bi", k) + " = " + at("bo", k) + ";");
    line("  }");
    for (size_t k = 0; k < states; ++k)
      line("  memcpy(" + pointer(s.places[operands + k]) + ", " + at("bi", k) + ", (size_t)" + bytes(g, g.result(s.node, k)) +
           ");");
    line("}");
  }

  const Package& p_;
  Module& m_;
  const bool guard_, laps_, limited_;
  size_t lap_ = 0;
  CSizes& n_;
  std::string out_, body_;
  NodeId last_;
};

}  // namespace

CSizes::CSizes(DimTable& dims, std::vector<ForeignText> symbols, const std::vector<DataDependentDim>& extents)
    : dims_(dims), symbols_(std::move(symbols)) {
  for (size_t i = 0; i < extents.size(); ++i) extents_.emplace(extents[i].symbol.bytes(), "x[" + std::to_string(i) + "]");
  for (size_t i = 0; i < dims.named_sizes() && !has_open_; ++i) has_open_ = uses_extents(dims.named_size(i));
}

bool CSizes::uses_extents(Dim d) const {
  if (extents_.empty()) return false;
  const auto used = dims_.symbols_of(d);
  return std::ranges::any_of(used, [&](const std::string& s) { return extents_.contains(s); });
}

std::string CSizes::open(Dim d) {
  const auto [it, is_new] = open_index_.try_emplace(d.raw(), open_.size());
  if (is_new) open_.push_back(d);
  return "c->open[" + std::to_string(it->second) + "]";
}

std::string CSizes::of_extents(const std::vector<std::string>& postfix) {
  return expression(
      postfix,
      [&](const std::string& s) {
        const auto it = extents_.find(s);
        return it != extents_.end() ? it->second : (*this)(dims_.symbol(s));
      },
      [&](Dim d) { return uses_extents(d) ? open(d) : (*this)(d); });
}

std::string CSizes::operator()(Dim d) {
  if (const auto v = dims_.constant_value(d)) return std::to_string(*v);
  if (uses_extents(d)) return "(" + of_extents(dim_postfix(dims_, d)) + ")";
  const auto [it, is_new] = index_.try_emplace(d.raw(), entries_.size());
  if (is_new) entries_.push_back(d);
  return "n[" + std::to_string(it->second) + "]";
}

std::string CSizes::open_sizes(const std::string& context) {
  if (!has_open_) return {};
  std::vector<std::pair<Dim, std::string>> values;
  for (size_t i : dims_.named_sizes_of(open_)) {
    const Dim d = dims_.named_size(i);
    if (uses_extents(d)) values.emplace_back(d, of_extents(definition_postfix(dims_, d)));
  }
  std::string out = "static void open_sizes(" + context + "* c) {\n  const int64_t *n = c->n, *x = c->x;\n  int bad = 0;\n";
  for (const auto& [d, value] : values) out += "  " + open(d) + " = " + value + ";  // " + dims_.text(d) + "\n";
  return out + "  (void)c, (void)n, (void)x, (void)bad;\n}\n\n";
}

// Calls the checked functions rlxc_*. With `parts`, what repeats in long expressions is computed once: a compiler takes minutes
// for thousands of nested calls.
std::string CSizes::expression(const std::vector<std::string>& postfix, const SymbolText& symbol, const NamedText& named,
                               Parts* parts) const {
  constexpr size_t kLong = 200;
  std::vector<std::string> stack;
  for (const std::string& item : postfix) {
    if (item[0] == '$') {
      stack.push_back(symbol(item.substr(1)));
    } else if (item[0] == '#') {
      stack.push_back(named(*dims_.size_named(item)));
    } else if (item[0] == '-' || (item[0] >= '0' && item[0] <= '9')) {
      stack.push_back(item);
    } else {
      const std::string b = std::move(stack.back());
      stack.pop_back();
      std::string& text = stack.back();
      text = "rlxc_" + (item == "+" ? "add" : item == "*" ? "mul" : item) + "(&bad, " + text + ", " + b + ")";
      if (!parts || text.size() < kLong) continue;
      const auto [it, is_new] = parts->names.try_emplace(text, "part_" + std::to_string(parts->names.size()));
      if (is_new) parts->statements += "  const int64_t " + it->second + " = " + text + ";\n";
      text = it->second;
    }
  }
  return stack.back();
}

std::string CSizes::table() const {
  std::string out;
  std::unordered_map<std::string, std::string> place;
  for (const ForeignText& s : symbols_) place.emplace(s.bytes(), "s[" + std::to_string(place.size()) + "]");
  const auto given = [&](const std::string& name) { return place.at(name); };
  const auto variable = [&](Dim d) { return "size_" + dims_.text(d).substr(1); };
  Parts parts;
  const auto value_of = [&](const std::vector<std::string>& postfix) {
    const std::string value = expression(postfix, given, variable, &parts);
    out += std::exchange(parts.statements, {});
    return value;
  };
  for (size_t i : dims_.named_sizes_of(entries_)) {
    const std::string value = value_of(definition_postfix(dims_, dims_.named_size(i)));
    out += "  const int64_t " + variable(dims_.named_size(i)) + " = " + value + ";  // " + dims_.definition(i) + "\n";
  }
  for (size_t i = 0; i < entries_.size(); ++i) {
    const std::string value = value_of(dim_postfix(dims_, entries_[i]));
    out += "  n[" + std::to_string(i) + "] = " + value + ";  // " + dims_.text(entries_[i]) + "\n";
  }
  return out;
}

std::string launcher_functions(const Package& p, const CpuPackageOptions& o, CSizes* sizes) {
  return Launcher(p, o, sizes).run();
}

}  // namespace rlxc
