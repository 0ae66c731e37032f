#include <algorithm>
#include <map>

#include "kernel/ranges.h"
#include "kernel/rewrite.h"
#include "kernel/simplify.h"

namespace rlxc::kernel {
namespace {

// An integer expression as a linear combination of terms.
struct Sum {
  std::map<uint32_t, int64_t> terms;  // expression -> factor
  int64_t constant = 0;
};

class Indices {
 public:
  explicit Indices(Kernel* k) : k_(k), ranges_(*k) {}

  int run() {
    block(&k_->body);
    return changes_;
  }

 private:
  Expr expr(ExprId id) { return {k_, id}; }
  static bool is_index(Type t) { return t == Type(DType::I64); }

  void block(std::vector<Stmt>* stmts) {
    ranges_.open();
    std::vector<Stmt> result;
    for (Stmt& s : *stmts) {
      s.index = rewrite(s.index);
      s.value = rewrite(s.value);
      if (s.kind == StmtKind::Let && is_index(k_->var(s.var).type)) ranges_.bind(s.var, ranges_.of(s.value));
      if (s.kind == StmtKind::If) {
        if (branch(&s, &result)) continue;
      } else if (s.kind == StmtKind::For) {
        if (loop(&s, &result)) continue;
      }
      result.push_back(std::move(s));
    }
    *stmts = std::move(result);
    ranges_.close();
  }

  // Returns true if the statement was replaced by one of its bodies or removed.
  bool branch(Stmt* s, std::vector<Stmt>* result) {
    for (bool holds : {true, false}) {
      ranges_.open();
      ranges_.assume(s->value, holds);
      block(holds ? &s->body : &s->other);
      ranges_.close();
    }
    int64_t taken = 0;
    if (!k_->constant_int(s->value, &taken)) return false;
    ++changes_;
    splice(taken ? &s->body : &s->other, result);
    return true;
  }

  bool loop(Stmt* s, std::vector<Stmt>* result) {
    bool plain = s->loop == LoopKind::Serial || s->loop == LoopKind::Unroll;
    Interval extent = ranges_.of(s->index);
    if (plain && extent.max <= 0 && !extent.empty()) return ++changes_, true;
    ranges_.open();
    ranges_.bind_loop(*s);
    block(&s->body);
    ranges_.close();
    if (!plain || extent.min != 1 || extent.max != 1) return false;
    ++changes_;
    Stmt zero;
    zero.kind = StmtKind::Let;
    zero.var = s->var;
    zero.value = constant_int(k_, k_->var(s->var).type.dtype, 0).id;
    k_->vars[s->var.raw].role = VarRole::Let;
    result->push_back(std::move(zero));
    splice(&s->body, result);
    return true;
  }

  static void splice(std::vector<Stmt>* from, std::vector<Stmt>* to) {
    for (Stmt& s : *from) to->push_back(std::move(s));
  }

  // Rewrites operands first. Facts hold for the whole statement: each node is visited once.
  ExprId rewrite(ExprId root) {
    const ExprId now = rebuild_bottom_up(*k_, root, [&](ExprId id, const ExprNode& e, const std::array<ExprId, 3>& args) {
      return improve(args == e.args ? id : with_operands(k_, e, args));
    });
    if (now != root) ++changes_;
    return now;
  }

  ExprId improve(ExprId id) {
    const ExprNode e = k_->expr(id);
    if (e.op == ExprOp::LoadIf) {
      int64_t holds = 0;
      if (!k_->constant_int(e.args[1], &holds)) return id;
      return holds ? k_->intern({ExprOp::Load, e.type, {e.args[0]}, e.payload}) : e.args[2];
    }
    if (operand_count(e.op) == 2 && is_index(k_->expr(e.args[0]).type) && e.type == Type(DType::Bool)) return compare(id, e);
    if (!is_index(e.type) || e.op == ExprOp::Const) return id;
    Interval range = ranges_.of(id);
    if (range.min == range.max && e.op != ExprOp::Var) return constant_int(k_, DType::I64, range.min).id;
    switch (e.op) {
      case ExprOp::Div:
      case ExprOp::Mod: return divide(id, e);
      case ExprOp::Add:
      case ExprOp::Sub: return build(sum_of(id), id);
      case ExprOp::Mul: return product(id, e);
      case ExprOp::Min:
      case ExprOp::Max: {
        Interval a = ranges_.of(e.args[0]), b = ranges_.of(e.args[1]);
        if (a.max <= b.min) return e.args[e.op == ExprOp::Min ? 0 : 1];
        if (b.max <= a.min) return e.args[e.op == ExprOp::Min ? 1 : 0];
        return id;
      }
      default: return id;
    }
  }

