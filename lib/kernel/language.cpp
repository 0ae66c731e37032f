#include "kernel/language.h"

#include <algorithm>
#include <bit>
#include <cstdio>

namespace rlxc::kernel {
namespace {

struct OpRow {
  std::string_view text;
  int operands;
  TypeRule rule;
};
constexpr OpRow kOps[] = {
#define EXPR(id, text, operands, rule) {text, operands, TypeRule::rule},
#include "kernel/expr_ops.def"
#undef EXPR
};

uint64_t hash(const ExprNode& n) {
  uint64_t h = static_cast<uint64_t>(n.op) << 32 | static_cast<uint64_t>(n.type.dtype) << 16 | n.type.lanes;
  for (uint64_t v :
       {uint64_t{n.args[0].raw}, uint64_t{n.args[1].raw}, uint64_t{n.args[2].raw}, static_cast<uint64_t>(n.payload)}) {
    h = (h ^ v) * 0x9E3779B97F4A7C15ull;
    h ^= h >> 29;
  }
  return h;
}

}  // namespace

std::string_view name(ExprOp op) { return kOps[static_cast<size_t>(op)].text; }
int operand_count(ExprOp op) { return kOps[static_cast<size_t>(op)].operands; }
TypeRule type_rule(ExprOp op) { return kOps[static_cast<size_t>(op)].rule; }

int64_t Kernel::unit(const MatrixUnit* u) {
  const auto at = std::ranges::find(units, u);
  if (at != units.end()) return at - units.begin();
  units.push_back(u);
  return static_cast<int64_t>(units.size()) - 1;
}

bool is_collective(const Kernel& k, const ExprNode& e) {
  if (e.op == ExprOp::MatrixMultiply) {
    const size_t unit = static_cast<size_t>(e.payload);
    return unit >= k.units.size() || k.units[unit]->warp > 1;
  }
  return e.op == ExprOp::ShuffleXor || e.op == ExprOp::WarpReduce;
}

ExprId Kernel::intern(const ExprNode& node) {
  if (exprs.size() * 2 >= table_.size()) rehash();
  size_t mask = table_.size() - 1;
  size_t slot = hash(node) & mask;
  for (; table_[slot] != 0; slot = (slot + 1) & mask)
    if (exprs[table_[slot] - 1] == node) return ExprId(table_[slot] - 1);
  exprs.push_back(node);
  table_[slot] = static_cast<uint32_t>(exprs.size());
  return ExprId(exprs.size() - 1);
}

void Kernel::rehash() {
  size_t size = table_.empty() ? 64 : table_.size() * 2;
  table_.assign(size, 0);
  for (uint32_t i = 0; i < exprs.size(); ++i) {
    size_t slot = hash(exprs[i]) & (size - 1);
    while (table_[slot] != 0) slot = (slot + 1) & (size - 1);
    table_[slot] = i + 1;
  }
}

size_t Kernel::argument_count() const {
  size_t n = 0;
  for (const Buffer& b : buffers) n += b.space == Space::Global;
  return n;
}

bool Kernel::constant_int(ExprId id, int64_t* value) const {
  const ExprNode& e = expr(id);
  if (e.op != ExprOp::Const || is_float(e.type.dtype)) return false;
  *value = e.payload;
  return true;
}

double const_double(const ExprNode& e) {
  if (is_float(e.type.dtype)) return std::bit_cast<double>(e.payload);
  if (e.type.dtype == DType::U64) return static_cast<double>(static_cast<uint64_t>(e.payload));
  return static_cast<double>(e.payload);
}

Launch launch_of(const Kernel& k) {
  Launch launch;
  launch.body = &k.body;
  while (launch.body->size() == 1) {
    const Stmt& s = launch.body->front();
    if (s.kind != StmtKind::For || s.axis > 2) break;
    if (s.loop == LoopKind::Grid) launch.grid[s.axis] = s.index;
    else if (s.loop == LoopKind::Thread) launch.threads[s.axis] = s.index;
    else break;
    launch.body = &s.body;
  }
  return launch;
}

int64_t workgroup_size(const Kernel& k) {
  int64_t threads = 1, n = 0;
  for (ExprId e : launch_of(k).threads)
    if (e.valid() && k.constant_int(e, &n)) threads *= n;
  return threads;
}

uint64_t shared_bytes(const Kernel& k) {
  uint64_t bytes = 0;
  for (const Buffer& b : k.buffers) bytes += shared_bytes(k, b);
  return bytes;
}

uint64_t shared_bytes(const Kernel& k, const Buffer& b) {
  int64_t extent = 0;
  if (b.space != Space::Shared || !k.constant_int(b.extent, &extent)) return 0;
  const uint64_t size = static_cast<uint64_t>(extent) * b.type.lanes * (rlxc::bits(b.type.dtype) / 8);
  const uint64_t alignment = std::ranges::any_of(k.units, &MatrixUnit::reads_tiles) ? 1024 : 16;
  return (size + alignment - 1) / alignment * alignment;
}

}  // namespace rlxc::kernel
