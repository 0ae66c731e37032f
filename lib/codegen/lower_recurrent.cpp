// ONNX LSTM, GRU and RNN. One matmul computes the input contribution of all steps. The recurrence then runs step by step, for
// each row of the batch independently, with its state in registers. CPU threads multiply several rows by the recurrent weights at
// once, and then compute vectors of the state.
#include <algorithm>

#include "codegen/fused_bodies.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/generate.h"
#include "ops/recurrent.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kMaxHidden = 8192;
constexpr int64_t kLeastSums = 8, kMostSums = 16;  // vectors of sums at once: hide the latency, fit the registers
constexpr int64_t kMostRows = 8;                   // of the batch that share a read of the weights

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
  g.m = s.size(node.table().mul(cell.length, cell.batch));
  g.n = width;
  g.k = inputs;
  g.accumulate = cell.type;
  g.a = s.in(0);
  g.a.strides = {inputs, 1};
  g.b = s.in(1);
  g.b.strides = {1, inputs};
  g.b.offset = direction * width * inputs;
  if (node.has(3)) {
    Operand bias = s.in(3);
    bias.strides = {0, 1};
    bias.offset = direction * 2 * width;
    g.epilogue = {{std::move(bias)}, {}, sum_body(1, {})};
  }
  g.c = s.scratch(to);
  g.c.strides = {width, 1};
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
    if (node.mapping().workgroups) return;
    vector_ = node.mapping().vector_lanes(rlxc::bits(cell.type) / 8);
    while (vector_ > cell.hidden) vector_ /= 2;
    // Rows of known lengths go through the steps together.
    if (const auto batch = node.table().constant_value(cell.batch); batch && !node.has(4))
      for (rows_ = kMostRows; rows_ > 1 && *batch % rows_ != 0;) rows_ /= 2;
  }

  void run() {
    kernel::Kernel* k = s_.kernel();
    const int64_t hidden = cell_.hidden;
    batch_ = s_.size(cell_.batch).in(k), length_ = s_.size(cell_.length).in(k);
    kernel::for_each(b_, node_.mapping(), "rows", batch_ / rows_, 1 << 16, [&](Expr task) {
      first_row_ = b_.let("first_row", task * rows_);
      for (Buf* buffer : {&state_, &next_, &memory_}) *buffer = b_.registers("state", cell_.type, rows_ * hidden);
      if (node_.op() == OpKind::Gru) update_ = b_.registers("update", cell_.type, rows_ * hidden);
      if (vector_ > 0) sums_ = b_.registers("sums", cell_.type, rows_ * cell_.gates * hidden);
      each_row([&](Expr r) {
        const Expr at = initial_at(r);
        b_.loop("k", hidden, [&](Expr e) {
          state_.store(r * hidden + e, optional(5, at + e, 1));
          memory_.store(r * hidden + e, optional(6, at + e, 1));
        });
      });
      const Expr n =
          node_.has(4) ? b_.let("steps", min(max(cast_to(optional_[4][first_row_], DType::I64), 0), length_)) : length_;
      const bool reverse = a_.direction == RnnDirection::Reverse || direction_ == 1;
      b_.loop("step", n, [&](Expr step) {
        t_ = b_.let("t", reverse ? n - 1 - step : step);
        if (node_.op() == OpKind::Lstm) lstm();
        else if (node_.op() == OpKind::Gru) gru();
        else rnn();
        each_row([&](Expr r) {
          const Expr to = result_at(r, t_);
          b_.loop("k", hidden, [&](Expr e) {
            const Expr v = b_.let("v", next_.load(r * hidden + e));
            state_.store(r * hidden + e, v);
            out_[0].store(to + e, cast_to(v, node_.result_dtype(0)));
          });
        });
      });
      b_.loop("rest", length_ - n, [&](Expr j) {
        const Expr to = result_at(b_.i64(0), n + j);
        b_.loop("k", hidden, [&](Expr e) { out_[0].store(to + e, kernel::constant(k, node_.result_dtype(0), 0)); });
      });
      each_row([&](Expr r) {
        const Expr at = initial_at(r);
        b_.loop("k", hidden, [&](Expr e) {
          out_[1].store(at + e, cast_to(state_.load(r * hidden + e), node_.result_dtype(1)));
          if (node_.op() == OpKind::Lstm) out_[2].store(at + e, cast_to(memory_.load(r * hidden + e), node_.result_dtype(2)));
        });
      });
    });
    s_.finish();
  }

 private:
  Expr wide(Expr v) { return cast_to(v, cell_.type); }
  Expr zero(int lanes) { return broadcast(kernel::constant(s_.kernel(), cell_.type, 0), lanes); }
  Expr optional(size_t i, Expr at, int lanes) { return node_.has(i) ? wide(optional_[i].load(at, lanes)) : zero(lanes); }
  Expr clipped(Expr v) { return a_.clip > 0 ? min(max(v, -a_.clip), a_.clip) : v; }

  template <class F>
  void each_row(F&& body) {
    if (rows_ == 1) return body(b_.i64(0));
    b_.loop("r", rows_, body);
  }
  // The elements of a row: of the initial and final states, of the results of step t, and of the projected inputs of the step.
  Expr initial_at(Expr r) {
    const Expr row = first_row_ + r;
    return b_.let("at", (a_.batch_first ? row * cell_.directions + direction_ : direction_ * batch_ + row) * cell_.hidden);
  }
  Expr result_at(Expr r, Expr t) {
    const Expr row = first_row_ + r;
    return b_.let("to", (a_.batch_first ? (row * length_ + t) * cell_.directions + direction_
                                        : (t * cell_.directions + direction_) * batch_ + row) *
                            cell_.hidden);
  }
  Expr input_at(Expr r) {
    const Expr row = first_row_ + r;
    return b_.let("row_x", (a_.batch_first ? row * length_ + t_ : t_ * batch_ + row) * (cell_.gates * cell_.hidden));
  }
  Expr weights_at(int64_t gate, Expr k) { return ((direction_ * cell_.gates + gate) * cell_.hidden + k) * cell_.hidden; }

  // Row k of a gate's recurrent weights times a state, by one thread of a grid.
  Expr dot(int64_t gate, Expr k, const Buf& state) {
    const Expr row = b_.let("row_r", weights_at(gate, k));
    Buf sum = b_.variable("sum", zero(1));
    b_.loop("j", cell_.hidden, [&](Expr j) { sum.set(fma(wide(r_[row + j]), state.load(j), sum.get())); });
    return sum.get();
  }

  // Sums of the gates from `first` on: the recurrent weights times the states of all rows.
  void multiply(int64_t first, int64_t count, const Buf& state) {
    const int64_t most = std::max<int64_t>(kMostSums / rows_, 1);
    for (int64_t g = 0; vector_ > 0 && g < count; g += most) multiply_at_once(first + g, std::min(most, count - g), state);
  }
  void multiply_at_once(int64_t first, int64_t count, const Buf& state) {
    const int64_t hidden = cell_.hidden, whole = hidden / vector_ * vector_;
    int64_t across = std::max<int64_t>(kLeastSums / (count * rows_), 1);  // elements of the states
    while (hidden % across != 0) --across;
    b_.loop("block", hidden / across, [&](Expr block) {
      struct Sum {
        int64_t gate, element;
        Expr weights;
        std::vector<Buf> of_rows;
      };
      std::vector<Sum> sums;
      for (int64_t i = 0; i < count * across; ++i) {
        Sum& s = sums.emplace_back(Sum{first + i / across, i % across, {}, {}});
        s.weights = b_.let("row_r", weights_at(s.gate, block * across + s.element));
        for (int64_t r = 0; r < rows_; ++r) s.of_rows.push_back(b_.variable("sum", zero(vector_)));
      }
      const auto add = [&](Expr j, int lanes) {
        std::vector<Expr> states;
        for (int64_t r = 0; r < rows_; ++r) states.push_back(b_.let("h", state.load(j + r * hidden, lanes)));
        for (Sum& s : sums) {
          const Expr w = b_.let("w", wide(r_.load(s.weights + j, lanes)));
          for (size_t r = 0; r < states.size(); ++r) s.of_rows[r].set(fma(w, states[r], s.of_rows[r].get()));
        }
      };
      b_.loop("j", hidden / vector_, [&](Expr j) { add(j * vector_, vector_); });
      if (vector_ > 1)
        for (Sum& s : sums)
          for (Buf& sum : s.of_rows) sum = b_.variable("total", reduce_add(sum.get()));
      if (whole < hidden) b_.loop("j", hidden - whole, [&](Expr j) { add(whole + j, 1); });
      for (const Sum& s : sums)
        for (int64_t r = 0; r < rows_; ++r)
          sums_.store((r * cell_.gates + s.gate) * hidden + block * across + s.element, s.of_rows[static_cast<size_t>(r)].get());
    });
  }

  // Elements k, k + 1, ... of the state of row r; implements the Cell of ops/recurrent.h.
  struct Cell {
    Steps& s;
    Expr r, x, k;  // x: the projected inputs of the row
    int lanes;

    Expr load(const Buf& of) { return of.load(r * s.cell_.hidden + k, lanes); }
    void store(Buf& to, Expr v) { to.store(r * s.cell_.hidden + k, v); }
    Expr recurrent_sum(int64_t gate, const Buf& state) {
      const int64_t hidden = s.cell_.hidden, gates = s.cell_.gates;
      const Expr sum = s.vector_ == 0 ? s.dot(gate, k, state) : s.sums_.load((r * gates + gate) * hidden + k, lanes);
      return s.b_.let("dot", sum + s.optional(3, (s.direction_ * 2 + 1) * gates * hidden + (gate * hidden + k), lanes));
    }
    Expr input(int64_t gate) { return s.x_.load(x + (gate * s.cell_.hidden + k), lanes); }
    Expr gate(int64_t i) { return input(i) + recurrent_sum(i, s.state_); }
    Expr gate(int64_t i, int64_t p, Expr memory) {
      return s.node_.has(7) ? gate(i) + s.optional(7, (s.direction_ * 3 + p) * s.cell_.hidden + k, lanes) * memory : gate(i);
    }
    Expr activated(size_t i, Expr v) { return s.f_[i](s.clipped(v)); }
    Expr output(Expr memory) { return s.f_[2](memory); }
    Expr let(const char* name, Expr v) { return s.b_.let(name, v); }
    Expr recurrent(bool linear) {  // memory_ has r, or r times the state
      return linear ? load(s.memory_) * recurrent_sum(2, s.state_) : recurrent_sum(2, s.memory_);
    }
    Expr update() { return let("z", load(s.update_)); }
    Expr state() { return load(s.state_); }
  };
  template <class F>
  void each(F&& body) {
    const int64_t hidden = cell_.hidden, lanes = std::max(vector_, 1), whole = hidden / lanes * lanes;
    each_row([&](Expr r) {
      const Expr x = input_at(r);
      const auto cells = [&](int64_t first, int64_t count, int width) {
        if (count == 0) return;
        b_.loop("k", count, [&](Expr k) {
          Cell cell{*this, r, x, first + k * width, width};
          body(cell);
        });
      };
      cells(0, hidden / lanes, static_cast<int>(lanes));
      cells(whole, hidden - whole, 1);
    });
  }

  void rnn() {
    multiply(0, 1, state_);
    each([&](Cell& cell) { cell.store(next_, ops::rnn_step(cell)); });
  }

  void lstm() {
    multiply(0, 4, state_);
    each([&](Cell& cell) {
      Expr memory = b_.let("old", cell.load(memory_));
      const Expr next = ops::lstm_step(cell, a_.input_forget, &memory);
      cell.store(memory_, memory);
      cell.store(next_, next);
    });
  }

  void gru() {
    const bool linear = a_.linear_before_reset;
    multiply(0, linear ? 3 : 2, state_);
    each([&](Cell& cell) {
      cell.store(update_, ops::gru_gate(cell, 0));
      const Expr reset = b_.let("reset", ops::gru_gate(cell, 1));
      cell.store(memory_, linear ? reset : reset * cell.load(state_));
    });
    if (!linear) multiply(2, 1, memory_);
    each([&](Cell& cell) { cell.store(next_, ops::gru_step(cell, linear)); });
  }

  Node& node_;
  const RnnAttrs& a_;
  const Sizes& cell_;
  int64_t direction_;
  const Function* f_;
  Scope s_;
  kernel::Builder& b_;
  int vector_ = 0;    // lanes of the vectors of CPU threads; 0: a grid
  int64_t rows_ = 1;  // of a task
  Buf x_, r_, optional_[8], out_[3], state_, next_, memory_, update_, sums_;
  Expr batch_, length_, first_row_, t_;
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
