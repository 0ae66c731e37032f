#include "kernel/interpret.h"

#include <algorithm>

#include "kernel/fold.h"
#include "kernel/rewrite.h"
#include "kernel/value.h"

namespace rlxc::kernel {
namespace {

// The last access of an element: iteration or workgroup (`agent`) of a parallel phase, thread, and barrier interval (`epoch`).
struct Touch {
  int64_t phase = -1, agent = 0, epoch = 0;
  int thread = 0;
  bool many = false;  // several threads or agents accessed it
};

struct Memory {
  void* data = nullptr;      // Global
  std::vector<Value> cells;  // Shared: elements; Register: [thread][element][vector lane]
  // Number of global barriers before an element's last store, plus one. 0: never stored. Empty where all elements are
  // initialised.
  std::vector<uint32_t> known;
  std::vector<Touch> reads, writes;
  int64_t elements = 0;
  const Memory* overwritten_by = nullptr;  // an aliased argument whose stores are visible here
};

class Interpreter {
 public:
  Interpreter(const Kernel& k, std::span<void* const> arguments, std::span<const int64_t> symbols, const InterpretLimits& limits)
      : k_(k), limits_(limits), arguments_(arguments), symbols_(symbols.begin(), symbols.end()) {}

  InterpretResult run() {
    if (arguments_.size() != k_.argument_count() || symbols_.size() != k_.symbols.size()) {
      find("wrong number of arguments");
      return result_;
    }
    Launch launch = launch_of(k_);
    threads_ = static_cast<int>(workgroup_size(k_));
    values_.resize(k_.exprs.size());
    memory_.resize(k_.buffers.size());
    var_node_.assign(k_.vars.size(), 0);
    for (uint32_t i = 0; i < k_.exprs.size(); ++i) prepare(i);
    for (size_t s = 0; s < symbols_.size(); ++s) set_var(k_.symbols[s], symbols_[s]);
    for (uint32_t b = 0; b < k_.buffers.size(); ++b) prepare_buffer(b);
    for (size_t a = 0; a < arguments_.size(); ++a)
      for (size_t b = 0; b < arguments_.size(); ++b)
        if (a != b && arguments_[a] == arguments_[b] && k_.buffers[b].access == Access::Write)
          memory_[a].overwritten_by = &memory_[b];
    active_.assign(threads_, 1);
    std::array<int64_t, 3> grid = {1, 1, 1}, threads = {1, 1, 1};
    for (int a = 0; a < 3; ++a) {
      if (launch.grid[a].valid()) grid[a] = evaluate(k_, launch.grid[a], symbols_);
      if (launch.threads[a].valid()) threads[a] = evaluate(k_, launch.threads[a], symbols_);
    }
    for (int64_t g = 0; g < grid[0] * grid[1] * grid[2] && !stopped_; ++g) {
      agent_ = g;
      ++epoch_;
      bind_launch(k_.body, {g % grid[0], g / grid[0] % grid[1], g / (grid[0] * grid[1])}, threads);
      block(*launch.body);
    }
    return result_;
  }

 private:
  void prepare(uint32_t i) {
    const ExprNode& e = k_.exprs[i];
    values_[i].resize(static_cast<size_t>(threads_) * e.type.lanes);
    if (e.op == ExprOp::Var) var_node_[e.payload] = i;
    if (e.op == ExprOp::Const)
      std::fill(values_[i].begin(), values_[i].end(), is_float(e.type.dtype) ? from_float(const_double(e)) : from_int(e.payload));
  }

  void prepare_buffer(uint32_t id) {
    const Buffer& b = k_.buffers[id];
    Memory& m = memory_[id];
    m.elements = evaluate(k_, b.extent, symbols_);
    size_t n = static_cast<size_t>(std::max<int64_t>(m.elements, 0));
    if (b.space == Space::Global) {
      m.data = arguments_[id];
      if (b.access == Access::Read) return;
      if (b.access == Access::Write) m.known.assign(n, 0);
      if (!b.may_alias) {
        m.reads.resize(n);
        m.writes.resize(n);
      }
    } else if (b.space == Space::Shared) {
      m.cells.resize(n);
      m.known.resize(n);
      m.reads.resize(n);
      m.writes.resize(n);
    } else {
      m.cells.resize(n * threads_ * b.type.lanes);
      m.known.resize(m.cells.size());
    }
  }

