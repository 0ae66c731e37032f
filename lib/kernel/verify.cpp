#include "kernel/verify.h"

#include <algorithm>
#include <set>

#include "kernel/ranges.h"
#include "kernel/rewrite.h"

namespace rlxc::kernel {
namespace {

bool is_value_type(DType t) { return rlxc::bits(t) >= 8 && !is_complex(t) && (!is_float(t) || rlxc::bits(t) >= 16); }
bool computable(DType t) { return t != DType::F16 && t != DType::BF16; }

class Verifier {
 public:
  Verifier(const Kernel& k, const VerifyLimits& limits) : k_(k), limits_(limits), ranges_(k) {}

  std::vector<std::string> run() {
    for (uint32_t i = 0; i < k_.exprs.size(); ++i) expression(i);
    if (!problems_.empty()) return std::move(problems_);  // later checks rely on valid expressions
    buffers();
    in_scope_.assign(k_.vars.size(), false);
    varying_.assign(k_.vars.size(), false);
    for (VarId v : k_.symbols) in_scope_[v.raw] = true;
    launch_ = launch_of(k_).on_device();
    block(k_.body, Control{true, true, true});
    if (static_cast<int64_t>(shared_bytes(k_)) > limits_.shared_bytes)
      wrong(std::to_string(shared_bytes(k_)) + " bytes of shared memory, the limit is " + std::to_string(limits_.shared_bytes));
    if (workgroup_size(k_) > limits_.workgroup_size)
      wrong("groups of " + std::to_string(workgroup_size(k_)) + " threads, the limit is " +
            std::to_string(limits_.workgroup_size));
    return std::move(problems_);
  }

 private:
  struct Control {
    bool nest;     // only the launch nest around: Grid and Thread loops may follow
    bool top;      // no loop around: Parallel loops may follow
    bool uniform;  // all threads of a workgroup arrive together
  };

  void wrong(std::string what) { problems_.push_back(k_.name + ": " + std::move(what)); }

  void expression(uint32_t id) {
    const ExprNode& e = k_.exprs[id];
    auto bad = [&](const std::string& what) {
      wrong("expression " + std::to_string(id) + " (" + std::string(name(e.op)) + "): " + what);
    };
    if (e.type.lanes == 0 || (e.type.lanes & (e.type.lanes - 1))) return bad("lanes are not a power of two");
    // 8-bit floats are bits that dot and matrix units read.
    const bool units_read = (e.op == ExprOp::Bitcast || e.op == ExprOp::Var) && is_narrow_float(e.type.dtype);
    if (!is_value_type(e.type.dtype) && !units_read) return bad("no values of type " + std::string(rlxc::name(e.type.dtype)));
    int n = operand_count(e.op);
    for (int a = 0; a < 3; ++a)
      if (a < n ? e.args[a].raw >= id : e.args[a].valid() && e.op != ExprOp::Load) return bad("operand " + std::to_string(a));
    auto type = [&](int a) { return k_.expr(e.args[a]).type; };
    switch (type_rule(e.op)) {
      case TypeRule::Leaf:
        if (e.op == ExprOp::Var &&
            (e.payload < 0 || static_cast<size_t>(e.payload) >= k_.vars.size() || k_.vars[e.payload].type != e.type))
          bad("no such variable, or not of that type");
        if (e.op == ExprOp::DotInstructions && e.type != Type(DType::I32)) bad("is not i32");
        break;
      case TypeRule::Memory: {
        if (e.payload < 0 || static_cast<size_t>(e.payload) >= k_.buffers.size()) return bad("no such buffer");
        const Buffer& b = k_.buffers[e.payload];
        if (!is_index_type(type(0).dtype) || (type(0).lanes != 1 && type(0).lanes != e.type.lanes)) bad("index is no integer");
        if (b.type.dtype != e.type.dtype || e.type.lanes % b.type.lanes) bad("type differs from that of buffer " + b.name);
        if (b.streamed) bad("reads the streamed buffer " + b.name);
        if (e.op == ExprOp::LoadIf && (type(1) != Type(DType::Bool) || type(2) != e.type))
          bad("condition or value of another type");
        break;
      }
      case TypeRule::Shape:
        if (type(0).dtype != e.type.dtype) bad("changes the element type");
        if (e.op == ExprOp::Lane && (e.payload < 0 || e.payload >= type(0).lanes)) bad("no such lane");
        if ((e.op == ExprOp::Broadcast || e.op == ExprOp::Ramp) && type(0).lanes != 1) bad("operand is a vector");
        if (e.op != ExprOp::Broadcast && e.op != ExprOp::Ramp && e.type.lanes != 1) bad("result is a vector");
        break;
      default: operator_types(e, type, bad);
    }
  }

