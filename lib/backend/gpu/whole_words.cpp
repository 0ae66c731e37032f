#include "backend/gpu/whole_words.h"

#include <algorithm>
#include <optional>

#include "backend/gpu/index_forms.h"
#include "kernel/expr.h"
#include "kernel/rewrite.h"
#include "kernel/simplify.h"

namespace rlxc::target {
namespace {

using kernel::Buffer;
using kernel::BufferId;
using kernel::Expr;
using kernel::ExprId;
using kernel::ExprNode;
using kernel::ExprOp;
using kernel::Kernel;
using kernel::Launch;
using kernel::LoopKind;
using kernel::Space;
using kernel::Stmt;
using kernel::StmtKind;
using kernel::Type;
using kernel::VarId;
using kernel::VarRole;

bool is_packed(const Buffer& b) { return b.space == Space::Global && rlxc::bits(b.type.dtype) < 32; }
int per_word(const Buffer& b) { return 32 / static_cast<int>(rlxc::bits(b.type.dtype)); }
bool begins_word(const std::vector<bool>& is_aligned, size_t buffer) { return is_aligned.empty() || is_aligned[buffer]; }

bool is_vector_of_words(const Buffer& b, int lanes) { return lanes >= per_word(b); }

Stmt store(BufferId b, Expr index, Expr value) {
  Stmt s;
  s.kind = StmtKind::Store;
  s.buffer = b;
  s.index = index.id;
  s.value = value.id;
  return s;
}

VarId add_var(Kernel* k, std::string name, Type t, VarRole role) {
  k->vars.push_back({std::move(name), t, role});
  return VarId(k->vars.size() - 1);
}
Expr value_of(Kernel* k, VarId v) { return {k, k->intern({ExprOp::Var, k->var(v).type, {}, static_cast<int64_t>(v.raw)})}; }

Stmt let(VarId v, Expr value) {
  Stmt s;
  s.kind = StmtKind::Let;
  s.var = v;
  s.value = value.id;
  return s;
}

Expr load(Kernel* k, BufferId b, Expr index, int lanes = 1) {
  return {k, k->intern({ExprOp::Load, k->buffer(b).type.with_lanes(lanes), {index.id}, static_cast<int64_t>(b.raw)})};
}

class AlignWords {
 public:
  AlignWords(Kernel* k, const std::vector<bool>& is_aligned) : k_(k), is_aligned_(is_aligned), forms_(*k) {}

  void run() { block(&k_->body); }

 private:
  bool is_whole(const Buffer& b, size_t number, ExprId index) {
    return begins_word(is_aligned_, number) && forms_.divisor(index) % per_word(b) == 0;
  }

  ExprId rebuilt(ExprId root) {
    return kernel::rebuild_bottom_up(*k_, root, [&](ExprId, const ExprNode& e, std::array<ExprId, 3> args) {
      if (kernel::type_rule(e.op) == kernel::TypeRule::Memory) {
        const auto number = static_cast<size_t>(e.payload);
        const Buffer& b = k_->buffers[number];
        if (is_packed(b) && is_vector_of_words(b, e.type.lanes) && k_->expr(args[0]).type.lanes == 1 &&
            !is_whole(b, number, e.args[0]))
          args[0] = kernel::ramp({k_, args[0]}, 1, e.type.lanes).id;
      }
      return args == e.args ? k_->intern(e) : kernel::with_operands(k_, e, args);
    });
  }

  void block(std::vector<Stmt>* body) {
    std::vector<Stmt> all;
    for (Stmt& s : *body) {
      const ExprId index = s.index;
      s.index = rebuilt(s.index);
      s.value = rebuilt(s.value);
      block(&s.body);
      block(&s.other);
      const Buffer* b = s.kind == StmtKind::Store ? &k_->buffer(s.buffer) : nullptr;
      const Type t = b ? k_->expr(s.value).type : Type();
      if (!b || !is_packed(*b) || !is_vector_of_words(*b, t.lanes) || is_whole(*b, s.buffer.raw, index)) {
        all.push_back(std::move(s));
        continue;
      }
      const VarId v = add_var(k_, "rlxc_parts_" + std::to_string(k_->vars.size()), t, VarRole::Let);
      all.push_back(let(v, {k_, s.value}));
      for (int i = 0; i < t.lanes; ++i) all.push_back(store(s.buffer, Expr{k_, s.index} + i, kernel::lane(value_of(k_, v), i)));
    }
    *body = std::move(all);
  }

