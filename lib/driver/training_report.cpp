#include "driver/training_report.h"

#include <algorithm>
#include <set>

#include "codegen/package.h"
#include "report/module_terms.h"
#include "support/hash.h"

namespace rlxc {
namespace {

// Nodes that the loss, which is the first output, depends on: the forward half.
std::vector<bool> forward_nodes(const Graph& g) {
  std::vector<bool> forward(g.node_capacity());
  std::vector<NodeId> stack{g.def(g.outputs()[0])};
  while (!stack.empty()) {
    const NodeId n = stack.back();
    stack.pop_back();
    if (forward[n.raw]) continue;
    forward[n.raw] = true;
    for (ValueId v : g.operands(n))
      if (v.valid()) stack.push_back(g.def(v));
  }
  return forward;
}

class TrainingWriter {
 public:
  TrainingWriter(const Compiled& step, const LirModule& forward, JsonWriter& out)
      : step_(step),
        t_(*step.training),
        g_(step.lir.module->main()),
        plan_(step.lir.plans[0]),
        forward_(forward),
        out_(out),
        terms_(*step.lir.module, out),
        is_forward_(forward_nodes(g_)) {}

  void run(const report::ReportContext& context) {
    out_.begin_object();
    report::write_header(out_, "training", context);
    loss();
    optimizer();
    out_.key("loss_scaling").boolean(t_.scales);
    states();
    out_.key("frozen").begin_array();
    for (const transform::FrozenParameter& f : t_.frozen)
      out_.begin_object(JsonLayout::Line).key("name").string(f.name).key("why").string(f.why).end_object();
    out_.end_array();
    program("step", step_.lir);
    program("forward", forward_);
    saved();
    recomputed();
    out_.end_object().finish();
  }

 private:
  void loss() {
    out_.key("loss").begin_object(JsonLayout::Line);
    out_.key("kind").string(t_.loss.empty() ? "value" : t_.loss).key("of").string(t_.judged);
    if (t_.loss == "cross-entropy") out_.key("axis").integer(t_.axis);
    if (!t_.target.empty()) out_.key("target").string(t_.target);
    out_.end_object();
  }

  void optimizer() {
    const transform::Hyper& h = t_.hyper;
    out_.key("optimizer").begin_object(JsonLayout::Line).key("name").string(t_.optimizer->name);
    out_.key("lr").number(h.lr).key("lr_input").boolean(t_.lr_input);
    const auto some = [&](std::string_view key, double v) {
      if (v != 0) out_.key(key).number(v);
    };
    some("momentum", h.momentum);
    some("beta1", h.beta1);
    some("beta2", h.beta2);
    some("epsilon", h.epsilon);
    some("weight_decay", h.weight_decay);
    out_.end_object();
  }

  void states() {
    const TrainingProgram program = training_program(step_, "");
    const CheckpointLayout layout = checkpoint_layout(program);
    out_.key("checkpoint").begin_object(JsonLayout::Line);
    out_.key("file").string(checkpoint_file(codegen::package_name(*step_.lir.module)));
    out_.key("format").string("safetensors").key("data").unsigned_integer(layout.header.size());
    out_.key("bytes").unsigned_integer(layout.bytes).end_object();
    out_.key("states").begin_array();
    for (size_t i = 0; i < t_.states.size(); ++i) {
      const transform::TrainingState& s = t_.states[i];
      out_.begin_object(JsonLayout::Line).key("name").string(s.name).key("kind").string(s.kind);
      if (!s.parameter.empty()) out_.key("parameter").string(s.parameter);
      out_.key("dtype").string(name(s.initial.dtype)).key("shape").begin_array(JsonLayout::Line);
      for (int64_t n : s.initial.dims) out_.integer(n);
      out_.end_array()
          .key("offset")
          .unsigned_integer(layout.states[i].offset)
          .key("bytes")
          .unsigned_integer(layout.states[i].bytes);
      if (const std::string hash = hash_of(s.initial); !hash.empty()) out_.key("sha256").string(hash);
      out_.end_object();
    }
    out_.end_array();
  }
  // Hash of the first contents; empty if they are missing.
  static std::string hash_of(const TensorData& d) {
    if (d.bytes.empty() && d.size_bytes() > 0) return {};
    Sha256 h;
    const uint64_t times = d.splat && !d.bytes.empty() ? d.size_bytes() / d.bytes.size() : 1;
    for (uint64_t i = 0; i < times; ++i) h.update(d.bytes);
    return h.hex();
  }

