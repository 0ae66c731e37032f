#include "kernel/fuse_kernels.h"

#include <algorithm>
#include <array>
#include <map>
#include <vector>

#include "kernel/builder.h"
#include "kernel/rewrite.h"

namespace rlxc::kernel {
namespace {

int64_t extent_of(const Kernel& k, const Buffer& b) {
  int64_t n = 1;
  k.constant_int(b.extent, &n);
  return n;
}

// Returns the elements that a workgroup's copy of a shared buffer takes, padded to its alignment.
int64_t room_of(const Kernel& k, const Buffer& b) {
  return static_cast<int64_t>(shared_bytes(k, b)) / std::max(rlxc::bits(b.type.dtype) / 8, 1);
}

// Returns whether the statements contain barriers or collective operators.
bool meets(const Kernel& k, const std::vector<Stmt>& body) {
  bool found = false;
  for_each_stmt(body, [&](const Stmt& s) {
    found |= s.kind == StmtKind::Barrier;
    for (ExprId e : nodes_below(k, {s.value})) found |= is_collective(k, k.expr(e));
  });
  return found;
}

// Returns whether all workgroups reach the same barriers: none in branches, and loops around them have constant extents.
bool meets_alike(const Kernel& k, const std::vector<Stmt>& body) {
  return std::ranges::all_of(body, [&](const Stmt& s) {
    int64_t n = 0;
    if (s.kind == StmtKind::If) return !meets(k, s.body) && !meets(k, s.other);
    if (s.kind != StmtKind::For || !meets(k, s.body)) return true;
    return k.constant_int(s.index, &n) && meets_alike(k, s.body);
  });
}

// A kernel and the schedule of its workgroups.
struct Part {
  const Kernel* kernel;
  Launch launch;
  int64_t threads = 1;  // of a workgroup
  int64_t side = 1;     // workgroups at a time
  bool meets = false;
};

// Shared memory of all parts, which use it one after another.
class Pool {
 public:
  void reserve(const Part& p) {
    std::map<DType, int64_t> own;
    each(p, [&](size_t, DType t, int64_t, int64_t end) { own[t] = end; });
    for (const auto& [t, n] : own) extents_[t] = std::max(extents_[t], n);
  }
  int64_t bytes() const {
    int64_t sum = 0;
    for (const auto& [t, n] : extents_) sum += n * (rlxc::bits(t) / 8);
    return sum;
  }
  void allocate(Builder& b) {
    for (const auto& [t, n] : extents_) buffers_[t] = b.shared("shared_" + std::string(rlxc::name(t)), t, n);
  }
  // Sets the buffers of the part, and their first elements.
  void give(const Part& p, std::vector<Buf>* buffers, std::vector<int64_t>* starts) {
    each(p, [&](size_t buffer, DType t, int64_t start, int64_t) {
      (*buffers)[buffer] = buffers_[t];
      (*starts)[buffer] = start;
    });
  }

 private:
  // Calls f(buffer of the part, its type, its first element and its end in the memory of the type).
  template <class F>
  static void each(const Part& p, const F& f) {
    std::map<DType, int64_t> used;
    for (size_t i = 0; i < p.kernel->buffers.size(); ++i) {
      const Buffer& b = p.kernel->buffers[i];
      if (b.space != Space::Shared) continue;
      const int64_t start = used[b.type.dtype];
      f(i, b.type.dtype, start, used[b.type.dtype] = start + room_of(*p.kernel, b) * p.side);
    }
  }

  std::map<DType, int64_t> extents_;
  std::map<DType, Buf> buffers_;
};

class PartWriter {
 public:
  PartWriter(Builder& b, const Part& p)
      : b_(b), p_(p), k_(*p.kernel), buffers_(k_.buffers.size()), starts_(k_.buffers.size()), vars_(k_.vars.size()) {
    for (VarId v : k_.symbols) vars_[v.raw] = b.symbol(k_.var(v).name, k_.var(v).min, k_.var(v).max);
    for (size_t i = 0; i < k_.argument_count(); ++i) {
      const Buffer& from = k_.buffers[i];
      const Expr n = expr(from.extent);
      buffers_[i] = from.access == Access::Read    ? b.input(from.name, from.type.dtype, n)
                    : from.access == Access::Write ? b.output(from.name, from.type.dtype, n)
                                                   : b.inout(from.name, from.type.dtype, n);
      b.kernel()->buffers[buffers_[i].id().raw].atomic = from.atomic;
    }
  }

  std::vector<Buf>& buffers() { return buffers_; }
  std::vector<int64_t>& starts() { return starts_; }

