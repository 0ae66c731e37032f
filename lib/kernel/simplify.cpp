#include "kernel/simplify.h"

#include "kernel/rewrite.h"

namespace rlxc::kernel {
namespace {

// Visits statements backwards, which counts the uses of a variable before its Let.
class DeadLets {
 public:
  explicit DeadLets(Kernel* k) : k_(k), uses_(k->vars.size(), 0), is_read_(k->buffers.size(), false) {
    if (k->argument_count() == 0)
      is_read_.assign(is_read_.size(), true);  // a function (kernel/math.h): its last store is its value
    std::vector<ExprId> roots;
    for_each_stmt(k->body, [&](const Stmt& s) { roots.insert(roots.end(), {s.index, s.value}); });
    for (ExprId e : nodes_below(*k, roots))
      if (type_rule(k->expr(e).op) == TypeRule::Memory) is_read_[static_cast<size_t>(k->expr(e).payload)] = true;
  }

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
      if (is_dead(s)) {
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

  bool is_dead(const Stmt& s) const {
    if (s.value.valid() && is_collective(*k_, k_->expr(s.value))) return false;
    if (s.kind == StmtKind::Let) return uses_[s.var.raw] == 0;
    return (s.kind == StmtKind::Alloc || s.kind == StmtKind::Store) && k_->buffer(s.buffer).space == Space::Register &&
           !is_read_[s.buffer.raw];
  }

  Kernel* k_;
  std::vector<int> uses_;
  std::vector<bool> is_read_;  // of buffers
  int removed_ = 0;
};

// Replaces a by b after Let a = b.
int propagate_copies(Kernel* k) {
  std::unordered_map<int64_t, ExprId> copies;
  Rebuilder rebuild(k, [&](ExprId id) {
    const ExprNode& e = k->expr(id);
    auto it = e.op == ExprOp::Var ? copies.find(e.payload) : copies.end();
    return it == copies.end() ? ExprId() : it->second;
  });
  for_each_stmt(k->body, [&](Stmt& s) {
    if (!copies.empty()) {
      s.index = rebuild(s.index);
      s.value = rebuild(s.value);
    }
    if (s.kind != StmtKind::Let) return;
    ExprOp op = k->expr(s.value).op;
    if (op != ExprOp::Var && op != ExprOp::Const) return;
    copies[s.var.raw] = s.value;
    rebuild.forget();
  });
  return static_cast<int>(copies.size());
}

void count_uses(const Kernel& k, const std::vector<Stmt>& body, std::vector<int>* uses) {
  for_each_stmt(body, [&](const Stmt& s) {
    for (ExprId root : {s.index, s.value})
      for (ExprId e : nodes_below(k, {root}))
        if (k.expr(e).op == ExprOp::Var) ++(*uses)[k.expr(e).payload];
  });
}

bool reads_mutable(const Kernel& k, const ExprNode& e) {
  if (type_rule(e.op) != TypeRule::Memory) return false;
  const Buffer& b = k.buffers[e.payload];
  return b.space != Space::Global || b.access != Access::Read;
}

class Sink {
 public:
  explicit Sink(Kernel* k) : k_(k), uses_(k->vars.size(), 0) { count_uses(*k, k->body, &uses_); }

  int run() {
    block(&k_->body);
    return sunk_;
  }

 private:
  void block(std::vector<Stmt>* stmts) {
    std::unordered_map<int64_t, ExprId> pending;  // reads, by the variable of their Let
    std::vector<Stmt> result;
    std::vector<Stmt> held;  // their Lets
    Rebuilder rebuild(k_, [&](ExprId id) {
      const ExprNode& e = k_->expr(id);
      auto it = e.op == ExprOp::Var ? pending.find(e.payload) : pending.end();
      if (it == pending.end()) return ExprId();
      taken_.push_back(e.payload);
      return it->second;
    });
    auto flush = [&] {
      for (Stmt& s : held)
        if (pending.count(s.var.raw)) result.push_back(std::move(s));
      held.clear();
      pending.clear();
    };
    for (Stmt& s : *stmts) {
      bool single = s.kind == StmtKind::Let && uses_[s.var.raw] == 1 && reads_mutable(*k_, k_->expr(s.value));
      bool simple =
          s.kind == StmtKind::Store || s.kind == StmtKind::Let || s.kind == StmtKind::AtomicAdd || s.kind == StmtKind::If;
      if (!pending.empty() && simple) {
        taken_.clear();
        rebuild.forget();
        ExprId index = rebuild(s.index), value = rebuild(s.value);
        if (!taken_.empty()) {
          s.index = index;
          s.value = value;
          for (int64_t v : taken_) {
            pending.erase(v);
            ++sunk_;
          }
        }
      }
      if (single) {
        pending[s.var.raw] = s.value;
        held.push_back(std::move(s));
        continue;
      }
      if (s.kind != StmtKind::Let && s.kind != StmtKind::Comment) flush();
      block(&s.body);
      block(&s.other);
      result.push_back(std::move(s));
    }
    flush();
    *stmts = std::move(result);
  }