  // Sets the variables of the launch nest.
  void bind_launch(const std::vector<Stmt>& body, std::array<int64_t, 3> group, std::array<int64_t, 3> threads) {
    for (const std::vector<Stmt>* at = &body; at->size() == 1 && at->front().kind == StmtKind::For; at = &at->front().body) {
      const Stmt& s = at->front();
      if (s.loop == LoopKind::Grid) set_var(s.var, group[s.axis]);
      else if (s.loop == LoopKind::Thread && is_used(s.var)) {
        int64_t below = 1;
        for (int a = 0; a < s.axis; ++a) below *= threads[a];
        for (int w = 0; w < threads_; ++w) values_[var_node_[s.var.raw]][w] = from_int(w / below % threads[s.axis]);
      } else if (s.loop != LoopKind::Thread) break;
    }
  }

  bool is_used(VarId v) const {
    if (k_.exprs.empty()) return false;
    const ExprNode& e = k_.exprs[var_node_[v.raw]];
    return e.op == ExprOp::Var && e.payload == static_cast<int64_t>(v.raw);
  }
  void set_var(VarId v, int64_t value) {
    if (!is_used(v)) return;
    std::fill(values_[var_node_[v.raw]].begin(), values_[var_node_[v.raw]].end(), from_int(value));
  }

  void find(std::string what) {
    if (result_.findings.size() < limits_.findings) result_.findings.push_back(k_.name + ": " + std::move(what));
  }

  bool any_active() const { return std::find(active_.begin(), active_.end(), 1) != active_.end(); }

  void block(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) {
      if (stopped_) return;
      statement(s);
    }
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::Comment:
      case StmtKind::Await:
      case StmtKind::Settle:
      case StmtKind::Prefetch: return;
      case StmtKind::Source: stopped_ = true; return find("a source in the language of the target cannot be interpreted");
      case StmtKind::Let: {
        const std::vector<Value>& v = eval(s.value);
        uint32_t node = var_node_[s.var.raw];
        if (k_.exprs[node].op == ExprOp::Var && k_.exprs[node].payload == static_cast<int64_t>(s.var.raw)) {
          size_t n = k_.exprs[node].type.lanes;
          for (int w = 0; w < threads_; ++w)
            if (active_[w]) std::copy_n(v.begin() + w * n, n, values_[node].begin() + w * n);
        }
        return;
      }
      case StmtKind::Alloc: {
        Memory& m = memory_[s.buffer.raw];
        size_t per_lane = m.known.size() / threads_;
        if (k_.buffer(s.buffer).space == Space::Shared) std::fill(m.known.begin(), m.known.end(), 0);
        else
          for (int w = 0; w < threads_; ++w)
            if (active_[w]) std::fill_n(m.known.begin() + w * per_lane, per_lane, 0);
        return;
      }
      case StmtKind::Store:
      case StmtKind::AtomicAdd: return store(s);
      case StmtKind::Barrier:
        if (std::find(active_.begin(), active_.end(), 0) != active_.end()) find("a barrier that not all threads reach");
        ++epoch_;
        if (s.global) ++span_;
        return;
      case StmtKind::If: {
        std::vector<Value> condition = eval(s.value);
        std::vector<uint8_t> before = active_;
        for (int w = 0; w < threads_; ++w) active_[w] = before[w] && condition[w].i;
        if (any_active()) block(s.body);
        for (int w = 0; w < threads_; ++w) active_[w] = before[w] && !condition[w].i;
        if (!s.other.empty() && any_active()) block(s.other);
        active_ = before;
        return;
      }
      case StmtKind::For: return loop(s);
    }
  }

  void loop(const Stmt& s) {
    std::vector<Value> extent = eval(s.index);
    std::vector<uint8_t> before = active_;
    bool parallel = s.loop == LoopKind::Parallel;
    if (parallel) ++phase_;
    for (int64_t i = 0; !stopped_; ++i) {
      for (int w = 0; w < threads_; ++w) active_[w] = before[w] && i < extent[w].i;
      if (!any_active()) break;
      if (parallel) agent_ = i;
      set_var(s.var, i);
      block(s.body);
    }
    active_ = before;
    if (parallel) {
      ++phase_;
      agent_ = 0;
    }
  }