  Kernel* k_;
  const std::vector<bool>& is_aligned_;
  IndexForms forms_;
};

// One thread runs the code of `count_` neighbours in a loop. Elements that they store are kept in registers, and stored after the
// loop; where not all of a word's elements are, its others are preserved.
class MergeStores {
 public:
  MergeStores(Kernel* k, const std::vector<bool>& is_aligned) : k_(k), is_aligned_(is_aligned), forms_(*k) {}

  void run() {
    Launch launch = kernel::launch_of(*k_);
    if (!is_simple(launch) || !find_words(*launch.body, false) || words_.empty()) return;
    for (const Word& w : words_)
      if (!forms_.follows(w.form, lanes_, w.lanes, int64_t{count_} * w.lanes)) return;
    merge();
    kernel::remove_dead_lets(*k_);
    kernel::compact(*k_);
  }

 private:
  // Elements of words that one statement stores, or several with the same index.
  struct Word {
    BufferId buffer;
    IndexForms::Form form;
    int lanes;
    BufferId kept = {}, at = {}, stored = {};  // registers: its elements, the index of the first, a bit per thread
  };

  // The launch has one axis of threads. Threads do not depend on each other.
  bool is_simple(const Launch& launch) {
    if (!launch.threads[0].valid() || launch.threads[1].valid() || launch.threads[2].valid()) return false;
    if (!k_->constant_int(launch.threads[0], &lanes_.threads)) return false;
    for (const Buffer& b : k_->buffers)
      if (b.space == Space::Shared || b.atomic) return false;
    if (std::ranges::any_of(k_->exprs, [&](const ExprNode& e) { return kernel::is_collective(*k_, e); })) return false;
    for (const Stmt* s = &k_->body[0];; s = &s->body[0]) {
      int64_t groups = 0;
      const bool is_alone = k_->constant_int(s->index, &groups) && groups == 1;
      if (s->loop == LoopKind::Grid && s->axis == 0 && !is_alone) lanes_.group = s->var;
      if (s->loop == LoopKind::Thread) lanes_.thread = s->var;
      if (&s->body == launch.body) break;
    }
    return true;
  }

  // Fills words_. Returns whether all stores of parts can be merged.
  bool find_words(const std::vector<Stmt>& body, bool in_loop) {
    for (const Stmt& s : body) {
      if (s.kind == StmtKind::Barrier || s.kind == StmtKind::Await || s.kind == StmtKind::Settle || s.kind == StmtKind::Source ||
          s.kind == StmtKind::AtomicAdd)
        return false;
      if (!find_words(s.body, in_loop || s.kind == StmtKind::For) || !find_words(s.other, in_loop)) return false;
      if (s.kind == StmtKind::Store && !find_word(s, in_loop)) return false;
    }
    return true;
  }

  bool find_word(const Stmt& s, bool in_loop) {
    const Buffer& b = k_->buffer(s.buffer);
    const int lanes = k_->expr(s.value).type.lanes;
    if (!is_packed(b) || is_vector_of_words(b, lanes)) return true;
    if (in_loop || !begins_word(is_aligned_, s.buffer.raw)) return false;
    std::optional<IndexForms::Form> form = forms_.of(s.index);
    if (!form) return false;
    count_ = std::max(count_, per_word(b) / lanes);
    const auto same = std::ranges::find_if(words_, [&](const Word& w) { return w.buffer == s.buffer && w.form == *form; });
    if (same == words_.end()) words_.push_back({s.buffer, std::move(*form), lanes});
    else if (same->lanes != lanes) return false;
    return true;
  }

  Expr number(VarId like, int64_t n) const { return kernel::constant_int(k_, k_->var(like).type.dtype, n); }

  BufferId add_registers(const std::string& name, Type t, int64_t extent, std::vector<Stmt>* to) {
    k_->buffers.push_back({"rlxc_" + name + "_" + std::to_string(k_->buffers.size()), t,
                           kernel::constant_int(k_, DType::I64, extent).id, Space::Register, kernel::Access::ReadWrite});
    Stmt s;
    s.kind = StmtKind::Alloc;
    s.buffer = BufferId(k_->buffers.size() - 1);
    to->push_back(std::move(s));
    return BufferId(k_->buffers.size() - 1);
  }

  Expr zero() const { return kernel::constant_int(k_, DType::I64, 0); }
  Expr i32(int64_t n) const { return kernel::constant_int(k_, DType::I32, n); }

