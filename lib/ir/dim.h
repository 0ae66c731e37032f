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

// Owns the symbols and expressions of one module. Operations cost O(terms). Not thread-safe. An expression beyond kMaxTerms or
// kMaxDegree becomes a fresh symbol without known properties. Intermediate results of shape arithmetic are Dims too, and may be
// negative (`seq-1`): a negative constant is an expression without symbols.
//
// An expression of more than kMaxWeight symbols and functions is a named size: text refers to it by `#0`, `#1`, ..., and its
// definition is listed once. So the text of all sizes of a model is linear in their number, whatever they share.
class DimTable {
 public:
  static constexpr size_t kMaxTerms = 1024;
  static constexpr size_t kMaxDegree = 256;  // of a product of symbols
  static constexpr int64_t kMaxWeight = 64;

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
  int64_t weight(Dim) const;                               // number of symbols, functions and named functions in its terms

  // Named sizes, in the order in which they were made: the definition of one mentions earlier ones only.
  size_t named_sizes() const { return named_.size(); }
  Dim named_size(size_t i) const { return named_[i].dim; }  // its text is its name
  std::string definition(size_t i) const;                   // "max(#0,n)", "#1+(64*n+8)"
  // Those in the text of the dims, and in the definitions of such; ascending.
  std::vector<size_t> named_sizes_of(std::span<const Dim>) const;
  // Makes the named size `name` known to `parse`. False if it is no name, or the definition is no size.
  bool define(std::string_view name, std::string_view definition);
  std::optional<Dim> size_named(std::string_view name) const;
  // The parts of a definition: an expression is a sum of its terms, a function, or made of two others.
  enum class Operator : uint8_t { Terms, Add, Subtract, Multiply, FloorDiv, Mod, Min, Max };
  struct Definition {
    Operator op = Operator::Terms;
    Dim a, b;  // of other operators than Terms
  };
  Definition definition_of(Dim) const;
  // Functions with a named size in their text, or a name, from which `d` is computed; each after those that it is computed from.
  std::vector<Dim> deep_functions_of(Dim d) const;

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
  std::string terms(Dim) const;                // the text, written out if the dim is a named size
  std::optional<Dim> parse(std::string_view);  // the inverse of text and terms; creates symbols

 private:
  struct Atom {  // a symbol, or a function of two expressions
    bool is_symbol = true;
    bool is_named = false;  // a function that is a named size
    bool is_deep = false;   // a function that is a named size, or has one as an argument
    uint32_t symbol = 0;
    DimFn fn = DimFn::FloorDiv;
    Dim a, b;
    Dim self;            // of a deep function: its expression
    int64_t weight = 1;  // of a function without a name: 1 + those of a and b
  };
  struct Term {
    int64_t coefficient = 0;
    std::vector<uint32_t> atoms;  // sorted, with repetition
    bool operator==(const Term&) const = default;
  };
  using Poly = std::vector<Term>;  // sorted by atoms, no zero coefficients
  static constexpr uint32_t kUnnamed = UINT32_MAX;
  struct Expression {
    Poly terms;
    uint32_t name = kUnnamed;  // its place in named_
  };
  struct NamedSize {
    Dim dim;
    uint32_t number = 0;  // the name is `#number`
    Definition made_of;
  };
  using DeepValues = std::unordered_map<uint32_t, std::optional<int64_t>>;  // by atom

  Poly poly(Dim) const;
  Dim intern(Poly, Definition made_of);
  Dim intern(Poly p) { return intern(std::move(p), Definition()); }
  Dim combined(Operator, Dim, Dim, Poly terms);
  void name_size(Dim, Definition made_of);
  size_t poly_size(Dim d) const { return d.is_static() ? d.size() != 0 : polys_[d.index()].terms.size(); }
  uint32_t name_of(Dim d) const { return d.is_static() ? kUnnamed : polys_[d.index()].name; }
  int64_t text_weight(Dim d) const { return name_of(d) == kUnnamed ? weight(d) : 1; }
  Dim from_atom(uint32_t atom);
  uint32_t atom(Atom);
  std::optional<uint32_t> single_atom(Dim) const;  // the atom, if the expression is one
  Dim function(DimFn, Dim, Dim);
  Dim simplified(DimFn, Dim, Dim);
  std::optional<Poly> exact_div(const Poly&, const Poly&) const;
  int64_t common_factor(Dim, int64_t of, const DeepValues&) const;  // divides `of` and each value
  int64_t common_factor(uint32_t atom, int64_t of, const DeepValues&) const;
  std::optional<Dim> without_mod(Dim a, Dim b);  // a', if a is a' - mod(a', b), which b divides
  Dim canonical(Dim);
  std::optional<int64_t> lower_bound(Dim, int64_t symbols);  // for all symbols of at least that size
  void substitute(uint32_t atom, Dim by);
  void index_atoms(Dim, uint32_t reader);  // adds the reader to readers_
  // Replaces symbols and functions for which `leaf` returns a value, and the arguments of other functions by `whole`.
  template <class LeafFn, class WholeFn>
  Dim rewrite(Dim, LeafFn leaf, WholeFn whole);
  static Poly add_poly(const Poly&, const Poly&, int64_t scale);
  static Poly mul_poly(const Poly&, const Poly&);
  void append_text(Dim, std::string*) const;
  void append_terms(Dim, std::string*) const;
  void append_atom(uint32_t atom, std::string*) const;
  std::optional<int64_t> evaluate(Dim, const DimBindings&, const DeepValues&) const;
  std::optional<int64_t> evaluate(uint32_t atom, const DimBindings&, const DeepValues&) const;
  // Calls `f` for the deep functions that `d` is computed from, each after those that it is computed from: a recursion that keeps
  // their results is not deep itself. Stops at those that are `known`.
  template <class Known, class F>
  void each_deep(Dim d, Known known, F f) const;
  Dim canonical_part(Dim);
  Dim bind_part(Dim);
  std::optional<int64_t> bound_part(Dim, int64_t symbols);
  std::optional<int64_t> lower_bound(uint32_t atom, int64_t symbols);
  void collect(Dim, std::vector<std::string>& out) const;

  std::vector<std::string> names_;
  std::unordered_map<std::string, uint32_t> symbols_;  // name -> atom
  std::vector<Atom> atoms_;
  std::vector<Expression> polys_;
  std::unordered_map<std::string, uint32_t> poly_index_;
  std::unordered_map<std::string, uint32_t> atom_index_;
  std::vector<NamedSize> named_;
  uint32_t next_number_ = 0;
  std::unordered_map<uint32_t, Dim> numbered_;  // sizes by the numbers of their names
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
  std::unordered_map<uint64_t, std::optional<int64_t>> low_;  // atom, and the least size of symbols -> lower bound
};

}  // namespace rlxc