  // Checks bounds, initialisation and races of one access. Returns false if the access must not happen.
  bool touch(uint32_t buffer, int64_t index, int thread, bool write, bool atomic) {
    const Buffer& b = k_.buffers[buffer];
    Memory& m = memory_[buffer];
    if (index < 0 || index >= m.elements) {
      find((write ? "store to " : "load of ") + b.name + "[" + std::to_string(index) + "], which has " +
           std::to_string(m.elements) + " elements");
      return false;
    }
    if (b.space == Space::Register) return true;
    if (!m.known.empty()) {
      if (write) m.known[index] = span_;
      else if (!m.known[index]) find("load of " + b.name + "[" + std::to_string(index) + "], which nothing was stored to");
    }
    if (m.overwritten_by && !write && static_cast<size_t>(index) < m.overwritten_by->known.size() &&
        m.overwritten_by->known[static_cast<size_t>(index)] == span_)
      find("load of " + b.name + "[" + std::to_string(index) + "], which a result has overwritten");
    if (m.writes.empty() || atomic) return true;
    bool shared = b.space == Space::Shared;
    auto current = [&](const Touch& t) { return t.phase == phase_ && (t.agent != agent_ ? !shared : t.epoch == epoch_); };
    auto other = [&](const Touch& t) { return current(t) && (t.agent != agent_ || t.thread != thread || t.many); };
    Touch& w = m.writes[index];
    Touch& r = m.reads[index];
    if (other(w) || (write && other(r))) find("race on " + b.name + "[" + std::to_string(index) + "]");
    Touch& mine = write ? w : r;
    bool many = current(mine) && (mine.many || mine.agent != agent_ || mine.thread != thread);
    mine = {phase_, agent_, epoch_, thread, many};
    return true;
  }

  Value load_cell(uint32_t buffer, int64_t index, int thread) {
    const Buffer& b = k_.buffers[buffer];
    Memory& m = memory_[buffer];
    if (!touch(buffer, index, thread, false, false)) return {};
    return b.space == Space::Global ? read_element(b.type.dtype, m.data, index) : m.cells[index];
  }

  // Register buffers of vectors are indexed in vectors. A vector of another buffer covers consecutive elements.
  void load(const ExprNode& e, std::vector<Value>& out) {
    uint32_t id = static_cast<uint32_t>(e.payload);
    const Buffer& b = k_.buffers[id];
    Memory& m = memory_[id];
    const std::vector<Value>& index = values_[e.args[0].raw];
    int n = e.type.lanes, index_lanes = k_.expr(e.args[0]).type.lanes;
    for (int w = 0; w < threads_; ++w) {
      if (!active_[w]) continue;
      if (e.op == ExprOp::LoadIf && !values_[e.args[1].raw][w].i) {
        std::copy_n(values_[e.args[2].raw].begin() + w * n, n, out.begin() + w * n);
        continue;
      }
      for (int l = 0; l < n; ++l) {
        int64_t at = index_lanes > 1 ? index[w * index_lanes + l].i : index[w].i * b.type.lanes + l;
        out[w * n + l] = b.space == Space::Register ? load_register(id, m, at, w) : load_cell(id, at, w);
      }
    }
  }

  Value load_register(uint32_t id, Memory& m, int64_t at, int thread) {
    int64_t n = m.elements * k_.buffers[id].type.lanes;
    if (at < 0 || at >= n) {
      touch(id, m.elements, thread, false, false);
      return Value{};
    }
    size_t cell = static_cast<size_t>(thread) * n + at;
    if (!m.known[cell])
      find("load of register " + k_.buffers[id].name + "[" + std::to_string(at) + "], which nothing was stored to");
    return m.cells[cell];
  }