  void merge() {
    // The nest, of which the innermost loop has the code.
    Stmt* inner = &k_->body[0];
    Stmt* group = nullptr;
    for (;; inner = &inner->body[0]) {
      if (lanes_.group && inner->loop == LoopKind::Grid && inner->axis == 0) group = inner;
      if (inner->loop == LoopKind::Thread) break;
    }
    const VarId old_thread = inner->var;
    const VarId thread = add_var(k_, "rlxc_thread_id", k_->var(old_thread).type, VarRole::Loop);
    VarId old_group, new_group;
    ExprId groups;
    Expr lane = value_of(k_, thread);
    if (group) {
      old_group = group->var;
      groups = group->index;
      new_group = add_var(k_, "rlxc_group_id", k_->var(old_group).type, VarRole::Loop);
      lane = value_of(k_, new_group) * number(old_group, lanes_.threads) + lane;
      group->var = new_group;
      group->index = kernel::ceil_div(Expr{k_, groups}, int64_t{count_}).id;
    } else {
      inner->index =
          kernel::constant_int(k_, k_->expr(inner->index).type.dtype, kernel::ceil_div(lanes_.threads, int64_t{count_})).id;
    }
    inner->var = thread;
    std::vector<Stmt> code = std::move(inner->body), body;

    for (Word& w : words_) {
      const Buffer b = k_->buffer(w.buffer);
      w.kept = add_registers("word", b.type, per_word(b) * words_of(w), &body);
      w.at = add_registers("at", DType::I64, 1, &body);
      body.push_back(store(w.at, zero(), zero()));
      w.stored = add_registers("stored", DType::I32, 1, &body);
      body.push_back(store(w.stored, zero(), i32(0)));
    }
    Stmt each;
    each.kind = StmtKind::For;
    each.loop = LoopKind::Unroll;
    each.var = turn_ = add_var(k_, "rlxc_turn", DType::I64, VarRole::Loop);
    each.index = kernel::constant_int(k_, DType::I64, count_).id;
    const VarId at = add_var(k_, "rlxc_lane", k_->var(old_thread).type, VarRole::Let);
    each.body.push_back(let(at, lane * int64_t{count_} + kernel::cast_to(value_of(k_, turn_), k_->var(old_thread).type.dtype)));
    replace_stores(&code);
    // The loop variables of the nest become Lets of the same names.
    k_->vars[old_thread.raw].role = VarRole::Let;
    Expr exists = kernel::constant_int(k_, DType::Bool, 1);
    int64_t known = 0;
    if (group) {
      k_->vars[old_group.raw].role = VarRole::Let;
      each.body.push_back(let(old_group, value_of(k_, at) / number(old_group, lanes_.threads)));
      each.body.push_back(let(old_thread, value_of(k_, at) % number(old_group, lanes_.threads)));
      if (!k_->constant_int(groups, &known) || known % count_ != 0) exists = value_of(k_, old_group) < Expr{k_, groups};
    } else {
      each.body.push_back(let(old_thread, value_of(k_, at)));
      if (lanes_.threads % count_ != 0) exists = value_of(k_, old_thread) < lanes_.threads;
    }
    // Sums of group and thread are the lane.
    const IndexForms::Form whole = lane_form();
    kernel::for_each_stmt(code, [&](Stmt& s) {
      if (s.kind != StmtKind::Let || !kernel::is_index_type(k_->var(s.var).type.dtype) || k_->var(s.var).type.lanes != 1) return;
      const auto form = forms_.of(s.value);
      if (form && *form == whole) s.value = kernel::cast_to(value_of(k_, at), k_->var(s.var).type.dtype).id;
    });
    if (k_->constant_int(exists.id, &known)) {
      std::ranges::move(code, std::back_inserter(each.body));
    } else {
      Stmt guard;
      guard.kind = StmtKind::If;
      guard.value = exists.id;
      guard.body = std::move(code);
      each.body.push_back(std::move(guard));
    }
    body.push_back(std::move(each));
    for (const Word& w : words_) write(w, &body);
    // `inner` is valid: statements were added elsewhere.
    inner->body = std::move(body);
  }

  // Words with several elements per thread of fewer turns.
  int words_of(const Word& w) const { return count_ * w.lanes / per_word(k_->buffer(w.buffer)); }

  IndexForms::Form lane_form() {
    IndexForms::Form f = *forms_.of(value_of(k_, lanes_.thread).id);
    if (!lanes_.group) return f;
    const IndexForms::Form of_group = *forms_.of(value_of(k_, *lanes_.group).id);
    for (const auto& [product, n] : of_group) f[product] = n * lanes_.threads;
    return f;
  }

