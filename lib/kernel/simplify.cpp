#include "kernel/simplify.h"

#include "kernel/rewrite.h"

namespace rlxc::kernel {
namespace {

// Walks backwards over the statements, so that the uses of a variable are counted before its Let.
class DeadLets {
 public:
  explicit DeadLets(Kernel* k) : k_(k), uses_(k->vars.size(), 0) {}

  int run() {
    block(&k_->body);
    return removed_;
  }

 private:
  void block(std::vector<Stmt>* stmts) {
    std::vector<bool> keep(stmts->size(), true);
    for (size_t i = stmts->size(); i-- > 0;) {
      Stmt& s = (*stmts)[i];
      block(&s.other);
      block(&s.body);
      if (s.kind == StmtKind::Let && uses_[s.var.raw] == 0 && k_->expr(s.value).op != ExprOp::ShuffleXor) {
        keep[i] = false;
        ++removed_;
        continue;
      }
      for (ExprId e : nodes_below(*k_, {s.index, s.value}))
        if (k_->expr(e).op == ExprOp::Var) ++uses_[k_->expr(e).payload];
    }
    size_t out = 0;
    for (size_t i = 0; i < keep.size(); ++i) {
      if (!keep[i]) continue;
      if (out != i) (*stmts)[out] = std::move((*stmts)[i]);
      ++out;
    }
    stmts->resize(out);
  }

  Kernel* k_;
  std::vector<int> uses_;
  int removed_ = 0;
};

// Let a = b: a becomes b.
int propagate_copies(Kernel* k) {
  std::unordered_map<int64_t, ExprId> copies;
  Rebuilder rebuild(k, [&](ExprId id) {
    const ExprNode& e = k->expr(id);
    auto it = e.op == ExprOp::Var ? copies.find(e.payload) : copies.end();
    return it == copies.end() ? ExprId() : it->second;
  });
  for_each_stmt(k->body, [&](Stmt& s) {
    if (!copies.empty()) s.index = rebuild(s.index), s.value = rebuild(s.value);
    if (s.kind != StmtKind::Let) return;
    ExprOp op = k->expr(s.value).op;
    if (op != ExprOp::Var && op != ExprOp::Const) return;
    copies[s.var.raw] = s.value;
    rebuild.forget();
  });
  return static_cast<int>(copies.size());
}

}  // namespace

int remove_dead_lets(Kernel& k) {
  propagate_copies(&k);
  return DeadLets(&k).run();
}

int simplify(Kernel& k) {
  int changes = remove_dead_lets(k);
  changes += name_shared(k);
  changes += remove_dead_lets(k);
  return changes;
}

}  // namespace rlxc::kernel