  template <class TypeOf, class Bad>
  void operator_types(const ExprNode& e, const TypeOf& type, const Bad& bad) {
    TypeRule rule = type_rule(e.op);
    Type first = type(0);
    if (e.op == ExprOp::Select) {
      if (first.dtype != DType::Bool || (first.lanes != 1 && first.lanes != e.type.lanes)) bad("condition is not bool");
      if (type(1) != e.type || type(2) != e.type) bad("branches of another type");
      return;
    }
    if (e.op == ExprOp::ShuffleXor) {
      if (first != e.type) bad("changes the type");
      return;
    }
    if (e.op == ExprOp::WarpReduce) {
      const WarpReduction r = warp_reduction(e.payload);
      if (first != e.type) bad("changes the type");
      if (r.threads < 2 || (r.combine != ExprOp::Add && r.combine != ExprOp::Max && r.combine != ExprOp::Min))
        bad("no such reduction");
      return;
    }
    if (moves_lanes(e.op)) {
      if (first != e.type || type(1) != e.type || e.type.lanes % 2 != 0) bad("operands are not two vectors of its type");
      const bool groups = e.op == ExprOp::InterleaveLow || e.op == ExprOp::InterleaveHigh;
      if (e.payload != 0 &&
          (e.payload < 0 || (groups && e.payload % 2 != 0) || e.type.lanes % (groups ? e.payload : 2 * e.payload) != 0))
        bad("the lanes are no groups of its size");
      return;
    }
    if (e.op == ExprOp::MatrixMultiply) {
      if (e.payload < 0 || static_cast<size_t>(e.payload) >= k_.units.size()) return bad("the kernel has no such matrix unit");
      const MatrixUnit* u = k_.units[static_cast<size_t>(e.payload)];
      const auto in_shared = [&](int n) {
        const ExprNode& a = k_.expr(e.args[static_cast<size_t>(n)]);
        return a.op == ExprOp::Load && a.type == Type(rlxc::bits(u->operand) == 8 ? DType::I32 : u->operand) &&
               k_.buffers[static_cast<size_t>(a.payload)].space == Space::Shared;
      };
      const auto fits = [&](int n, Source from, const FragmentLayout& layout) {
        const DType own = n == 0 ? u->operand : u->of_b();
        return from == Source::Lanes ? type(static_cast<size_t>(n)) == Type(own, layout.elements()) : in_shared(n);
      };
      if (!fits(0, u->a_from, u->a) || !fits(1, u->b_from, u->b) || type(2) != e.type ||
          e.type != Type(u->accumulator, u->c.elements()))
        bad("operands are not those of the matrix unit");
      if (workgroup_size(k_) % u->warp) bad("a group is not made of whole warps");
      return;
    }
    if (e.op == ExprOp::Dot) {
      const bool integers = is_integer(first.dtype) && is_integer(type(1).dtype) && is_integer(e.type.dtype);
      const bool narrow = first.dtype == DType::BF16 || is_narrow_float(first.dtype);
      const bool floats = narrow && type(1).dtype == first.dtype && e.type.dtype == DType::F32;
      if ((!integers && !floats) || type(1).lanes != first.lanes || type(2) != e.type || first.lanes % e.type.lanes)
        bad("operands are not those of a dot unit");
      return;
    }
    if (e.op == ExprOp::Cast) {
      if (first.lanes != e.type.lanes) bad("changes the number of lanes");
      return;
    }
    if (e.op == ExprOp::Bitcast) {
      const auto width = [](Type t) { return rlxc::bits(t.dtype) * t.lanes; };
      if (width(first) != width(e.type)) bad("changes the width");
      return;
    }
    for (int a = 1; a < operand_count(e.op); ++a)
      if (type(a) != first) bad("operands of different types");
    bool test = rule == TypeRule::Order || rule == TypeRule::Test;
    if (e.type != (test ? Type(DType::Bool, first.lanes) : first)) bad("result of another type");
    DType t = first.dtype;
    bool fits = computable(t);
    if (rule == TypeRule::Float || rule == TypeRule::Test) fits = fits && is_float(t);
    else if (rule == TypeRule::Logic) fits = t == DType::Bool;
    else if (rule == TypeRule::Bits) fits = !is_float(t);
    else if (e.op == ExprOp::Eq || e.op == ExprOp::Ne) fits = computable(t);
    else fits = fits && t != DType::Bool;
    if (!fits) bad("not defined on " + std::string(rlxc::name(t)));
  }