  void replace_stores(std::vector<Stmt>* body) {
    std::vector<Stmt> all;
    for (Stmt& s : *body) {
      replace_stores(&s.body);
      replace_stores(&s.other);
      const Buffer* b = s.kind == StmtKind::Store ? &k_->buffer(s.buffer) : nullptr;
      if (!b || !is_packed(*b) || is_vector_of_words(*b, k_->expr(s.value).type.lanes)) {
        all.push_back(std::move(s));
        continue;
      }
      const auto form = forms_.of(s.index);
      const Word& w = *std::ranges::find_if(words_, [&](const Word& x) { return x.buffer == s.buffer && x.form == *form; });
      const Expr turn = value_of(k_, turn_), own = turn * int64_t{w.lanes}, index{k_, s.index};
      all.push_back(store(w.kept, own, {k_, s.value}));
      all.push_back(store(w.at, zero(), kernel::cast_to(index, DType::I64) - own));
      all.push_back(store(w.stored, zero(), load(k_, w.stored, zero()) | (i32(1) << kernel::cast_to(turn, DType::I32))));
    }
    *body = std::move(all);
  }

  void write(const Word& w, std::vector<Stmt>* body) {
    const int elements = per_word(k_->buffer(w.buffer)), turns = elements / w.lanes;
    k_->buffers[w.buffer.raw].access = kernel::Access::ReadWrite;
    const VarId at = add_var(k_, "rlxc_first_" + std::to_string(k_->vars.size()), DType::I64, VarRole::Let),
                stored = add_var(k_, "rlxc_bits_" + std::to_string(k_->vars.size()), DType::I32, VarRole::Let);
    body->push_back(let(at, load(k_, w.at, zero())));
    body->push_back(let(stored, load(k_, w.stored, zero())));
    for (int n = 0; n < words_of(w); ++n) {
      const Expr first = kernel::constant_int(k_, DType::I64, int64_t{n} * elements), to = value_of(k_, at) + n * elements;
      const Expr bits =
          n == 0 && words_of(w) == 1 ? value_of(k_, stored) : (value_of(k_, stored) >> i32(n * turns)) & i32((1 << turns) - 1);
      const Stmt whole = store(w.buffer, to, load(k_, w.kept, first, elements));
      Stmt all, some;
      all.kind = some.kind = StmtKind::If;
      all.value = (bits == i32((1 << turns) - 1)).id;
      all.body.push_back(whole);
      some.value = (bits != i32(0)).id;
      const VarId old = add_var(k_, "rlxc_old_" + std::to_string(k_->vars.size()), k_->buffer(w.buffer).type.with_lanes(elements),
                                VarRole::Let);
      some.body.push_back(let(old, load(k_, w.buffer, to, elements)));
      for (int t = 0; t < turns; ++t) {
        Stmt keep;
        keep.kind = StmtKind::If;
        keep.value = ((bits & i32(1 << t)) == i32(0)).id;
        for (int l = t * w.lanes; l < (t + 1) * w.lanes; ++l)
          keep.body.push_back(store(w.kept, first + l, kernel::lane(value_of(k_, old), l)));
        some.body.push_back(std::move(keep));
      }
      some.body.push_back(whole);
      all.other.push_back(std::move(some));
      body->push_back(std::move(all));
    }
  }

  Kernel* k_;
  const std::vector<bool>& is_aligned_;
  IndexForms forms_;
  IndexForms::Lanes lanes_;
  std::vector<Word> words_;
  int count_ = 1;  // threads that are merged
  VarId turn_;
};

}  // namespace

void align_words(Kernel& k, const std::vector<bool>& is_aligned) { AlignWords(&k, is_aligned).run(); }

void merge_stores(Kernel& k, const std::vector<bool>& is_aligned) { MergeStores(&k, is_aligned).run(); }

bool stores_parts(const Kernel& k) {
  bool parts = false;
  kernel::for_each_stmt(k.body, [&](const Stmt& s) {
    if (s.kind == StmtKind::Store) {
      const Buffer& b = k.buffer(s.buffer);
      parts = parts || (is_packed(b) && !is_vector_of_words(b, k.expr(s.value).type.lanes));
    }
    if (s.kind == StmtKind::Source)
      parts = parts ||
              std::ranges::any_of(k.buffers, [](const Buffer& b) { return is_packed(b) && b.access != kernel::Access::Read; });
  });
  return parts;
}

}  // namespace rlxc::target
