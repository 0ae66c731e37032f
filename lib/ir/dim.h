// Dims of tensors. A dim is a constant or an exact expression over named symbols (`batch`, `2*seq+1`, `floordiv(h,2)`). Two dims
// are equal only if that is proven or recorded as a condition of the model. Expressions have one normal form (a polynomial over
// symbols and opaque functions), so equal expressions have equal Dims.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace rlxc {

// A constant >= 0, or a reference to an expression in a DimTable. 8 bytes; equality is identity of the normal form.
class Dim {
 public:
  static constexpr int64_t kMax = int64_t{1} << 56;  // larger sizes saturate here and are rejected by the verifier

  constexpr Dim() = default;
  constexpr Dim(int64_t size) : rep_(size < 0 ? 0 : size > kMax ? kMax : size) {}  // NOLINT: sizes convert
  static constexpr Dim expression(uint32_t index) { return Dim(Raw{}, -1 - static_cast<int64_t>(index)); }

  constexpr bool is_static() const { return rep_ >= 0; }
  constexpr int64_t size() const { return rep_; }  // requires is_static()
  constexpr uint32_t index() const { return static_cast<uint32_t>(-1 - rep_); }
  constexpr int64_t raw() const { return rep_; }
  constexpr bool operator==(const Dim&) const = default;
  constexpr bool operator==(int64_t n) const { return rep_ == n; }

 private:
  struct Raw {};
  constexpr Dim(Raw, int64_t rep) : rep_(rep) {}
  int64_t rep_ = 0;
};

enum class DimFn : uint8_t { FloorDiv, Mod, Min, Max };

using DimBindings = std::map<std::string, int64_t, std::less<>>;

// Owns the symbols and expressions of one module. Operations cost O(terms). Not thread-safe. An expression beyond kMaxTerms,
// kMaxDegree or kMaxWeight becomes a fresh symbol without known properties. Intermediate results of shape arithmetic are Dims
// too, and may be negative (`seq-1`): a negative constant is an expression without symbols.
class DimTable {
 public:
  static constexpr size_t kMaxTerms = 1024;
  static constexpr size_t kMaxDegree = 256;  // of a product of symbols
  static constexpr int64_t kMaxWeight = 2048;

  Dim constant(int64_t);               // negative values allowed
  Dim symbol(std::string_view name);   // finds or creates it
  Dim fresh(std::string_view prefix);  // creates a symbol with an unused name prefix0, prefix1, ...
  bool has_symbol(std::string_view name) const { return symbols_.contains(std::string(name)); }
  const std::vector<std::string>& symbol_names() const { return names_; }

  Dim add(Dim, Dim);
  Dim sub(Dim, Dim);
  Dim mul(Dim, Dim);
  Dim floor_div(Dim, Dim);  // rounds toward minus infinity; exact divisions of polynomials stay polynomials
  Dim ceil_div(Dim, Dim);
  Dim mod(Dim, Dim);  // has the sign of the divisor
  Dim min(Dim, Dim);
  Dim max(Dim, Dim);
  Dim product(std::span<const Dim>);
  Dim sum(std::span<const Dim>);  // O(terms) for all together

  std::optional<int64_t> constant_value(Dim) const;        // also for negative constants
  bool divides(Dim a, Dim b);                              // b mod a == 0 is proven
  bool is_multiple(Dim, int64_t of) const;                 // the same by factors of constants, max, min and mod; no equalities
  bool equal(Dim, Dim);                                    // proven, using the recorded equalities
  bool known_ne(Dim, Dim);                                 // proven different for all symbols >= 1
  bool at_least(Dim, int64_t bound, int64_t symbols = 1);  // proven for all symbols of at least that size
  int64_t weight(Dim) const;                               // number of symbols and functions in its text

  // Records that the model requires a == b (checked by `check` when symbols are bound). Returns false if that is impossible.
  bool assume_equal(Dim a, Dim b);
  // Like assume_equal, for the requirement of an operator. Records nothing in a complete module, whose operators have recorded
  // theirs.
  bool need_equal(Dim a, Dim b);
  void complete() { complete_ = true; }
  const std::vector<std::pair<Dim, Dim>>& equalities() const { return equalities_; }
  // Collects equalities of a part of the model that may not run, such as a branch, instead of recording them. Parts nest.
  // end_part returns the collected pairs without repetition.
  void begin_part() { parts_.emplace_back(); }
  std::vector<Dim> end_part();