  bool is_index(ExprId e) const { return k_.expr(e).type.lanes == 1 && is_index_type(k_.expr(e).type.dtype); }

  void buffers() {
    bool allocations = false;
    for (const Buffer& b : k_.buffers) {
      if (!b.extent.valid() || !is_index(b.extent)) {
        wrong("buffer " + b.name + " has no extent");
        continue;
      }
      if (b.space != Space::Global) {
        int64_t n = 0;
        allocations = true;
        if (!k_.constant_int(b.extent, &n) || n < 1) wrong("buffer " + b.name + " has no constant extent");
      } else if (allocations) wrong("argument " + b.name + " comes after an allocation");
    }
  }

  bool varying(ExprId root) {
    bool found = false;
    for (ExprId id : nodes_below(k_, {root})) {
      const ExprNode& e = k_.expr(id);
      if (e.op == ExprOp::Var) {
        if (!in_scope_[e.payload] && reported_.insert(static_cast<uint32_t>(e.payload)).second)
          wrong("variable " + k_.vars[e.payload].name + " is used out of scope");
        found = found || varying_[e.payload];
      }
      if (is_collective(k_, e)) found = true;
      if (type_rule(e.op) != TypeRule::Memory) continue;
      const Buffer& b = k_.buffers[e.payload];
      if (b.space != Space::Global || b.access != Access::Read) found = true;
      if (unsettled_.contains(static_cast<uint32_t>(e.payload))) wrong(b.name + " is read before its sums are settled");
      ranges_.open();
      if (e.op == ExprOp::LoadIf) ranges_.assume(e.args[1], true);
      bounds(b, e.args[0], e.type.lanes, "load of ");
      ranges_.close();
    }
    return found;
  }

  // Whether the value is a product that may go on, or a variable that is one.
  bool goes_on(ExprId value) const {
    const ExprNode& e = k_.expr(value);
    if (e.op == ExprOp::Var) return products_.contains(static_cast<uint32_t>(e.payload));
    return e.op == ExprOp::MatrixMultiply && k_.units[static_cast<size_t>(e.payload)]->later;
  }
  // Reports sums that are not settled, but for those of `before`.
  void settled(const std::string& where, const std::set<uint32_t>& before = {}) {
    std::erase_if(unsettled_, [&](uint32_t b) {
      if (before.contains(b)) return false;
      wrong("the sums of " + k_.buffers[b].name + " are not settled " + where);
      return true;
    });
  }

  // Reports certain violations only: the whole interval of the index is out of bounds. Accesses to empty buffers don't run.
  void bounds(const Buffer& b, ExprId index, int lanes, const char* what) {
    Interval at = ranges_.of(index), extent = ranges_.of(b.extent);
    if (at.empty() || extent.max == 0) return;
    if (at.max < 0 || (extent.max != Interval::kMax && at.min != Interval::kMin &&
                       at.min + (lanes / b.type.lanes - 1) * (k_.expr(index).type.lanes == 1) >= extent.max))
      wrong(what + b.name + " out of bounds: index " + std::to_string(at.min) + " or more, " + std::to_string(extent.max) +
            " elements");
  }

  void block(const std::vector<Stmt>& body, Control c) {
    std::vector<VarId> defined;
    ranges_.open();
    for (const Stmt& s : body) {
      bool nest = c.nest && body.size() == 1;
      statement(s, {nest, c.top, c.uniform}, &defined);
    }
    ranges_.close();
    for (VarId v : defined) in_scope_[v.raw] = false;
  }

