#include "backend/gpu/index_forms.h"

#include <algorithm>
#include <numeric>

#include "kernel/rewrite.h"

namespace rlxc::target {
namespace {

using kernel::ExprId;
using kernel::ExprNode;
using kernel::ExprOp;
using kernel::VarId;
using Form = IndexForms::Form;

constexpr size_t kMostTerms = 64;
constexpr int kMostDepth = 100;

Form constant_form(int64_t n) { return n == 0 ? Form{} : Form{{{}, n}}; }

std::optional<int64_t> constant_of(const Form& f) {
  if (f.empty()) return 0;
  return f.size() == 1 && f.begin()->first.empty() ? std::optional(f.begin()->second) : std::nullopt;
}

// Adds b * factor to a. Returns whether all coefficients have 64 bits.
bool add_to(Form* a, const Form& b, int64_t factor) {
  for (const auto& [product, n] : b) {
    int64_t more = 0, sum = 0;
    int64_t& old = (*a)[product];
    if (__builtin_mul_overflow(n, factor, &more) || __builtin_add_overflow(old, more, &sum)) return false;
    old = sum;
    if (sum == 0) a->erase(product);
  }
  return true;
}

std::optional<Form> times(const Form& a, const Form& b) {
  Form all;
  for (const auto& [left, n] : a)
    for (const auto& [right, m] : b) {
      IndexForms::Product both;
      std::ranges::merge(left, right, std::back_inserter(both));
      int64_t coefficient = 0;
      if (__builtin_mul_overflow(n, m, &coefficient) || !add_to(&all, {{both, coefficient}}, 1)) return std::nullopt;
    }
  return all;
}

bool all_divisible(const Form& f, int64_t by) {
  return std::ranges::all_of(f, [&](const auto& term) { return term.second % by == 0; });
}

}  // namespace

IndexForms::IndexForms(const kernel::Kernel& k) : k_(k) {
  kernel::for_each_stmt(k.body, [&](const kernel::Stmt& s) {
    if (s.kind == kernel::StmtKind::Let) lets_[s.var.raw] = s.value;
  });
}

std::optional<Form> IndexForms::of(ExprId id) { return of(id, 0); }

std::optional<Form> IndexForms::of(ExprId id, int depth) {
  if (depth > kMostDepth) return std::nullopt;
  if (const auto known = forms_.find(id.raw); known != forms_.end()) return known->second;
  std::optional<Form> form = compute(id, depth);
  if (form && form->size() > kMostTerms) form = std::nullopt;
  forms_[id.raw] = form;
  return form;
}

std::optional<Form> IndexForms::compute(ExprId id, int depth) {
  const ExprNode& e = k_.expr(id);
  const auto operand = [&](size_t n) { return of(e.args[n], depth + 1); };
  if (e.type.lanes != 1 || !kernel::is_index_type(e.type.dtype)) return atom(id);
  switch (e.op) {
    case ExprOp::Const: return constant_form(e.payload);
    case ExprOp::Var: {
      const auto let = lets_.find(static_cast<uint32_t>(e.payload));
      return let == lets_.end() ? atom(id) : of(let->second, depth + 1);
    }
    case ExprOp::Cast: return kernel::is_index_type(k_.expr(e.args[0]).type.dtype) ? operand(0) : atom(id);
    case ExprOp::Add:
    case ExprOp::Sub: {
      std::optional<Form> a = operand(0);
      const std::optional<Form> b = operand(1);
      return a && b && add_to(&*a, *b, e.op == ExprOp::Add ? 1 : -1) ? a : std::nullopt;
    }
    case ExprOp::Mul: {
      const std::optional<Form> a = operand(0), b = operand(1);
      return a && b && a->size() * b->size() <= kMostTerms ? times(*a, *b) : std::nullopt;
    }
    case ExprOp::Div:
    case ExprOp::Mod: {
      std::optional<Form> a = operand(0);
      const std::optional<Form> b = operand(1);
      if (!a || !b || b->empty()) return std::nullopt;
      const Form whole = quotient(*a, *b);
      if (e.op == ExprOp::Div) return whole;
      const std::optional<Form> part = times(whole, *b);
      return part && add_to(&*a, *part, -1) ? a : std::nullopt;
    }
    default: return atom(id);
  }
}

Form IndexForms::atom(ExprId id) {
  const auto [at, is_new] = of_expr_.try_emplace(id.raw, static_cast<uint32_t>(atoms_.size()));
  if (is_new) {
    Atom a{.expr = id, .numerator = {}, .denominator = {}};
    const auto is_counter = [&](const ExprNode& e) {
      return e.op == ExprOp::Var && k_.vars[static_cast<size_t>(e.payload)].role != kernel::VarRole::Let;
    };
    a.is_counter = is_counter(k_.expr(id));
    if (k_.expr(id).op == ExprOp::Var) of_var_[static_cast<uint32_t>(k_.expr(id).payload)] = at->second;
    std::vector<ExprId> work{id};
    std::set<uint32_t> seen;
    while (!work.empty()) {
      const ExprId at_work = work.back();
      work.pop_back();
      if (!seen.insert(at_work.raw).second) continue;
      const ExprNode& e = k_.expr(at_work);
      a.loads = a.loads || kernel::type_rule(e.op) == kernel::TypeRule::Memory;
      if (e.op == ExprOp::Var) {
        const auto var = static_cast<uint32_t>(e.payload);
        if (const auto let = lets_.find(var); let != lets_.end()) work.push_back(let->second);
        else a.depends.insert(var);
      }
      for (ExprId operand : e.args)
        if (operand.valid()) work.push_back(operand);
    }
    atoms_.push_back(std::move(a));
  }
  return {{{at->second}, 1}};
}

Form IndexForms::quotient(const Form& a, const Form& b) {
  const std::optional<int64_t> by = constant_of(b), whole = constant_of(a);
  if (by && whole && *by > 0) return constant_form(*whole / *by);
  if (by && *by > 0 && all_divisible(a, *by)) {
    Form divided = a;
    for (auto& term : divided) term.second /= *by;
    return divided;
  }
  // (x / c) / d
  if (by && *by > 0 && a.size() == 1 && a.begin()->second == 1 && a.begin()->first.size() == 1) {
    const Atom inner = atoms_[a.begin()->first[0]];
    const std::optional<int64_t> first = inner.expr.valid() ? std::nullopt : constant_of(inner.denominator);
    int64_t both = 0;
    if (first && *first > 0 && !__builtin_mul_overflow(*first, *by, &both)) return quotient(inner.numerator, constant_form(both));
  }
  const auto [at, is_new] = of_quotient_.try_emplace({a, b}, static_cast<uint32_t>(atoms_.size()));
  if (is_new) {
    Atom made{.expr = {}, .numerator = a, .denominator = b};
    made.depends = depends(a);
    made.depends.merge(depends(b));
    atoms_.push_back(std::move(made));
  }
  return {{{at->second}, 1}};
}

std::set<uint32_t> IndexForms::depends(const Form& f) const {
  std::set<uint32_t> all;
  for (const auto& [product, n] : f)
    for (uint32_t a : product) all.insert(atoms_[a].depends.begin(), atoms_[a].depends.end());
  return all;
}

bool IndexForms::depends_on(const std::set<uint32_t>& vars, const Lanes& lanes) {
  return vars.contains(lanes.thread.raw) || (lanes.group && vars.contains(lanes.group->raw));
}

uint32_t IndexForms::atom_of(VarId v) const {
  const auto at = of_var_.find(v.raw);
  return at == of_var_.end() ? UINT32_MAX : at->second;
}

bool IndexForms::is_counted(const Form& f) const {
  return std::ranges::all_of(f, [&](const auto& term) {
    return term.second >= 0 && std::ranges::all_of(term.first, [&](uint32_t a) {
             const Atom& of = atoms_[a];
             return of.expr.valid() ? of.is_counter : is_counted(of.numerator) && is_counted(of.denominator);
           });
  });
}

bool IndexForms::is_steady(uint32_t number, const Lanes& lanes, int64_t neighbours) const {
  const Atom& a = atoms_[number];
  if (a.expr.valid()) return !a.loads && !depends_on(a.depends, lanes);
  const auto steady = [&](const Form& f) {
    return std::ranges::all_of(f, [&](const auto& term) {
      return std::ranges::all_of(term.first, [&](uint32_t inner) { return is_steady(inner, lanes, neighbours); });
    });
  };
  if (!depends_on(a.depends, lanes)) return steady(a.numerator) && steady(a.denominator);
  // A quotient of the lane is the same until the next multiple of the divisor.
  const std::optional<int64_t> by = constant_of(a.denominator);
  const auto own = a.numerator.find({atom_of(lanes.thread)});
  if (!by || *by <= 0 || own == a.numerator.end() || own->second <= 0 || !is_counted(a.numerator)) return false;
  int64_t block = 0;
  return !__builtin_mul_overflow(own->second, neighbours, &block) && *by % block == 0 &&
         follows(a.numerator, lanes, own->second, block);
}

bool IndexForms::follows(const Form& f, const Lanes& lanes, int64_t step, int64_t multiple) const {
  const uint32_t thread = atom_of(lanes.thread), group = lanes.group ? atom_of(*lanes.group) : UINT32_MAX;
  bool has_thread = false, has_group = !lanes.group;
  for (const auto& [product, n] : f) {
    if (product == Product{thread}) {
      if (n != step) return false;
      has_thread = true;
    } else if (lanes.group && product == Product{group}) {
      if (n != step * lanes.threads) return false;
      has_group = true;
    } else if (n % multiple != 0) {
      return false;
    } else {
      for (uint32_t a : product)
        if (!is_steady(a, lanes, multiple / step)) return false;
    }
  }
  return has_thread && has_group;
}

int64_t IndexForms::divisor(ExprId id) {
  const std::optional<Form> f = of(id);
  if (!f) return 1;
  int64_t all = kMostDivisor;
  for (const auto& [product, n] : *f) all = std::gcd(all, n);
  return all;
}

}  // namespace rlxc::target