  void store(const Stmt& s) {
    std::vector<Value> index = eval(s.index);
    const std::vector<Value>& value = eval(s.value);
    const Buffer& b = k_.buffer(s.buffer);
    Memory& m = memory_[s.buffer.raw];
    int n = k_.expr(s.value).type.lanes;
    bool atomic = s.kind == StmtKind::AtomicAdd;
    for (int w = 0; w < threads_; ++w) {
      if (!active_[w]) continue;
      for (int l = 0; l < n; ++l) {
        int64_t at = index[w].i * b.type.lanes + l;
        Value v = value[w * n + l];
        if (b.space == Space::Register) {
          int64_t cells = m.elements * b.type.lanes;
          if (at < 0 || at >= cells) {
            touch(s.buffer.raw, m.elements, w, true, false);
            continue;
          }
          m.cells[w * cells + at] = v;
          m.known[w * cells + at] = 1;
          continue;
        }
        if (!touch(s.buffer.raw, at, w, true, atomic)) continue;
        bool global = b.space == Space::Global;
        if (atomic) v = apply(ExprOp::Add, b.type.dtype, global ? read_element(b.type.dtype, m.data, at) : m.cells[at], v, {});
        if (global) write_element(b.type.dtype, m.data, at, v);
        else m.cells[at] = v;
      }
    }
  }

  const std::vector<Value>& eval(ExprId root) {
    std::vector<uint32_t>& plan = plans_[root.raw];
    if (plan.empty())
      for (ExprId id : nodes_below(k_, {root})) plan.insert(plan.begin(), id.raw);
    steps_ += static_cast<int64_t>(plan.size()) * threads_;
    if (steps_ > limits_.steps && !stopped_) {
      find("stopped after " + std::to_string(limits_.steps) + " steps");
      stopped_ = true;
    }
    for (uint32_t id : plan) node(id);
    return values_[root.raw];
  }

  void node(uint32_t id) {
    const ExprNode& e = k_.exprs[id];
    std::vector<Value>& out = values_[id];
    size_t n = e.type.lanes, cells = out.size();
    auto in = [&](int a) -> const std::vector<Value>& { return values_[e.args[a].raw]; };
    auto type = [&](int a) { return k_.expr(e.args[a]).type; };
    switch (e.op) {
      case ExprOp::Const:
      case ExprOp::Var: return;
      case ExprOp::DotInstructions:
        for (size_t c = 0; c < cells; ++c) out[c] = from_int(1);
        return;
      case ExprOp::Load:
      case ExprOp::LoadIf: return load(e, out);
      case ExprOp::Broadcast:
        for (size_t c = 0; c < cells; ++c) out[c] = in(0)[c / n];
        return;
      case ExprOp::Ramp:
        for (size_t c = 0; c < cells; ++c)
          out[c] = apply(ExprOp::Add, e.type.dtype, in(0)[c / n], from_int(static_cast<int64_t>(c % n) * e.payload), {});
        return;
      case ExprOp::Lane:
        for (size_t c = 0; c < cells; ++c) out[c] = in(0)[c * type(0).lanes + e.payload];
        return;
      case ExprOp::ReduceAdd:
      case ExprOp::ReduceMul:
      case ExprOp::ReduceMax:
      case ExprOp::ReduceMin: return reduce(e, out);
      case ExprOp::InterleaveLow:
      case ExprOp::InterleaveHigh:
        for (size_t c = 0; c < cells; ++c) {
          const size_t group = e.payload > 0 ? static_cast<size_t>(e.payload) : n, lane = c % group;
          out[c] = in(lane % 2)[c - lane + (e.op == ExprOp::InterleaveLow ? lane : group + lane) / 2];
        }
        return;
      case ExprOp::EvenLanes:
      case ExprOp::OddLanes:
        for (size_t c = 0; c < cells; ++c) {
          const size_t unit = e.payload > 0 ? static_cast<size_t>(e.payload) : 1, lane = c % n;
          const size_t from = (lane / unit * 2 + (e.op == ExprOp::OddLanes)) * unit + lane % unit;
          out[c] = in(from / n)[c - lane + from % n];
        }
        return;
      case ExprOp::ShuffleXor:
        for (size_t c = 0; c < cells; ++c) {
          size_t w = (c / n) ^ static_cast<size_t>(e.payload);
          if (active_[c / n] && (w >= active_.size() || !active_[w])) find("shuffle with a thread that does not take part");
          else if (w < active_.size()) out[c] = in(0)[w * n + c % n];
        }
        return;
      case ExprOp::WarpReduce: return warp_reduce(e, in(0), out);
      case ExprOp::MatrixMultiply: return matrix_multiply(e, out);
      case ExprOp::Dot:
        for (size_t c = 0, group = type(0).lanes / n; c < cells; ++c) {
          Value sum = in(2)[c];
          for (size_t i = c * group; i < (c + 1) * group; ++i) {
            const Value product =
                is_float(e.type.dtype) ? from_float(in(0)[i].f * in(1)[i].f) : from_int(in(0)[i].i * in(1)[i].i);
            sum = apply(ExprOp::Add, e.type.dtype, sum, product, {});
          }
          out[c] = sum;
        }
        return;
      case ExprOp::Cast:
        for (size_t c = 0; c < cells; ++c) out[c] = convert(e.type.dtype, type(0).dtype, in(0)[c]);
        return;
      case ExprOp::Bitcast: return bitcast(e, out);
      case ExprOp::Select:
        for (size_t c = 0; c < cells; ++c) out[c] = in(0)[type(0).lanes == 1 ? c / n : c].i ? in(1)[c] : in(2)[c];
        return;
      default: {
        int operands = operand_count(e.op);
        DType t = type(0).dtype;
        for (size_t c = 0; c < cells; ++c)
          out[c] = apply(e.op, t, in(0)[c], operands > 1 ? in(1)[c] : Value{}, operands > 2 ? in(2)[c] : Value{});
      }
    }
  }