  void statement(const Stmt& s, Control c, std::vector<VarId>* defined) {
    bool launch = s.kind == StmtKind::For && (s.loop == LoopKind::Grid || s.loop == LoopKind::Thread);
    bool index_varies = s.index.valid() && varying(s.index), value_varies = s.value.valid() && varying(s.value);
    switch (s.kind) {
      case StmtKind::Comment:
      case StmtKind::Source: return;
      case StmtKind::Prefetch:
        if (k_.buffer(s.buffer).space != Space::Global)
          wrong("prefetch of " + k_.buffer(s.buffer).name + ", which is no argument");
        if (!is_index(s.index)) wrong("index into " + k_.buffer(s.buffer).name + " is no integer");
        return;
      case StmtKind::Await:
        if (!launch_) wrong("an await outside a workgroup");
        return;
      case StmtKind::Settle:
        if (unsettled_.erase(s.buffer.raw) == 0) wrong(k_.buffer(s.buffer).name + " has no sums to settle");
        return;
      case StmtKind::Barrier:
        if (!launch_) wrong("a barrier outside a workgroup");
        if (!c.uniform) wrong("a barrier that not all threads of a workgroup reach");
        settled("at a barrier");
        return;
      case StmtKind::Alloc:
        if (k_.buffer(s.buffer).space == Space::Shared && !launch_)
          wrong("shared buffer " + k_.buffer(s.buffer).name + " outside a workgroup");
        return;
      case StmtKind::Let: {
        if (k_.var(s.var).type != k_.expr(s.value).type)
          wrong("variable " + k_.var(s.var).name + " has another type than its value");
        if (in_scope_[s.var.raw]) wrong("variable " + k_.var(s.var).name + " is defined twice");
        if (!c.uniform)
          for (ExprId e : nodes_below(k_, {s.value}))
            if (is_collective(k_, k_.expr(e)))
              wrong(std::string(name(k_.expr(e).op)) + " that not all threads of a workgroup reach");
        if (is_index(s.value)) ranges_.bind(s.var, ranges_.of(s.value));
        in_scope_[s.var.raw] = true;
        varying_[s.var.raw] = value_varies;
        if (goes_on(s.value)) products_.insert(s.var.raw);
        defined->push_back(s.var);
        return;
      }
      case StmtKind::Store:
      case StmtKind::AtomicAdd: {
        const Buffer& b = k_.buffer(s.buffer);
        Type t = k_.expr(s.value).type;
        if (b.space == Space::Global && b.access == Access::Read) wrong("store to input " + b.name);
        if (t.dtype != b.type.dtype || t.lanes % b.type.lanes)
          wrong("store of " + std::string(rlxc::name(t.dtype)) + " to " + b.name);
        if (!is_index(s.index)) wrong("index into " + b.name + " is no integer");
        else bounds(b, s.index, t.lanes, "store to ");
        if (s.kind == StmtKind::AtomicAdd && (t.lanes != 1 || b.space == Space::Register))
          wrong("atomic add of a vector or to registers");
        if (goes_on(s.value)) unsettled_.insert(s.buffer.raw);
        return;
      }
      case StmtKind::If:
        if (k_.expr(s.value).type != Type(DType::Bool)) wrong("condition is not bool");
        for (bool holds : {true, false}) {
          ranges_.open();
          ranges_.assume(s.value, holds);
          block(holds ? s.body : s.other, {false, false, c.uniform && !value_varies});
          ranges_.close();
        }
        return;
      case StmtKind::For: {
        const std::string& i = k_.var(s.var).name;
        if (!is_index(s.index) || k_.expr(s.index).type != k_.var(s.var).type)
          return wrong("extent of loop " + i + " is of another type");
        int64_t n = 0;
        if (launch && !c.nest) wrong("grid or thread loop " + i + " is not part of the launch nest");
        if (s.loop == LoopKind::Thread && (!k_.constant_int(s.index, &n) || n < 1))
          wrong("thread loop " + i + " has no constant extent");
        if (s.loop == LoopKind::Parallel && (!c.top || launch_)) wrong("parallel loop " + i + " is not at the top level");
        ranges_.open();
        ranges_.bind_loop(s);
        in_scope_[s.var.raw] = true;
        varying_[s.var.raw] = s.loop == LoopKind::Thread || index_varies;
        const std::set<uint32_t> before = unsettled_;
        block(s.body, {c.nest && launch, false, c.uniform && !index_varies});
        settled("where the loop " + i + " ends", before);
        in_scope_[s.var.raw] = false;
        ranges_.close();
      }
    }
  }

  const Kernel& k_;
  VerifyLimits limits_;
  Ranges ranges_;
  bool launch_ = false;
  std::vector<bool> in_scope_, varying_;
  std::set<uint32_t> reported_, products_, unsettled_;  // variables of products that may go on, and buffers with their sums
  std::vector<std::string> problems_;
};

}  // namespace

std::vector<std::string> verify(const Kernel& k, const VerifyLimits& limits) { return Verifier(k, limits).run(); }

}  // namespace rlxc::kernel