  void program(std::string_view key, const LirModule& lir) {
    report::ModuleTerms terms(*lir.module, out_);
    out_.key(key).begin_object(JsonLayout::Line).key("fingerprint").string(lir.fingerprint.hex());
    out_.key("nodes").unsigned_integer(lir.plans[0].schedule.size()).key("arena");
    terms.size(lir.plans[0].arena_size);
    out_.key("computed_again").unsigned_integer(lir.plans[0].computed_again).end_object();
  }

  bool is_leaf(NodeId n) const { return has_trait(g_.op(n), kLeaf); }

  // Buffers of the arena that the forward half writes and the backward half reads.
  void saved() {
    std::set<uint32_t> kept;
    for (NodeId n : plan_.schedule) {
      if (is_forward_[n.raw]) continue;
      for (ValueId v : g_.operands(n)) {
        if (!v.valid() || !is_forward_[g_.def(v).raw]) continue;
        const ValueId root = plan_.layouts.root[v.raw];
        if (is_forward_[g_.def(root).raw] && plan_.slot[root.raw].region == Region::Activations) kept.insert(root.raw);
      }
    }
    Dim total;
    out_.key("saved").begin_array();
    for (NodeId n : plan_.schedule)
      for (size_t r = 0; r < g_.result_count(n); ++r) {
        const ValueId v = g_.result(n, r);
        if (!kept.contains(v.raw)) continue;
        out_.begin_object(JsonLayout::Line).key("value").string(report::value_label(g_, v)).key("op").string(name(g_.op(n)));
        out_.key("bytes");
        terms_.size(plan_.slot[v.raw].size);
        out_.end_object();
        total = step_.lir.module->dims.add(total, plan_.slot[v.raw].size);
      }
    out_.end_array().key("saved_bytes");
    terms_.size(total);
  }

  // Nodes of the backward half that repeat one of the forward half: the same operation from the same source.
  void recomputed() {
    std::set<std::tuple<uint32_t, OpKind, uint32_t>> made;
    const auto key = [&](NodeId n) { return std::tuple(g_.origin(n).raw, g_.op(n), g_.attr_id(n).raw); };
    for (NodeId n : plan_.schedule)
      if (is_forward_[n.raw] && !is_leaf(n) && g_.origin(n).valid()) made.insert(key(n));
    out_.key("recomputed").begin_array();
    for (NodeId n : plan_.schedule) {
      if (is_forward_[n.raw] || plan_.computed_again == 0 || !g_.origin(n).valid() || !made.contains(key(n))) continue;
      if (plan_.slot[g_.result(n).raw].view) continue;
      out_.begin_object(JsonLayout::Line).key("node").string(g_.label(n)).key("op").string(name(g_.op(n))).key("bytes");
      terms_.size(plan_.slot[g_.result(n).raw].size);
      out_.end_object();
    }
    out_.end_array();
  }

  const Compiled& step_;
  const transform::Training& t_;
  const Graph& g_;
  const GraphPlan& plan_;
  const LirModule& forward_;
  JsonWriter& out_;
  report::ModuleTerms terms_;
  std::vector<bool> is_forward_;
};

}  // namespace

TrainingProgram training_program(const Compiled& step, std::string forward) {
  const transform::Training& t = *step.training;
  TrainingProgram p;
  p.forward = std::move(forward);
  p.data_inputs = t.model_inputs + (t.target.empty() ? 0 : 1);
  p.lr_input = t.lr_input;
  p.loss = step.lir.module->main().dtype(step.lir.module->main().outputs()[0]);
  for (const transform::TrainingState& s : t.states) {
    p.parameters += s.kind == "parameter";
    p.states.push_back({ForeignText(s.name), s.initial});
  }
  return p;
}

void write_training(const Compiled& step, const LirModule& forward, JsonWriter& out, const report::ReportContext& context) {
  TrainingWriter(step, forward, out).run(context);
}

}  // namespace rlxc