  std::optional<int64_t> evaluate(Dim, const DimBindings&) const;  // nullopt: an unbound symbol, division by zero, overflow
  Dim bind(Dim, const DimBindings&);                               // replaces bound symbols
  std::vector<std::string> symbols_of(Dim) const;                  // sorted

  // "2*seq+1", on one line. Symbols that are not identifiers are quoted as by `quote` of support/text.h. O(terms).
  std::string text(Dim) const;
  std::optional<Dim> parse(std::string_view);  // the inverse of text; creates symbols

 private:
  struct Atom {  // a symbol, or a function of two expressions
    bool is_symbol = true;
    uint32_t symbol = 0;
    DimFn fn = DimFn::FloorDiv;
    Dim a, b;
    int64_t weight = 1;  // of a function: 1 + the weights of a and b
  };
  struct Term {
    int64_t coefficient = 0;
    std::vector<uint32_t> atoms;  // sorted, with repetition
    bool operator==(const Term&) const = default;
  };
  using Poly = std::vector<Term>;  // sorted by atoms, no zero coefficients

  Poly poly(Dim) const;
  Dim intern(Poly);
  Dim from_atom(uint32_t atom);
  uint32_t atom(Atom);
  std::optional<uint32_t> single_atom(Dim) const;  // the atom, if the expression is one
  Dim function(DimFn, Dim, Dim);
  Dim simplified(DimFn, Dim, Dim);
  std::optional<Poly> exact_div(const Poly&, const Poly&) const;
  int64_t common_factor(Dim, int64_t of) const;  // divides `of` and each value
  std::optional<Dim> without_mod(Dim a, Dim b);  // a', if a is a' - mod(a', b), which b divides
  Dim canonical(Dim);
  std::optional<int64_t> lower_bound(Dim, int64_t symbols);  // for all symbols of at least that size
  std::optional<int64_t> lower_bound(uint32_t atom, int64_t symbols);
  void substitute(uint32_t atom, Dim by);
  void index_atoms(Dim, uint32_t reader);  // adds the reader to readers_
  Dim bind(Dim);                           // with bindings_
  // Replaces symbols and functions for which `leaf` returns a value, and the arguments of other functions by `whole`.
  template <class LeafFn, class WholeFn>
  Dim rewrite(Dim, LeafFn leaf, WholeFn whole);
  static Poly add_poly(const Poly&, const Poly&, int64_t scale);
  static Poly mul_poly(const Poly&, const Poly&);
  void append_text(Dim, std::string*) const;
  void collect(Dim, std::vector<std::string>& out) const;

  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> symbols_;  // name -> atom
  std::vector<Atom> atoms_;
  std::vector<Poly> polys_;
  std::unordered_map<std::string, uint32_t> poly_index_;
  std::unordered_map<std::string, uint32_t> atom_index_;
  std::vector<std::pair<Dim, Dim>> equalities_;
  std::set<std::pair<int64_t, int64_t>> recorded_;  // pairs of equalities_, the smaller first
  std::vector<std::vector<Dim>> parts_;             // open parts
  bool complete_ = false;
  std::unordered_map<uint32_t, Dim> substitution_;               // symbol, or function equal to its symbol -> replacement
  std::unordered_map<uint32_t, std::vector<uint32_t>> readers_;  // atom -> those whose replacements contain it
  // Results that hold until substitution_ changes: nested functions would take exponential time without them.
  std::unordered_map<uint32_t, Dim> canonical_;     // expression -> canonical form under substitution_
  std::unordered_map<std::string, Dim> functions_;  // function and arguments -> its simplified form
  std::unordered_map<uint32_t, Dim> bound_;         // expression -> the result of `bind` with bindings_
  DimBindings bindings_;
  std::unordered_map<uint64_t, std::optional<int64_t>> low_;  // atom, and whether symbols are at least 0 or 1 -> lower bound
};

}  // namespace rlxc
