#include "kernel/builder.h"

#include <unordered_set>

namespace rlxc::kernel {

Type Buf::type() const { return builder_->kernel()->buffer(id_).type; }

Expr Buf::load(Index i, int lanes) const {
  return builder_->load(id_, ExprOp::Load, type().with_lanes(type().lanes * lanes), i.in(builder_->kernel()), {}, {});
}

Expr Buf::gather(Expr indices) const {
  return builder_->load(id_, ExprOp::Load, type().with_lanes(indices.lanes()), indices, {}, {});
}

Expr Buf::load_if(Expr condition, Index i, Expr otherwise, int lanes) const {
  Type t = type().with_lanes(type().lanes * lanes);
  return builder_->load(id_, ExprOp::LoadIf, t, i.in(builder_->kernel()), condition, broadcast(otherwise, t.lanes));
}

void Buf::store(Index i, Expr value) const {
  Stmt s;
  s.kind = StmtKind::Store;
  s.buffer = id_;
  s.index = i.in(builder_->kernel()).id;
  s.value = broadcast(value, std::max<int>(value.lanes(), type().lanes)).id;
  builder_->append(std::move(s));
}

void Buf::store_later(Index i, Expr loaded) const {
  store(i, loaded);
  builder_->last().deferred = true;
}

void Buf::atomic_add(Index i, Expr value) const {
  Stmt s;
  s.kind = StmtKind::AtomicAdd;
  builder_->kernel()->buffers[id_.raw].atomic = true;
  s.buffer = id_;
  s.index = i.in(builder_->kernel()).id;
  s.value = value.id;
  builder_->append(std::move(s));
}

void Buf::prefetch(Index i, Cache cache) const {
  Stmt s;
  s.kind = StmtKind::Prefetch;
  s.cache = cache;
  s.buffer = id_;
  s.index = i.in(builder_->kernel()).id;
  builder_->append(std::move(s));
}

namespace {

bool is_reserved(const std::string& s) {
  static const std::unordered_set<std::string_view> words = {
#include "kernel/reserved.def"
  };
  return words.count(s) || s.rfind("rlxc", 0) == 0;
}

}  // namespace

std::string Builder::unique(const std::string& wanted) {
  std::string n;
  for (char c : wanted) n += (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ? c : '_';
  if (n.empty() || n[0] == '_' || (n[0] >= '0' && n[0] <= '9')) n = "v" + n;
  for (size_t at; (at = n.find("__")) != std::string::npos;) n.erase(at, 1);  // reserved in C++ and GLSL
  if (is_reserved(n)) n += "_v";
  if (n.rfind("rlxc", 0) == 0) n = "v" + n;
  int& uses = names_[n];
  std::string result = uses++ == 0 ? n : n + "_" + std::to_string(uses);
  while (uses > 1 && names_.count(result)) result = n + "_" + std::to_string(++uses);
  if (result != n) names_[result] = 1;
  return result;
}

VarId Builder::add_var(const std::string& name, Type type, VarRole role) {
  kernel_->vars.push_back({unique(name), type, role});
  return VarId(kernel_->vars.size() - 1);
}

Expr Builder::var(VarId id) {
  return {kernel(), kernel_->intern({ExprOp::Var, kernel_->var(id).type, {}, static_cast<int64_t>(id.raw)})};
}

Expr Builder::symbol(const std::string& name, int64_t min, int64_t max) {
  VarId id = add_var(name, DType::I64, VarRole::Symbol);
  kernel_->vars[id.raw].min = min;
  kernel_->vars[id.raw].max = max;
  kernel_->symbols.push_back(id);
  return var(id);
}

Expr Builder::parameter(const std::string& name, Type type) {
  VarId id = add_var(name, type, VarRole::Symbol);
  kernel_->symbols.push_back(id);
  return var(id);
}

Buf Builder::add_buffer(const std::string& name, Type type, Expr extent, Space space, Access access) {
  kernel_->buffers.push_back({unique(name), type, extent.id, space, access});
  BufferId id(kernel_->buffers.size() - 1);
  if (space != Space::Global) {
    Stmt s;
    s.kind = StmtKind::Alloc;
    s.buffer = id;
    append(std::move(s));
  }
  return {this, id};
}

Buf Builder::input(const std::string& n, DType t, Index e) {
  return add_buffer(n, t, e.in(kernel()), Space::Global, Access::Read);
}
Buf Builder::output(const std::string& n, DType t, Index e) {
  return add_buffer(n, t, e.in(kernel()), Space::Global, Access::Write);
}
Buf Builder::inout(const std::string& n, DType t, Index e) {
  return add_buffer(n, t, e.in(kernel()), Space::Global, Access::ReadWrite);
}
Buf Builder::registers(const std::string& n, Type t, int64_t e) {
  return add_buffer(n, t, i64(e), Space::Register, Access::ReadWrite);
}
Buf Builder::shared(const std::string& n, DType t, int64_t e) {
  return add_buffer(n, t, i64(e), Space::Shared, Access::ReadWrite);
}

Buf Builder::variable(const std::string& n, Expr start) {
  Buf b = registers(n, start.type(), 1);
  b.set(start);
  return b;
}

Expr Builder::let(const std::string& n, Expr value) {
  ExprOp op = value.node().op;
  if (op == ExprOp::Const || op == ExprOp::Var) return value;
  Stmt s;
  s.kind = StmtKind::Let;
  s.var = add_var(n, value.type(), VarRole::Let);
  s.value = value.id;
  Expr result = var(s.var);
  append(std::move(s));
  return result;
}

Expr Builder::hold(const std::string& name, Expr value) {
  const Expr result = let(name, value);
  if (result.id != value.id) last().held = true;
  return result;
}

Expr Builder::load(BufferId id, ExprOp op, Type type, Expr index, Expr condition, Expr otherwise) {
  Expr e{kernel(), kernel_->intern({op, type, {index.id, condition.id, otherwise.id}, static_cast<int64_t>(id.raw)})};
  const Buffer& b = kernel_->buffer(id);
  return b.space == Space::Global && b.access == Access::Read ? e : let(b.name + "_at", e);
}

Expr Builder::shuffle_xor(Expr value, int mask) {
  return let("other", {kernel(), kernel_->intern({ExprOp::ShuffleXor, value.type(), {value.id}, mask})});
}

Expr Builder::warp_reduce(const WarpReduction& r, Expr value) {
  return let("all", {kernel(), kernel_->intern({ExprOp::WarpReduce, value.type(), {value.id}, payload_of(r)})});
}

Expr Builder::matrix_multiply(const MatrixUnit& unit, Expr a, Expr b, Expr c) {
  return let("product",
             {kernel(), kernel_->intern({ExprOp::MatrixMultiply, c.type(), {a.id, b.id, c.id}, kernel_->unit(&unit)})});
}

Expr Builder::tile(const Buf& shared, Expr first) {
  return {kernel(), kernel_->intern({ExprOp::Load, shared.type(), {first.id}, static_cast<int64_t>(shared.id().raw)})};
}

void Builder::barrier(bool global) {
  Stmt s;
  s.kind = StmtKind::Barrier;
  s.global = global;
  append(std::move(s));
}

void Builder::await(int pending) {
  Stmt s;
  s.kind = StmtKind::Await;
  s.pending = static_cast<uint8_t>(pending);
  append(std::move(s));
}

void Builder::settle(const Buf& sums) {
  Stmt s;
  s.kind = StmtKind::Settle;
  s.buffer = sums.id();
  append(std::move(s));
}

void Builder::comment(Comment comment) {
  Stmt s;
  s.kind = StmtKind::Comment;
  s.comment = std::move(comment);
  append(std::move(s));
}

void Builder::source(std::string text) {
  Stmt s;
  s.kind = StmtKind::Source;
  s.source = std::move(text);
  append(std::move(s));
}

Expr Builder::open_for(const std::string& n, Expr extent, LoopKind kind, int axis) {
  Stmt s;
  s.kind = StmtKind::For;
  s.loop = kind;
  s.axis = static_cast<uint8_t>(axis);
  s.var = add_var(n, DType::I64, VarRole::Loop);
  s.index = extent.id;
  Expr i = var(s.var);
  append(std::move(s));
  blocks_.push_back(&blocks_.back()->back().body);
  return i;
}

void Builder::open_if(Expr condition) {
  Stmt s;
  s.kind = StmtKind::If;
  s.value = condition.id;
  append(std::move(s));
  blocks_.push_back(&blocks_.back()->back().body);
}

void Builder::open_else() {
  close();
  blocks_.push_back(&blocks_.back()->back().other);
}

Kernel Builder::finish() { return std::move(*kernel_); }

}  // namespace rlxc::kernel
