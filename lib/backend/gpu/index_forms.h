// Indices of a kernel as polynomials, which shows what neighbouring threads access. Remainders become differences, so that an
// index split into those of dims and put together again is the same polynomial as before.
#pragma once
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "kernel/language.h"

namespace rlxc::target {

class IndexForms {
 public:
  // Coefficients by product of atoms: variables, quotients and other expressions.
  using Product = std::vector<uint32_t>;
  using Form = std::map<Product, int64_t>;

  explicit IndexForms(const kernel::Kernel&);

  std::optional<Form> of(kernel::ExprId);  // none if it is too long
  int64_t divisor(kernel::ExprId);         // a power of two, at most kMostDivisor, that divides every value
  static constexpr int64_t kMostDivisor = 1 << 20;

  // The numbers lane, lane + 1, ... of threads along the axis x: lane = group * threads + thread.
  struct Lanes {
    kernel::VarId thread;
    std::optional<kernel::VarId> group;
    int64_t threads = 1;
  };
  // Returns whether the form is `step` * lane + r where `multiple` divides r and r is the same for each `multiple` / `step`
  // neighbours, counted from a multiple.
  bool follows(const Form&, const Lanes&, int64_t step, int64_t multiple) const;

 private:
  struct Atom {
    kernel::ExprId expr;              // invalid: a quotient
    Form numerator, denominator;      // of the quotient
    bool is_counter = false;          // a loop variable or a symbol, which is never negative
    bool loads = false;               // reads memory
    std::set<uint32_t> depends = {};  // loop variables and symbols below it
  };

  std::optional<Form> compute(kernel::ExprId, int depth);
  std::optional<Form> of(kernel::ExprId, int depth);
  Form atom(kernel::ExprId);
  Form quotient(const Form&, const Form&);
  bool is_steady(uint32_t atom, const Lanes&, int64_t lanes) const;
  bool is_counted(const Form&) const;  // is never negative
  std::set<uint32_t> depends(const Form&) const;
  static bool depends_on(const std::set<uint32_t>&, const Lanes&);
  uint32_t atom_of(kernel::VarId) const;  // UINT32_MAX: no index uses it

  const kernel::Kernel& k_;
  std::map<uint32_t, kernel::ExprId> lets_;  // values by variable
  std::vector<Atom> atoms_;
  std::map<uint32_t, uint32_t> of_expr_, of_var_;          // atoms
  std::map<std::pair<Form, Form>, uint32_t> of_quotient_;  // likewise
  std::map<uint32_t, std::optional<Form>> forms_;
  std::map<uint32_t, int64_t> divisors_;
};

}  // namespace rlxc::target