  ExprId compare(ExprId id, const ExprNode& e) {
    Interval a = ranges_.of(e.args[0]), b = ranges_.of(e.args[1]);
    if (a.empty() || b.empty()) return id;
    auto known = [&](bool v) { return constant_int(k_, DType::Bool, v).id; };
    if (e.args[0] == e.args[1]) return known(e.op == ExprOp::Le || e.op == ExprOp::Eq);
    bool below = a.max<b.min, above = a.min> b.max;
    if (e.op == ExprOp::Lt && (below || a.min >= b.max)) return known(below);
    if (e.op == ExprOp::Le && (a.max <= b.min || above)) return known(a.max <= b.min);
    if ((e.op == ExprOp::Eq || e.op == ExprOp::Ne) && (below || above)) return known(e.op == ExprOp::Ne);
    return id;
  }

  // Distributes (x + c) * d and (x * c) * d for constants c, d.
  ExprId product(ExprId id, const ExprNode& e) {
    int64_t d = 0, c = 0;
    if (!k_->constant_int(e.args[1], &d)) return k_->constant_int(e.args[0], &c) ? (expr(e.args[1]) * expr(e.args[0])).id : id;
    const ExprNode inner = k_->expr(e.args[0]);
    if (inner.op == ExprOp::Mul && k_->constant_int(inner.args[1], &c)) return (expr(inner.args[0]) * (c * d)).id;
    if (inner.op == ExprOp::Add && k_->constant_int(inner.args[1], &c)) return (expr(inner.args[0]) * d + c * d).id;
    return id;
  }

  // Expands additions, subtractions and products with constants. Stops at 64 terms.
  Sum sum_of(ExprId root) {
    Sum sum;
    std::vector<std::pair<ExprId, int64_t>> work{{root, 1}};
    size_t steps = 0;
    while (!work.empty()) {
      auto [id, factor] = work.back();
      work.pop_back();
      const ExprNode& e = k_->expr(id);
      int64_t c = 0;
      bool open = ++steps < 64;
      if (e.op == ExprOp::Const) sum.constant += e.payload * factor;
      else if (open && (e.op == ExprOp::Add || e.op == ExprOp::Sub)) {
        work.push_back({e.args[1], e.op == ExprOp::Add ? factor : -factor});
        work.push_back({e.args[0], factor});
      } else if (open && e.op == ExprOp::Mul && k_->constant_int(e.args[1], &c) && small(c) && small(factor))
        work.push_back({e.args[0], factor * c});
      else sum.terms[id.raw] += factor;
    }
    return sum;
  }

  static bool small(int64_t c) { return c > -(int64_t{1} << 31) && c < (int64_t{1} << 31); }

  // Emits terms in order of id (older first: outer loops), then the constant. Returns the old form unless terms cancelled.
  ExprId build(const Sum& sum, ExprId old) {
    Expr total = assemble(sum);
    return nodes_below(*k_, {total.id}).size() < nodes_below(*k_, {old}).size() ? total.id : old;
  }

  Expr assemble(const Sum& sum) {
    Expr total = constant_int(k_, DType::I64, 0);
    for (auto [id, factor] : sum.terms)
      if (factor != 0)
        total = factor < 0 && total.node().op != ExprOp::Const ? total - expr(ExprId(id)) * -factor
                                                               : total + expr(ExprId(id)) * factor;
    return sum.constant < 0 && total.node().op != ExprOp::Const ? total - -sum.constant : total + sum.constant;
  }

  // x = q * c + r, where r has the terms that c does not divide: x / c = q + r / c and x % c = r % c if x and r are not negative.
  ExprId divide(ExprId id, const ExprNode& e) {
    int64_t c = 0, inner = 0;
    if (!k_->constant_int(e.args[1], &c) || c <= 0 || ranges_.of(e.args[0]).min < 0) return id;
    const ExprNode x = k_->expr(e.args[0]);
    if (x.op == ExprOp::Div && e.op == ExprOp::Div && k_->constant_int(x.args[1], &inner) && small(inner) && small(c) &&
        ranges_.of(x.args[0]).min >= 0)
      return improve((expr(x.args[0]) / (inner * c)).id);
    if (x.op == ExprOp::Mod && k_->constant_int(x.args[1], &inner) && inner % c == 0 && ranges_.of(x.args[0]).min >= 0)
      return e.op == ExprOp::Mod ? improve((expr(x.args[0]) % c).id) : id;
    Sum all = sum_of(e.args[0]), quotient, rest;
    for (auto [term, factor] : all.terms) {
      if (factor % c == 0) quotient.terms[term] = factor / c;
      else rest.terms[term] = factor;
    }
    rest.constant = all.constant % c;
    if (rest.constant < 0) rest.constant += c;
    quotient.constant = (all.constant - rest.constant) / c;
    Expr r = assemble(rest);
    Interval range = ranges_.of(r.id);
    if (range.min < 0) return id;
    bool fits = range.max < c, whole = quotient.terms.empty() && quotient.constant == 0;
    if (e.op == ExprOp::Mod) return fits ? r.id : whole ? id : (r % c).id;
    Expr q = assemble(quotient);
    return fits ? q.id : whole ? id : (q + r / c).id;
  }

  Kernel* k_;
  Ranges ranges_;
  int changes_ = 0;
};

}  // namespace

int simplify_indices(Kernel& k) { return Indices(&k).run(); }

}  // namespace rlxc::kernel