  Kernel* k_;
  std::vector<int> uses_;
  std::vector<int64_t> taken_;
  int sunk_ = 0;
};

class Split {
 public:
  Split(Kernel* k, int height) : k_(k), height_(height) {}

  int run() {
    block(&k_->body);
    return count_;
  }

 private:
  void block(std::vector<Stmt>* stmts) {
    std::vector<Stmt> result;
    for (Stmt& s : *stmts) {
      block(&s.body);
      block(&s.other);
      bool launch = s.kind == StmtKind::For && (s.loop == LoopKind::Grid || s.loop == LoopKind::Thread);
      if (!launch) {
        s.index = split(s.index, &result);
        s.value = split(s.value, &result);
      }
      result.push_back(std::move(s));
    }
    *stmts = std::move(result);
  }

  ExprId split(ExprId root, std::vector<Stmt>* before) {
    std::vector<ExprId> nodes = nodes_below(*k_, {root});
    std::unordered_map<uint32_t, std::pair<ExprId, int>> done;  // new expression and its height
    for (size_t i = nodes.size(); i-- > 0;) {
      const ExprNode e = k_->expr(nodes[i]);
      std::array<ExprId, 3> args = e.args;
      int high = 0;
      for (ExprId& a : args)
        if (a.valid()) {
          high = std::max(high, done[a.raw].second + 1);
          a = done[a.raw].first;
        }
      ExprId id = args == e.args ? nodes[i] : with_operands(k_, e, args);
      if (high >= height_ && nodes[i] != root) {
        Stmt let;
        let.kind = StmtKind::Let;
        k_->vars.push_back({"rlxc_part" + std::to_string(k_->vars.size()), e.type, VarRole::Let});
        let.var = VarId(k_->vars.size() - 1);
        let.value = id;
        before->push_back(let);
        id = k_->intern({ExprOp::Var, e.type, {}, static_cast<int64_t>(let.var.raw)});
        high = 0;
        ++count_;
      }
      done[nodes[i].raw] = {id, high};
    }
    return root.valid() ? done[root.raw].first : root;
  }

  Kernel* k_;
  int height_, count_ = 0;
};

}  // namespace

int remove_dead_lets(Kernel& k) {
  propagate_copies(&k);
  int removed = 0;
  while (const int more = DeadLets(&k).run()) removed += more;  // what was removed read other registers
  return removed;
}

int sink_reads(Kernel& k) { return Sink(&k).run(); }
int split_deep(Kernel& k, int height) { return Split(&k, height).run(); }

void compact(Kernel& k) {
  std::vector<ExprId> roots;
  for (const Buffer& b : k.buffers) roots.push_back(b.extent);
  for_each_stmt(k.body, [&](const Stmt& s) {
    roots.push_back(s.index);
    roots.push_back(s.value);
  });
  std::vector<ExprId> used = nodes_below(k, roots);
  Kernel fresh(k.name);
  std::vector<ExprId> moved(k.exprs.size());
  for (size_t i = used.size(); i-- > 0;) {
    ExprNode e = k.expr(used[i]);
    for (ExprId& a : e.args)
      if (a.valid()) a = moved[a.raw];
    moved[used[i].raw] = fresh.intern(e);
  }
  for (Buffer& b : k.buffers) b.extent = moved[b.extent.raw];
  for_each_stmt(k.body, [&](Stmt& s) {
    if (s.index.valid()) s.index = moved[s.index.raw];
    if (s.value.valid()) s.value = moved[s.value.raw];
  });
  fresh.comments = std::move(k.comments);
  fresh.buffers = std::move(k.buffers);
  fresh.vars = std::move(k.vars);
  fresh.symbols = std::move(k.symbols);
  fresh.body = std::move(k.body);
  fresh.units = std::move(k.units);
  k = std::move(fresh);
}

int simplify(Kernel& k) {
  int changes = remove_dead_lets(k);
  changes += simplify_indices(k);
  changes += name_shared(k);
  changes += remove_dead_lets(k);
  changes += split_deep(k);
  changes += sink_reads(k);
  compact(k);
  return changes;
}

}  // namespace rlxc::kernel
