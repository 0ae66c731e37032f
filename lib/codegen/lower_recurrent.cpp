// ONNX LSTM, GRU and RNN. One matmul computes the input contribution of all steps. The recurrence then runs step by step, for
// each row of the batch independently, with its state in registers.
#include "codegen/lowerings.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/generate.h"
#include "ops/recurrent.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMaxHidden = 8192;

struct Function {
  ops::CellActivation activation_;
  Expr operator()(Expr x) const {
    return activation_(x, [](OpKind op, double alpha, double beta, Expr v) { return activation({true, op, alpha, beta}, v); });
  }
};

struct Sizes {
  int64_t gates, hidden, directions;
  Dim length, batch, inputs;
  DType type;  // the compute type
};

// Computes x * w^T + input bias for all steps: [length * batch (in the order of x), gates * hidden].
void project(Node& node, const Sizes& cell, int64_t direction, uint32_t to) {
  Scope s(node, "input");
  const int64_t width = cell.gates * cell.hidden;
  const Expr inputs = s.size(cell.inputs).in(s.kernel());
  kernel::GemmSpec g;
  g.m = s.size(node.table().mul(cell.length, cell.batch)), g.n = width, g.k = inputs, g.accumulate = cell.type;
  g.a = s.in(0), g.a.strides = {inputs, 1};
  g.b = s.in(1), g.b.strides = {1, inputs}, g.b.offset = direction * width * inputs;
  if (node.has(3)) {
    Operand bias = s.in(3);
    bias.strides = {0, 1}, bias.offset = direction * 2 * width;
    g.bias = std::move(bias);
  }
  g.c = s.scratch(to), g.c.strides = {width, 1};
  kernel::build_gemm(s.builder(), g, node.mapping());
  s.finish();
}

class Steps {
 public:
  Steps(Node& node, const Sizes& cell, int64_t direction, const Function* functions, uint32_t projected)
      : node_(node),
        a_(node.attrs<RnnAttrs>()),
        cell_(cell),
        direction_(direction),
        f_(functions),
        s_(node, direction == 1 ? "steps_back" : "steps"),
        b_(s_.builder()) {
    const Operand x = s_.scratch(projected);
    x_ = b_.input("x", x.dtype, x.extent);
    r_ = s_.in_buf(2);
    for (size_t i = 3; i < std::size(optional_); ++i)
      if (node.has(i)) optional_[i] = s_.in_buf(i);
    for (size_t i = 0; i < node.graph.result_count(node.id); ++i) out_[i] = s_.out_buf(i);
  }

  void run() {
    kernel::Kernel* k = s_.kernel();
    const int64_t hidden = cell_.hidden;
    const Expr batch = s_.size(cell_.batch).in(k), length = s_.size(cell_.length).in(k);
    kernel::for_each(b_, node_.mapping(), "row", batch, 1 << 16, [&](Expr i) {
      for (Buf* buffer : {&state_, &next_, &memory_}) *buffer = b_.registers("state", cell_.type, hidden);
      if (node_.op() == OpKind::Gru) update_ = b_.registers("update", cell_.type, hidden);
      const Expr at = b_.let("at", (a_.batch_first ? i * cell_.directions + direction_ : direction_ * batch + i) * hidden);
      b_.loop("k", hidden, [&](Expr e) { state_.store(e, optional(5, at + e)), memory_.store(e, optional(6, at + e)); });
      const Expr n = node_.has(4) ? b_.let("steps", min(max(cast_to(optional_[4][i], DType::I64), 0), length)) : length;
      const bool reverse = a_.direction == RnnDirection::Reverse || direction_ == 1;
      auto result_at = [&](Expr t) {
        return b_.let("to", (a_.batch_first ? (i * length + t) * cell_.directions + direction_
                                            : (t * cell_.directions + direction_) * batch + i) *
                                hidden);
      };
      b_.loop("step", n, [&](Expr step) {
        const Expr t = b_.let("t", reverse ? n - 1 - step : step), to = result_at(t);
        row_ = b_.let("row_x", (a_.batch_first ? i * length + t : t * batch + i) * (cell_.gates * hidden));
        if (node_.op() == OpKind::Lstm) lstm();
        else if (node_.op() == OpKind::Gru) gru();
        else each([&](Cell& cell) { next_.store(cell.k, ops::rnn_step(cell)); });
        b_.loop("k", hidden, [&](Expr e) {
          const Expr v = b_.let("v", next_.load(e));
          state_.store(e, v);
          out_[0].store(to + e, cast_to(v, node_.result_dtype(0)));
        });
      });
      b_.loop("rest", length - n, [&](Expr j) {
        const Expr to = result_at(n + j);
        b_.loop("k", hidden, [&](Expr e) { out_[0].store(to + e, kernel::constant(k, node_.result_dtype(0), 0)); });
      });
      b_.loop("k", hidden, [&](Expr e) {
        out_[1].store(at + e, cast_to(state_.load(e), node_.result_dtype(1)));
        if (node_.op() == OpKind::Lstm) out_[2].store(at + e, cast_to(memory_.load(e), node_.result_dtype(2)));
      });
    });
    s_.finish();
  }