  void warp_reduce(const ExprNode& e, const std::vector<Value>& in, std::vector<Value>& out) {
    const WarpReduction r = warp_reduction(e.payload);
    const size_t warp = static_cast<size_t>(r.threads), n = e.type.lanes, threads = active_.size();
    if (threads % warp != 0) find("a reduction of a warp that is not whole");
    for (size_t w = 0; w < threads; ++w) {
      const size_t first = w / warp * warp, end = std::min(first + warp, threads);
      for (size_t t = first; active_[w] && t < end; ++t)
        if (!active_[t]) find("a reduction with a thread that does not take part");
      for (size_t lane = 0; lane < n; ++lane) {
        Value all = in[first * n + lane];
        for (size_t t = first + 1; t < end; ++t) all = apply(r.combine, e.type.dtype, all, in[t * n + lane], {});
        out[w * n + lane] = all;
      }
    }
  }

  void matrix_multiply(const ExprNode& e, std::vector<Value>& out) {
    const MatrixUnit& u = *k_.units[static_cast<size_t>(e.payload)];
    std::vector<double> a(static_cast<size_t>(u.m * u.k)), b(static_cast<size_t>(u.k * u.n));
    // Calls f(index in the row-major matrix, index in the vectors of all threads) for the elements that a warp holds.
    auto each = [&](const FragmentLayout& layout, int columns, int first, const auto& f) {
      for (int l = 0; l < u.warp; ++l)
        for (int i = 0; i < layout.elements(); ++i) {
          const Step at = layout.at(l, i);
          f(static_cast<size_t>(at.row * columns + at.column), static_cast<size_t>((first + l) * layout.elements() + i));
        }
    };
    for (int first = 0; first < threads_; first += u.warp) {
      const auto active = std::count(active_.begin() + first, active_.begin() + first + u.warp, 1);
      if (active == 0) continue;
      if (active < u.warp) find("a matmul that not all threads of a warp take part in");
      // The sums of integers are exact in doubles before they wrap.
      const auto number = [&](DType t, const Value& v) { return is_float(t) ? v.f : static_cast<double>(v.i); };
      const auto operand = [&](size_t n, Source from, const FragmentLayout& layout, int rows, int columns, bool along_rows) {
        std::vector<double>& to = n == 0 ? a : b;
        if (from == Source::Lanes)
          return each(layout, columns, first, [&](size_t at, size_t cell) {
            to[at] = number(n == 0 ? u.operand : u.of_b(), values_[e.args[n].raw][cell]);
          });
        const DType t = n == 0 ? u.operand : u.of_b();
        read_tile(e.args[n], first, along_rows ? rows : columns, along_rows ? columns : rows, t,
                  [&](int64_t i, int64_t j, const Value& v) {
                    to[static_cast<size_t>(along_rows ? i * columns + j : j * columns + i)] = number(t, v);
                  });
      };
      operand(0, u.a_from, u.a, u.m, u.k, u.a_from == Source::AlongK);
      operand(1, u.b_from, u.b, u.k, u.n, u.b_from == Source::AcrossK);
      each(u.c, u.n, first, [&](size_t at, size_t cell) {
        const size_t row = at / static_cast<size_t>(u.n), column = at % static_cast<size_t>(u.n);
        double sum = number(u.accumulator, values_[e.args[2].raw][cell]);
        for (size_t p = 0; p < static_cast<size_t>(u.k); ++p)
          sum += a[row * static_cast<size_t>(u.k) + p] * b[p * static_cast<size_t>(u.n) + column];
        out[cell] = is_float(u.accumulator)
                        ? from_float(round_to(u.accumulator, sum))
                        : apply(ExprOp::Add, u.accumulator, from_int(static_cast<int64_t>(sum)), from_int(0), {});
      });
    }
  }