  void write(Expr thread, int64_t threads) {
    Expr groups = b_.i64(1);
    for (ExprId e : p_.launch.grid)
      if (e.valid()) groups = groups * expr(e);
    const Expr turns = ceil_div(groups, p_.side);
    int64_t known = 0;
    const bool once = b_.kernel()->constant_int(turns.id, &known) && known == 1;
    const auto turn = [&](Expr t) {
      place(thread, threads, t, groups);
      if (p_.meets || !active_.kernel) block(*p_.launch.body);
      else b_.when(active_, [&] { block(*p_.launch.body); });
      if (p_.meets && !once) b_.barrier();
    };
    if (once) turn(b_.i64(0));
    else b_.loop("turn", turns, turn);
  }

 private:
  // Computes the workgroup and thread that this thread stands for. Excess threads repeat the last one and store nothing.
  void place(Expr thread, int64_t threads, Expr turn, Expr groups) {
    const int64_t used = p_.side * p_.threads;
    int64_t n = 0;
    const bool all_used = used == threads, even = p_.side == 1 || (b_.kernel()->constant_int(groups.id, &n) && n % p_.side == 0);
    const Expr at = all_used ? thread : b_.let("at", min(thread, used - 1));
    Expr own = at, group = turn;
    if (p_.side > 1) {
      side_ = b_.let("side", at / p_.threads);
      own = b_.let("own", at % p_.threads);
      group = b_.let("group", turn * p_.side + side_);
    }
    if (!all_used) active_ = thread < used;
    if (!even) {
      const Expr there = group < groups;
      active_ = active_.kernel ? active_ && there : there;
      group = b_.let("last", min(group, groups - 1));
    }
    spread(LoopKind::Grid, group);
    spread(LoopKind::Thread, own);
  }

  // Splits a linear number into the variables of the launch nest, x fastest.
  void spread(LoopKind kind, Expr number) {
    const auto& extents = kind == LoopKind::Grid ? p_.launch.grid : p_.launch.threads;
    int last = 2;
    while (last > 0 && !extents[last].valid()) --last;
    for (const std::vector<Stmt>* at = &k_.body; at != p_.launch.body; at = &at->front().body) {
      const Stmt& s = at->front();
      if (s.loop != kind) continue;
      Expr value = number;
      for (int a = 0; a < s.axis; ++a)
        if (extents[a].valid()) value = value / expr(extents[a]);
      if (s.axis < last) value = value % expr(s.index);
      vars_[s.var.raw] = b_.let(k_.var(s.var).name, value);
    }
  }

  void block(const std::vector<Stmt>& body) {
    for (const Stmt& s : body) statement(s);
  }

  void statement(const Stmt& s) {
    switch (s.kind) {
      case StmtKind::Comment: return b_.comment(s.comment);
      case StmtKind::Source: return b_.source(s.source);
      case StmtKind::Barrier: return b_.barrier(s.global);
      case StmtKind::Await: return b_.await(s.pending);
      case StmtKind::Settle: return b_.settle(buffers_[s.buffer.raw]);
      case StmtKind::Let: {
        const std::string& name = k_.var(s.var).name;
        vars_[s.var.raw] = s.held ? b_.hold(name, expr(s.value)) : b_.let(name, expr(s.value));
        return;
      }
      case StmtKind::Alloc: {
        const Buffer& b = k_.buffer(s.buffer);
        if (b.space == Space::Register) buffers_[s.buffer.raw] = b_.registers(b.name, b.type, extent_of(k_, b));
        return;
      }
      case StmtKind::Store:
      case StmtKind::AtomicAdd: {
        const Buf& to = buffers_[s.buffer.raw];
        const Expr index = shifted(s.buffer, expr(s.index)), value = expr(s.value);
        const auto store = [&] {
          s.kind == StmtKind::AtomicAdd ? to.atomic_add(index, value)
          : s.deferred                  ? to.store_later(index, value)
                                        : to.store(index, value);
        };
        if (p_.meets && active_.kernel && k_.buffer(s.buffer).space != Space::Register) b_.when(active_, store);
        else store();
        return;
      }
      case StmtKind::Prefetch: return buffers_[s.buffer.raw].prefetch(expr(s.index), s.cache);
      case StmtKind::If:
        if (s.other.empty()) b_.when(expr(s.value), [&] { block(s.body); });
        else
          b_.when(
              expr(s.value), [&] { block(s.body); }, [&] { block(s.other); });
        return;
      case StmtKind::For:
        b_.loop(
            k_.var(s.var).name, expr(s.index),
            [&](Expr i) {
              vars_[s.var.raw] = i;
              block(s.body);
            },
            s.loop);
    }
  }

