#include "kernel/rewrite.h"

#include <algorithm>
#include <unordered_set>

namespace rlxc::kernel {

ExprId with_operands(Kernel* k, const ExprNode& e, const std::array<ExprId, 3>& args) {
  int n = operand_count(e.op);
  auto expr = [&](int i) { return Expr{k, args[i]}; };
  TypeRule rule = type_rule(e.op);
  bool foldable = rule != TypeRule::Leaf && rule != TypeRule::Memory && rule != TypeRule::Shape && rule != TypeRule::Other;
  if (foldable && n == 1) return make(e.op, expr(0)).id;
  if (foldable && n == 2) return make(e.op, expr(0), expr(1)).id;
  if (e.op == ExprOp::Select) return make(e.op, expr(0), expr(1), expr(2)).id;
  if (e.op == ExprOp::Cast) return cast_to(expr(0), e.type.dtype).id;
  ExprNode copy = e;
  copy.args = args;
  return k->intern(copy);
}

ExprId Rebuilder::operator()(ExprId root, bool keep_root) {
  if (!root.valid()) return root;
  std::vector<ExprId> work{root};
  ExprId result;
  while (!work.empty()) {
    ExprId id = work.back();
    bool keep = keep_root && id == root;
    if (done_.count(id.raw) && !keep) {
      work.pop_back();
      continue;
    }
    ExprId other = keep ? ExprId() : substitute_(id);
    if (other.valid()) {
      done_[id.raw] = other;
      work.pop_back();
      continue;
    }
    const ExprNode e = k_->expr(id);
    std::array<ExprId, 3> args = e.args;
    bool ready = true, changed = false;
    for (ExprId& a : args) {
      if (!a.valid()) continue;
      auto it = done_.find(a.raw);
      if (it == done_.end()) {
        work.push_back(a);
        ready = false;
      } else if (it->second != a) {
        a = it->second;
        changed = true;
      }
    }
    if (!ready) continue;
    work.pop_back();
    result = changed ? with_operands(k_, e, args) : id;
    if (keep) return result;
    done_[id.raw] = result;
  }
  return done_[root.raw];
}

std::vector<ExprId> nodes_below(const Kernel& k, const std::vector<ExprId>& roots) {
  std::vector<ExprId> found, work;
  std::unordered_set<uint32_t> seen;
  for (ExprId r : roots)
    if (r.valid()) work.push_back(r);
  while (!work.empty()) {
    ExprId id = work.back();
    work.pop_back();
    if (!seen.insert(id.raw).second) continue;
    found.push_back(id);
    for (ExprId a : k.expr(id).args)
      if (a.valid()) work.push_back(a);
  }
  std::sort(found.begin(), found.end(), [](ExprId a, ExprId b) { return a.raw > b.raw; });
  return found;
}

}  // namespace rlxc::kernel