  // Calls f(row, column, element) for the tile that starts at the element which `start` loads.
  template <class F>
  void read_tile(ExprId start, int thread, int64_t rows, int64_t columns, DType t, const F& f) {
    const ExprNode& load = k_.expr(start);
    const int64_t from = values_[load.args[0].raw][static_cast<size_t>(thread)].i;
    const auto at = [&](int64_t row, int64_t column, int64_t elements) {
      return load_cell(static_cast<uint32_t>(load.payload), from + tile_place(row, column, rows, elements), thread);
    };
    for (int64_t row = 0; row < rows; ++row)
      for (int64_t column = 0; column < columns; ++column)
        if (rlxc::bits(t) == 8) {
          const auto word = static_cast<int32_t>(at(row, column / 4, kTileBytes / 4).i);
          f(row, column, read_element(t, reinterpret_cast<const unsigned char*>(&word), column % 4));
        } else {
          f(row, column, at(row, column, kTileBytes * 8 / rlxc::bits(t)));
        }
  }

  void bitcast(const ExprNode& e, std::vector<Value>& out) {
    const std::vector<Value>& from = values_[e.args[0].raw];
    const DType type = k_.expr(e.args[0]).type.dtype;
    if (from.size() == out.size()) {
      for (size_t c = 0; c < out.size(); ++c) out[c] = reinterpret(e.type.dtype, type, from[c]);
      return;
    }
    std::vector<unsigned char> bytes(from.size() * static_cast<size_t>(rlxc::bits(type) / 8));
    for (size_t c = 0; c < from.size(); ++c) write_element(type, bytes.data(), static_cast<int64_t>(c), from[c]);
    for (size_t c = 0; c < out.size(); ++c) out[c] = read_element(e.type.dtype, bytes.data(), static_cast<int64_t>(c));
  }

  // Reduces by halves, as the renderers do.
  void reduce(const ExprNode& e, std::vector<Value>& out) {
    ExprOp op = e.op == ExprOp::ReduceAdd   ? ExprOp::Add
                : e.op == ExprOp::ReduceMul ? ExprOp::Mul
                : e.op == ExprOp::ReduceMax ? ExprOp::Max
                                            : ExprOp::Min;
    size_t n = k_.expr(e.args[0]).type.lanes;
    std::vector<Value> part(n);
    for (size_t w = 0; w < out.size(); ++w) {
      std::copy_n(values_[e.args[0].raw].begin() + w * n, n, part.begin());
      for (size_t half = n / 2; half > 0; half /= 2)
        for (size_t i = 0; i < half; ++i) part[i] = apply(op, e.type.dtype, part[i], part[i + half], {});
      out[w] = part[0];
    }
  }

  const Kernel& k_;
  InterpretLimits limits_;
  std::span<void* const> arguments_;
  std::vector<int64_t> symbols_;
  InterpretResult result_;
  int threads_ = 1;
  bool stopped_ = false;
  int64_t steps_ = 0, phase_ = 0, agent_ = 0, epoch_ = 0;
  uint32_t span_ = 1;                       // global barriers, plus one
  std::vector<std::vector<Value>> values_;  // by expression: [thread][vector lane]
  std::vector<uint32_t> var_node_;
  std::unordered_map<uint32_t, std::vector<uint32_t>> plans_;
  std::vector<Memory> memory_;
  std::vector<uint8_t> active_;
};

}  // namespace

InterpretResult interpret(const Kernel& k, std::span<void* const> arguments, std::span<const int64_t> symbols,
                          const InterpretLimits& limits) {
  return Interpreter(k, arguments, symbols, limits).run();
}

}  // namespace rlxc::kernel