  // Concurrent workgroups have separate shared memory.
  Expr shifted(BufferId id, Expr index) {
    const Buffer& b = k_.buffer(id);
    if (b.space != Space::Shared) return index;
    if (starts_[id.raw] > 0) index = index + starts_[id.raw];
    return p_.side > 1 ? index + cast_to(side_, index.dtype()) * room_of(k_, b) : index;
  }

  Expr expr(ExprId root) {
    return {b_.kernel(), rebuild_bottom_up(k_, root, [&](ExprId, ExprNode e, const std::array<ExprId, 3>& args) {
              e.args = args;
              return move(e);
            })};
  }
  ExprId move(ExprNode e) {
    if (e.op == ExprOp::Var) return vars_[static_cast<size_t>(e.payload)].id;
    if (type_rule(e.op) == TypeRule::Memory) {
      const BufferId from(static_cast<uint32_t>(e.payload));
      e.args[0] = shifted(from, {b_.kernel(), e.args[0]}).id;
      e.payload = buffers_[from.raw].id().raw;
    }
    if (e.op == ExprOp::MatrixMultiply) e.payload = b_.kernel()->unit(k_.units[static_cast<size_t>(e.payload)]);
    return b_.kernel()->intern(e);
  }

  Builder& b_;
  const Part& p_;
  const Kernel& k_;
  std::vector<Buf> buffers_;
  std::vector<int64_t> starts_;  // of shared buffers in those of the pool
  std::vector<Expr> vars_;
  Expr side_, active_;  // active_: invalid if all threads have work in all turns
};

std::vector<Part> parts_of(std::span<const Kernel* const> kernels, const Mapping& mapping, int64_t* threads) {
  std::vector<Part> parts;
  for (const Kernel* k : kernels) {
    const Launch launch = launch_of(*k);
    parts.push_back({k, launch, workgroup_size(*k), 1, meets(*k, *launch.body)});
    *threads = std::max(*threads, parts.back().threads);
  }
  for (Part& p : parts) {
    int64_t groups = 1, n = 0;
    for (ExprId e : p.launch.grid)
      if (e.valid()) groups *= p.kernel->constant_int(e, &n) ? n : *threads;
    const auto shared = static_cast<int64_t>(shared_bytes(*p.kernel));
    if (p.meets && (p.threads % mapping.warp != 0 || !meets_alike(*p.kernel, *p.launch.body))) continue;
    const int64_t rooms = shared > 0 ? mapping.most_shared_bytes() / shared : *threads;
    p.side = std::max<int64_t>(std::min({*threads / p.threads, groups, rooms}), 1);
  }
  return parts;
}

}  // namespace

namespace {

bool fits(std::span<const Kernel* const> kernels, const Mapping& mapping, int64_t most_shared, std::string* reason) {
  int64_t threads = 1;
  Pool pool;
  for (const Kernel* k : kernels) {
    threads = std::max(threads, workgroup_size(*k));
    pool.reserve({k, {}, 1, 1, false});
  }
  if (pool.bytes() > most_shared) *reason = "more shared memory than a group can have";
  if (threads > mapping.max_workgroup_size) *reason = "more threads than a workgroup can have";
  return reason->empty();
}

}  // namespace

bool fits_one_workgroup(std::span<const Kernel* const> kernels, const Mapping& mapping, std::string* reason) {
  return fits(kernels, mapping, std::max(mapping.shared_bytes, mapping.pipeline_bytes), reason);
}

std::optional<Kernel> fuse_kernels(std::string name, std::span<const Kernel* const> kernels, const Mapping& mapping,
                                   std::string* reason) {
  if (!fits(kernels, mapping, mapping.most_shared_bytes(), reason)) return std::nullopt;
  int64_t threads = 1;
  std::vector<Part> parts = parts_of(kernels, mapping, &threads);
  Pool pool;
  for (const bool alone : {false, true}) {
    pool = Pool();
    for (Part& p : parts) {
      if (alone && shared_bytes(*p.kernel) > 0) p.side = 1;
      pool.reserve(p);
    }
    if (pool.bytes() <= mapping.most_shared_bytes()) break;
  }
  Builder b(std::move(name));
  std::vector<PartWriter> writers;
  for (const Part& p : parts) writers.emplace_back(b, p);
  b.grid("all", 0, 1);
  const Expr thread = b.threads("thread_id", 0, threads);
  pool.allocate(b);
  for (size_t i = 0; i < parts.size(); ++i) {
    if (i > 0) b.barrier(true);
    if (!parts[i].kernel->comments.empty()) b.comment(parts[i].kernel->comments[0]);
    pool.give(parts[i], &writers[i].buffers(), &writers[i].starts());
    writers[i].write(thread, threads);
  }
  return b.finish();
}

}  // namespace rlxc::kernel