 private:
  Expr wide(Expr v) { return cast_to(v, cell_.type); }
  Expr optional(size_t i, Expr at) {
    return node_.has(i) ? wide(optional_[i][at]) : kernel::constant(s_.kernel(), cell_.type, 0);
  }
  Expr clipped(Expr v) { return a_.clip > 0 ? min(max(v, -a_.clip), a_.clip) : v; }
  Expr input(int64_t gate, Expr k) { return x_[row_ + (gate * cell_.hidden + k)]; }
  Expr peephole(int64_t which, Expr k, Expr memory) {
    return node_.has(7) ? optional(7, (direction_ * 3 + which) * cell_.hidden + k) * memory
                        : kernel::constant(s_.kernel(), cell_.type, 0);
  }

  // Row k of a gate's recurrent weights times a state, plus the recurrent bias.
  Expr dot(int64_t gate, Expr k, const Buf& state) {
    const int64_t hidden = cell_.hidden;
    const Expr row = b_.let("row_r", ((direction_ * cell_.gates + gate) * hidden + k) * hidden);
    int lanes = node_.mapping().workgroups ? 1 : node_.mapping().vector_lanes(rlxc::bits(cell_.type) / 8);
    while (lanes > hidden) lanes /= 2;
    const int64_t whole = hidden / lanes * lanes;
    Buf sum = b_.variable("sum", broadcast(kernel::constant(s_.kernel(), cell_.type, 0), lanes));
    b_.loop("j", hidden / lanes,
            [&](Expr j) { sum.set(fma(wide(r_.load(row + j * lanes, lanes)), state.load(j * lanes, lanes), sum.get())); });
    Buf total = b_.variable("total", lanes > 1 ? reduce_add(sum.get()) : sum.get());
    if (whole < hidden)
      b_.loop("j", hidden - whole,
              [&](Expr j) { total.set(fma(wide(r_[row + (whole + j)]), state.load(whole + j), total.get())); });
    return b_.let("dot", total.get() + optional(3, (direction_ * 2 + 1) * cell_.gates * hidden + (gate * hidden + k)));
  }

  // Element k of the state; implements the Cell of ops/recurrent.h.
  struct Cell {
    Steps& s;
    Expr k;

    Expr input(int64_t i) { return s.input(i, k); }
    Expr gate(int64_t i) { return s.input(i, k) + s.dot(i, k, s.state_); }
    Expr gate(int64_t i, int64_t p, Expr memory) { return s.input(i, k) + s.dot(i, k, s.state_) + s.peephole(p, k, memory); }
    Expr activated(size_t i, Expr v) { return s.f_[i](s.clipped(v)); }
    Expr output(Expr memory) { return s.f_[2](memory); }
    Expr let(const char* name, Expr v) { return s.b_.let(name, v); }
    Expr recurrent(bool linear) {  // memory_ has r, or r times the state
      return linear ? s.memory_.load(k) * s.dot(2, k, s.state_) : s.dot(2, k, s.memory_);
    }
    Expr update() { return let("z", s.update_.load(k)); }
    Expr state() { return s.state_.load(k); }
  };
  template <class F>
  void each(F&& body) {
    b_.loop("k", cell_.hidden, [&](Expr k) {
      Cell cell{*this, k};
      body(cell);
    });
  }

  void lstm() {
    each([&](Cell& cell) {
      Expr memory = b_.let("old", memory_.load(cell.k));
      const Expr next = ops::lstm_step(cell, a_.input_forget, &memory);
      memory_.store(cell.k, memory), next_.store(cell.k, next);
    });
  }

  void gru() {
    const bool linear = a_.linear_before_reset;
    each([&](Cell& cell) {
      update_.store(cell.k, ops::gru_gate(cell, 0));
      const Expr reset = b_.let("reset", ops::gru_gate(cell, 1));
      memory_.store(cell.k, linear ? reset : reset * state_.load(cell.k));
    });
    each([&](Cell& cell) { next_.store(cell.k, ops::gru_step(cell, linear)); });
  }

  Node& node_;
  const RnnAttrs& a_;
  const Sizes& cell_;
  int64_t direction_;
  const Function* f_;
  Scope s_;
  kernel::Builder& b_;
  Buf x_, r_, optional_[8], out_[3], state_, next_, memory_, update_;
  Expr row_;
};

}  // namespace

bool lower_recurrent(Node& node) {
  const auto& a = node.attrs<RnnAttrs>();
  const auto x = node.dims(0);
  const ops::Recurrence r = ops::recurrence(node.op(), a);
  Sizes cell{r.gates,
             a.hidden,
             r.directions,
             x[a.batch_first ? 1 : 0],
             x[a.batch_first ? 0 : 1],
             x[2],
             kernel::compute_dtype(node.dtype(0))};
  if (cell.hidden < 1 || cell.hidden > kMaxHidden)
    return node.fail("the size of the state must be 1 to " + std::to_string(kMaxHidden));
  std::string reason;
  const auto activations = ops::cell_activations(node.op(), a, &reason);
  if (!activations) return node.fail(reason);
  std::vector<Function> functions;
  for (const ops::CellActivation& f : *activations) functions.push_back({f});
  DimTable& t = node.table();
  for (int64_t direction = 0; direction < cell.directions; ++direction) {
    const uint32_t projected = node.scratch(cell.type, t.mul(t.mul(cell.length, cell.batch), Dim(cell.gates * cell.hidden)));
    project(node, cell, direction, projected);
    Steps(node, cell, direction, &functions[r.activations * static_cast<size_t>(direction)], projected).run();
  }
  return true;
}

}  // namespace rlxc::codegen
