#include "kernel/ranges.h"
#include "kernel/rewrite.h"
#include "kernel/simplify.h"

namespace rlxc::kernel {
namespace {

bool fits(Interval i) { return i.empty() || (i.min >= INT32_MIN && i.max <= INT32_MAX); }

class Narrow {
 public:
  Narrow(Kernel* k, bool assume) : k_(k), assume_(assume), ranges_(*k), narrow_(k->vars.size(), false) {}

  int run() {
    for (VarId v : k_->symbols) narrow(v, assume_ || fits({k_->var(v).min, k_->var(v).max}));
    block(&k_->body);
    for (Buffer& b : k_->buffers) b.extent = rewrite(b.extent);
    // Types change last, because the analysis needs the original kernel.
    for (size_t v = 0; v < narrow_.size(); ++v)
      if (narrow_[v]) k_->vars[v].type.dtype = DType::I32;
    compact(*k_);
    return count_;
  }

 private:
  void narrow(VarId v, bool yes) {
    if (!yes || k_->var(v).type.dtype != DType::I64) return;
    narrow_[v.raw] = true;
    ++count_;
  }

  bool is_narrow(ExprId id) const { return k_->expr(id).type.dtype == DType::I32; }

  void block(std::vector<Stmt>* stmts) {
    ranges_.open();
    for (Stmt& s : *stmts) {
      ExprId old_index = s.index, old_value = s.value;
      s.index = rewrite(s.index);
      s.value = rewrite(s.value);
      if (s.kind == StmtKind::Let) {
        narrow(s.var, is_narrow(s.value));
        if (k_->var(s.var).type == Type(DType::I64)) ranges_.bind(s.var, ranges_.of(old_value));
      } else if (s.kind == StmtKind::Store || s.kind == StmtKind::AtomicAdd) {
        if (k_->buffer(s.buffer).type.dtype == DType::I64) s.value = wide(s.value);
      } else if (s.kind == StmtKind::If) {
        for (bool holds : {true, false}) {
          ranges_.open();
          ranges_.assume(old_value, holds);
          block(holds ? &s.body : &s.other);
          ranges_.close();
        }
      } else if (s.kind == StmtKind::For) {
        narrow(s.var, is_narrow(s.index));
        ranges_.open();
        ranges_.bind(s.var, {0, ranges_.of(old_index).max == Interval::kMax ? Interval::kMax : ranges_.of(old_index).max - 1});
        block(&s.body);
        ranges_.close();
      }
    }
    ranges_.close();
  }

  ExprId wide(ExprId id) { return is_narrow(id) ? cast_to({k_, id}, DType::I64).id : id; }

  ExprId rewrite(ExprId root) {
    return rebuild_bottom_up(*k_, root,
                             [&](ExprId id, const ExprNode& e, const std::array<ExprId, 3>& args) { return node(id, e, args); });
  }

  // e: the original node; args: its operands, narrowed where possible.
  ExprId node(ExprId id, const ExprNode& e, std::array<ExprId, 3> args) {
    bool is64 = e.type.dtype == DType::I64;
    if (is64 && e.op == ExprOp::Const) return fits({e.payload, e.payload}) ? constant_int(k_, DType::I32, e.payload).id : id;
    if (is64 && e.op == ExprOp::Var)
      return narrow_[e.payload] ? k_->intern({e.op, {DType::I32, e.type.lanes}, {}, e.payload}) : id;
    if (is64 && e.op == ExprOp::Cast && is_narrow(args[0])) return args[0];
    if (e.op == ExprOp::Cast) return cast_to({k_, args[0]}, e.type.dtype).id;

    std::array<bool, 3> was64{};
    bool all_narrow = true;
    for (int a = 0; a < operand_count(e.op); ++a) {
      was64[a] = k_->expr(e.args[a]).type.dtype == DType::I64;
      if (was64[a] && !is_narrow(args[a])) all_narrow = false;
    }
    bool memory = type_rule(e.op) == TypeRule::Memory;
    bool arithmetic = is64 && !memory && e.op != ExprOp::Bitcast, bounded = false;
    if (memory) {
      if (e.op == ExprOp::LoadIf && was64[2]) args[2] = wide(args[2]);
    } else if (!all_narrow || (arithmetic && !assume_ && !fits(ranges_.of(id))) || e.op == ExprOp::Bitcast) {
      for (int a = 0; a < operand_count(e.op); ++a)
        if (was64[a]) args[a] = wide(args[a]);
      bounded = arithmetic && fits(ranges_.of(id));  // such as an index that was read, within its range
      arithmetic = false;
    }
    ExprNode copy = e;
    copy.args = args;
    if (arithmetic) copy.type.dtype = DType::I32;
    const ExprId result = with_operands(k_, copy, args);
    return bounded ? cast_to({k_, result}, DType::I32).id : result;
  }

  Kernel* k_;
  bool assume_;
  Ranges ranges_;
  std::vector<bool> narrow_;
  int count_ = 0;
};

}  // namespace

int narrow_indices(Kernel& k, bool assume) { return Narrow(&k, assume).run(); }

}  // namespace rlxc::kernel
