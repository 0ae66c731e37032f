#include "ir/dim.h"

#include <algorithm>
#include <cctype>
#include <numeric>
#include <unordered_set>

#include "support/text.h"

namespace rlxc {
namespace {

constexpr int64_t kSaturate = Dim::kMax;

int64_t clamp_mul(int64_t a, int64_t b) {
  int64_t r;
  if (__builtin_mul_overflow(a, b, &r)) return (a < 0) == (b < 0) ? kSaturate : -kSaturate;
  return std::clamp(r, -kSaturate, kSaturate);
}

int64_t clamp_add(int64_t a, int64_t b) { return std::clamp(a + b, -kSaturate, kSaturate); }  // both within +-2^56

int64_t floor_div_int(int64_t a, int64_t b) { return a / b - (a % b != 0 && (a < 0) != (b < 0)); }
int64_t mod_int(int64_t a, int64_t b) { return a - floor_div_int(a, b) * b; }

std::optional<int64_t> apply(DimFn fn, int64_t a, int64_t b) {
  if (a == INT64_MIN) return std::nullopt;  // a / -1 overflows
  switch (fn) {
    case DimFn::FloorDiv: return b == 0 ? std::nullopt : std::optional(floor_div_int(a, b));
    case DimFn::Mod: return b == 0 ? std::nullopt : std::optional(mod_int(a, b));
    case DimFn::Min: return std::min(a, b);
    case DimFn::Max: return std::max(a, b);
  }
  return std::nullopt;
}

// Calls f(a) once for each symbol and function of an expression, whose parts are shared; for the arguments of a function only if
// it returns true.
template <class Polys, class Atoms, class F>
void each_atom(const Polys& polys, const Atoms& atoms, Dim d, const F& f) {
  std::vector<Dim> open{d};
  std::unordered_set<uint32_t> seen;
  while (!open.empty()) {
    const Dim next = open.back();
    open.pop_back();
    if (next.is_static()) continue;
    for (const auto& term : polys[next.index()].terms)
      for (uint32_t a : term.atoms)
        if (seen.insert(a).second && f(a) && !atoms[a].is_symbol) open.insert(open.end(), {atoms[a].a, atoms[a].b});
  }
}

void append_key(std::string& key, int64_t v) { key.append(reinterpret_cast<const char*>(&v), sizeof v); }

uint64_t low_key(uint32_t atom, int64_t symbols) { return uint64_t{atom} << 32 | static_cast<uint32_t>(symbols); }

}  // namespace

template <class Known, class F>
void DimTable::each_deep(Dim d, Known known, F f) const {
  if (named_.empty() || d.is_static()) return;
  std::vector<uint32_t> found;
  each_atom(polys_, atoms_, d, [&](uint32_t a) {
    if (!atoms_[a].is_deep) return true;
    if (known(a)) return false;
    found.push_back(a);
    return true;
  });
  std::ranges::sort(found);
  for (uint32_t a : found) f(a);
}

DimTable::Poly DimTable::poly(Dim d) const {
  if (!d.is_static()) return polys_[d.index()].terms;
  if (d.size() == 0) return {};
  return {Term{d.size(), {}}};
}

Dim DimTable::intern(Poly p, Definition made_of) {
  if (p.size() > kMaxTerms) return fresh("opaque");
  if (p.empty()) return Dim(0);
  if (p.size() == 1 && p[0].atoms.empty() && p[0].coefficient >= 0) return Dim(p[0].coefficient);
  std::string key;
  for (const Term& t : p) {
    append_key(key, t.coefficient);
    append_key(key, static_cast<int64_t>(t.atoms.size()));
    for (uint32_t a : t.atoms) append_key(key, a);
  }
  auto [it, made] = poly_index_.try_emplace(std::move(key), static_cast<uint32_t>(polys_.size()));
  const Dim d = Dim::expression(it->second);
  if (!made) return d;
  polys_.push_back({std::move(p)});
  const auto single = single_atom(d);
  if (!single && weight(d) > kMaxWeight) name_size(d, made_of);
  return d;
}

uint32_t DimTable::atom(Atom a) {
  std::string key;
  append_key(key, a.is_symbol ? -1 : static_cast<int64_t>(a.fn));
  append_key(key, a.is_symbol ? a.symbol : a.a.raw());
  append_key(key, a.is_symbol ? 0 : a.b.raw());
  auto [it, made] = atom_index_.try_emplace(std::move(key), static_cast<uint32_t>(atoms_.size()));
  if (made) atoms_.push_back(a);
  return it->second;
}

int64_t DimTable::weight(Dim d) const {
  int64_t sum = 0;
  if (!d.is_static())
    for (const Term& t : polys_[d.index()].terms)
      for (uint32_t a : t.atoms) sum += atoms_[a].weight;
  return sum;
}

Dim DimTable::from_atom(uint32_t a) { return intern({Term{1, {a}}}); }

Dim DimTable::constant(int64_t v) {
  if (v >= 0) return Dim(v);
  return intern({Term{std::max(v, -kSaturate), {}}});
}

Dim DimTable::symbol(std::string_view name) {
  auto it = symbols_.find(std::string(name));
  if (it == symbols_.end()) {
    Atom a;
    a.symbol = static_cast<uint32_t>(names_.size());
    names_.emplace_back(name);
    it = symbols_.emplace(std::string(name), atom(a)).first;
  }
  return from_atom(it->second);
}

Dim DimTable::fresh(std::string_view prefix) {
  for (size_t i = names_.size();; ++i) {
    std::string name = std::string(prefix) + std::to_string(i);
    if (!symbols_.contains(name)) return symbol(name);
  }
}

DimTable::Poly DimTable::add_poly(const Poly& a, const Poly& b, int64_t scale) {
  Poly out;
  size_t i = 0, j = 0;
  while (i < a.size() || j < b.size()) {
    if (j == b.size() || (i < a.size() && a[i].atoms < b[j].atoms)) {
      out.push_back(a[i++]);
    } else if (i == a.size() || b[j].atoms < a[i].atoms) {
      out.push_back({clamp_mul(b[j].coefficient, scale), b[j].atoms});
      ++j;
    } else {
      const int64_t c = clamp_add(a[i].coefficient, clamp_mul(b[j].coefficient, scale));
      if (c != 0) out.push_back({c, a[i].atoms});
      ++i;
      ++j;
    }
  }
  return out;
}

DimTable::Poly DimTable::mul_poly(const Poly& a, const Poly& b) {
  Poly out;
  for (const Term& t : a) {
    Poly row;
    for (const Term& u : b) {
      Term r{clamp_mul(t.coefficient, u.coefficient), {}};
      std::merge(t.atoms.begin(), t.atoms.end(), u.atoms.begin(), u.atoms.end(), std::back_inserter(r.atoms));
      row.push_back(std::move(r));
    }
    std::sort(row.begin(), row.end(), [](const Term& x, const Term& y) { return x.atoms < y.atoms; });
    out = add_poly(out, row, 1);
  }
  return out;
}

// A sum or difference, whose definition mentions no symbol that the terms lack.
Dim DimTable::combined(Operator op, Dim a, Dim b, Poly terms) {
  const size_t own = std::max(poly_size(a), poly_size(b));
  return intern(std::move(terms), terms.size() > own ? Definition{op, a, b} : Definition{});
}

Dim DimTable::add(Dim a, Dim b) {
  if (a.is_static() && b.is_static()) return Dim(a.size() + b.size());
  return combined(Operator::Add, a, b, add_poly(poly(a), poly(b), 1));
}

Dim DimTable::sub(Dim a, Dim b) {
  if (a.is_static() && b.is_static()) return constant(a.size() - b.size());
  return combined(Operator::Subtract, a, b, add_poly(poly(a), poly(b), -1));
}

Dim DimTable::mul(Dim a, Dim b) {
  const auto degree = [](const Poly& p) {
    size_t most = 0;
    for (const Term& t : p) most = std::max(most, t.atoms.size());
    return most;
  };
  if (a.is_static() && b.is_static()) return Dim(clamp_mul(a.size(), b.size()));
  const Poly x = poly(a), y = poly(b);
  if (x.size() * y.size() > kMaxTerms || degree(x) + degree(y) > kMaxDegree) return fresh("opaque");
  return intern(mul_poly(x, y), {Operator::Multiply, a, b});
}

Dim DimTable::product(std::span<const Dim> dims) {
  Dim p(1);
  for (Dim d : dims) p = mul(p, d);
  return p;
}

Dim DimTable::sum(std::span<const Dim> dims) {
  Poly terms;
  for (Dim d : dims) {
    Poly p = poly(d);
    terms.insert(terms.end(), std::make_move_iterator(p.begin()), std::make_move_iterator(p.end()));
  }
  std::ranges::sort(terms, {}, &Term::atoms);
  Poly out;
  for (Term& t : terms)
    if (!out.empty() && out.back().atoms == t.atoms) out.back().coefficient = clamp_add(out.back().coefficient, t.coefficient);
    else out.push_back(std::move(t));
  std::erase_if(out, [](const Term& t) { return t.coefficient == 0; });
  return intern(std::move(out));
}

std::optional<DimTable::Poly> DimTable::exact_div(const Poly& a, const Poly& b) const {
  if (b.size() != 1 || b[0].coefficient == 0) {
    if (a.size() != b.size() || a.empty()) return std::nullopt;  // k*b / b
    const int64_t c = b[0].coefficient;
    if (c == 0 || a[0].coefficient % c != 0) return std::nullopt;
    const int64_t k = a[0].coefficient / c;
    if (add_poly(a, b, -k).empty()) return Poly{Term{k, {}}};
    return std::nullopt;
  }
  Poly out;
  for (const Term& t : a) {
    if (t.coefficient % b[0].coefficient != 0) return std::nullopt;
    if (!std::includes(t.atoms.begin(), t.atoms.end(), b[0].atoms.begin(), b[0].atoms.end())) return std::nullopt;
    Term q{t.coefficient / b[0].coefficient, {}};
    std::set_difference(t.atoms.begin(), t.atoms.end(), b[0].atoms.begin(), b[0].atoms.end(), std::back_inserter(q.atoms));
    out.push_back(std::move(q));
  }
  std::sort(out.begin(), out.end(), [](const Term& x, const Term& y) { return x.atoms < y.atoms; });
  return out;
}

Dim DimTable::function(DimFn fn, Dim a, Dim b) {
  std::string key;
  for (const int64_t part : {static_cast<int64_t>(fn), a.raw(), b.raw()}) append_key(key, part);
  if (const auto known = functions_.find(key); known != functions_.end()) return known->second;
  const Dim result = simplified(fn, a, b);
  functions_.emplace(std::move(key), result);
  return result;
}

Dim DimTable::simplified(DimFn fn, Dim a, Dim b) {
  const auto x = constant_value(a), y = constant_value(b);
  if (x && y)
    if (auto v = apply(fn, *x, *y)) return constant(*v);
  if ((fn == DimFn::Min || fn == DimFn::Max)) {
    if (a == b) return a;
    if (auto d = constant_value(sub(a, b))) return (*d >= 0) == (fn == DimFn::Max) ? a : b;
    if (at_least(sub(a, b), 0)) return fn == DimFn::Max ? a : b;
    if (at_least(sub(b, a), 0)) return fn == DimFn::Max ? b : a;
    const auto is_of = [&](Dim f, Dim x) {  // max(max(x,y),x) is max(x,y)
      const auto inner = single_atom(f);
      return inner && !atoms_[*inner].is_symbol && atoms_[*inner].fn == fn && (atoms_[*inner].a == x || atoms_[*inner].b == x);
    };
    if (is_of(a, b)) return a;
    if (is_of(b, a)) return b;
    if (b.raw() < a.raw()) std::swap(a, b);
  }
  Atom f;
  f.is_symbol = false;
  f.fn = fn;
  f.a = a;
  f.b = b;
  f.weight = 1 + text_weight(a) + text_weight(b);
  f.is_named = f.weight > kMaxWeight;
  f.is_deep = f.is_named || name_of(a) != kUnnamed || name_of(b) != kUnnamed;
  if (f.is_named) f.weight = 1;
  const uint32_t index = atom(f);
  const Dim d = from_atom(index);
  if (f.is_deep) atoms_[index].self = d;
  if (f.is_named && name_of(d) == kUnnamed) name_size(d, {});
  return d;
}

std::optional<Dim> DimTable::without_mod(Dim a, Dim b) {
  for (const Term& t : poly(a)) {
    if (t.coefficient != -1 || t.atoms.size() != 1) continue;
    const uint32_t index = t.atoms[0];
    const Atom& f = atoms_[index];
    if (f.is_symbol || f.fn != DimFn::Mod || f.b != b) continue;
    const Dim rest = f.a, whole = add(a, from_atom(index));
    if (whole == rest || exact_div(poly(sub(whole, rest)), poly(b))) return whole;
  }
  return std::nullopt;
}

Dim DimTable::floor_div(Dim a, Dim b) {
  if (a.is_static() && b.is_static() && b != 0) return Dim(a.size() / b.size());
  if (auto q = exact_div(poly(a), poly(b))) return intern(std::move(*q));
  if (const auto whole = without_mod(a, b)) return floor_div(*whole, b);
  if (auto c = constant_value(b); c && *c > 0) {  // floor((c*p + r) / c) = p + floor(r / c)
    Poly whole, rest;
    for (const Term& t : poly(a)) {
      if (t.coefficient % *c == 0) whole.push_back({t.coefficient / *c, t.atoms});
      else rest.push_back(t);
    }
    if (!whole.empty()) return add(intern(std::move(whole)), function(DimFn::FloorDiv, intern(std::move(rest)), b));
  }
  return function(DimFn::FloorDiv, a, b);
}

Dim DimTable::ceil_div(Dim a, Dim b) { return floor_div(sub(add(a, b), Dim(1)), b); }

Dim DimTable::mod(Dim a, Dim b) {
  if (divides(b, a)) return Dim(0);
  return function(DimFn::Mod, a, b);
}

Dim DimTable::min(Dim a, Dim b) { return function(DimFn::Min, a, b); }
Dim DimTable::max(Dim a, Dim b) { return function(DimFn::Max, a, b); }

std::optional<int64_t> DimTable::constant_value(Dim d) const {
  if (d.is_static()) return d.size();
  const Poly& p = polys_[d.index()].terms;
  if (p.size() == 1 && p[0].atoms.empty()) return p[0].coefficient;
  return std::nullopt;
}

bool DimTable::divides(Dim a, Dim b) {
  const Dim divisor = canonical(a), whole = canonical(b);
  if (divisor.is_static() && whole.is_static()) return divisor != 0 && whole.size() % divisor.size() == 0;
  if (divisor.is_static() && is_multiple(whole, divisor.size())) return true;
  return exact_div(poly(whole), poly(divisor)).has_value() || without_mod(whole, divisor).has_value();
}

bool DimTable::is_multiple(Dim d, int64_t of) const {
  if (of <= 0 || of > INT32_MAX) return false;
  DeepValues deep;
  each_deep(
      d, [](uint32_t) { return false; }, [&](uint32_t a) { deep.emplace(a, common_factor(a, of, deep)); });
  return common_factor(d, of, deep) == of;
}

int64_t DimTable::common_factor(Dim d, int64_t of, const DeepValues& deep) const {
  int64_t all = of;
  for (const Term& t : poly(d)) {
    int64_t factor = std::gcd(of, t.coefficient);
    for (uint32_t a : t.atoms) {
      if (factor == of) break;
      const auto known = deep.find(a);
      factor = std::gcd(of, factor * (known == deep.end() ? common_factor(a, of, deep) : *known->second));
    }
    all = std::gcd(all, factor);
  }
  return all;
}

int64_t DimTable::common_factor(uint32_t a, int64_t of, const DeepValues& deep) const {
  const Atom& f = atoms_[a];
  if (f.is_symbol || f.fn == DimFn::FloorDiv) return 1;
  return std::gcd(common_factor(f.a, of, deep), common_factor(f.b, of, deep));
}

bool DimTable::equal(Dim a, Dim b) { return a == b || canonical(a) == canonical(b); }

bool DimTable::known_ne(Dim a, Dim b) {
  const Dim d = sub(canonical(a), canonical(b));
  if (auto c = constant_value(d)) return *c != 0;
  if (at_least(d, 1) || at_least(sub(Dim(0), d), 1)) return true;
  int64_t divisor = 0, constant = 0;  // 12*n != 18: no multiple of 12 is 18
  for (const Term& t : poly(d))
    if (t.atoms.empty()) constant = t.coefficient;
    else divisor = std::gcd(divisor, t.coefficient);
  return divisor != 0 && constant % divisor != 0;
}

std::optional<int64_t> DimTable::lower_bound(Dim d, int64_t symbols) {
  symbols = std::min<int64_t>(symbols, UINT32_MAX);
  each_deep(
      d, [&](uint32_t a) { return low_.contains(low_key(a, symbols)); }, [&](uint32_t a) { lower_bound(a, symbols); });
  return bound_part(d, symbols);
}

std::optional<int64_t> DimTable::bound_part(Dim d, int64_t symbols) {
  if (d.is_static()) return d.size();
  int64_t low = 0;
  for (const Term& t : polys_[d.index()].terms) {
    int64_t product = t.coefficient;
    for (uint32_t a : t.atoms) {
      const auto factor = t.coefficient < 0 ? std::nullopt : lower_bound(a, symbols);
      if (!factor || *factor < 0) return std::nullopt;
      product = clamp_mul(product, *factor);
    }
    low = clamp_add(low, product);
  }
  return low;
}

std::optional<int64_t> DimTable::lower_bound(uint32_t index, int64_t symbols) {
  const Atom& f = atoms_[index];
  if (f.is_symbol) return symbols;
  const uint64_t key = low_key(index, symbols);
  if (const auto known = low_.find(key); known != low_.end()) return known->second;
  const auto a = bound_part(f.a, symbols), b = bound_part(f.b, symbols);
  std::optional<int64_t> low;
  switch (f.fn) {
    case DimFn::FloorDiv:
      if (a && *a >= 0 && b && *b >= 1) low = f.b.is_static() ? *a / f.b.size() : 0;
      break;
    case DimFn::Mod:
      if (b && *b >= 1) low = 0;
      break;
    case DimFn::Min:
      if (a && b) low = std::min(*a, *b);
      break;
    case DimFn::Max: low = a && b ? std::optional(std::max(*a, *b)) : a ? a : b; break;
  }
  low_.emplace(key, low);
  return low;
}

bool DimTable::at_least(Dim d, int64_t bound, int64_t symbols) {
  const auto low = lower_bound(canonical(d), symbols);
  return low && *low >= bound;
}

std::optional<uint32_t> DimTable::single_atom(Dim d) const {
  if (d.is_static()) return std::nullopt;
  const Poly& p = polys_[d.index()].terms;
  return p.size() == 1 && p[0].coefficient == 1 && p[0].atoms.size() == 1 ? std::optional(p[0].atoms[0]) : std::nullopt;
}

template <class LeafFn, class WholeFn>
Dim DimTable::rewrite(Dim d, LeafFn leaf, WholeFn whole) {
  if (d.is_static()) return d;
  Dim sum(0);
  const Poly terms = polys_[d.index()].terms;
  for (const Term& t : terms) {
    Dim product = constant(t.coefficient);
    for (uint32_t a : t.atoms) {
      const Atom at = atoms_[a];
      Dim factor;
      if (const std::optional<Dim> known = leaf(a)) {
        factor = *known;
      } else if (at.is_symbol) {
        factor = from_atom(a);
      } else {
        const Dim x = whole(at.a), y = whole(at.b);
        factor = at.fn == DimFn::FloorDiv ? floor_div(x, y) : at.fn == DimFn::Mod ? mod(x, y) : function(at.fn, x, y);
        if (const auto made = single_atom(factor)) factor = leaf(*made).value_or(factor);
      }
      product = mul(product, factor);
    }
    sum = add(sum, product);
  }
  return sum;
}

Dim DimTable::canonical(Dim d) {
  if (d.is_static() || substitution_.empty()) return d;
  each_deep(
      d, [&](uint32_t a) { return canonical_.contains(atoms_[a].self.index()); },
      [&](uint32_t a) { canonical_part(atoms_[a].self); });
  return canonical_part(d);
}

Dim DimTable::canonical_part(Dim d) {
  if (d.is_static()) return d;
  if (const auto known = canonical_.find(d.index()); known != canonical_.end()) return known->second;
  const auto replaced = [&](uint32_t a) {
    auto it = substitution_.find(a);
    return it == substitution_.end() ? std::nullopt : std::optional(it->second);
  };
  const Dim result = rewrite(d, replaced, [&](Dim inner) { return canonical_part(inner); });
  canonical_.emplace(d.index(), result);
  return result;
}

void DimTable::index_atoms(Dim d, uint32_t reader) {
  each_atom(polys_, atoms_, d, [&](uint32_t a) {
    readers_[a].push_back(reader);
    return true;
  });
}

// Right-hand sides never contain a replaced symbol or function, so `canonical` needs one rewrite.
void DimTable::substitute(uint32_t atom, Dim by) {
  const auto forget = [&] { canonical_.clear(), functions_.clear(), bound_.clear(); };
  forget();
  substitution_[atom] = by;
  index_atoms(by, atom);
  const std::vector<uint32_t> readers = std::move(readers_[atom]);
  readers_.erase(atom);
  for (uint32_t reader : readers) {
    Dim& to = substitution_.at(reader);
    const Dim before = to;
    to = canonical(to);
    if (to != before) index_atoms(to, reader);
  }
  forget();
}

bool DimTable::assume_equal(Dim a, Dim b) {
  const Dim x = canonical(a), y = canonical(b);
  if (x == y) return true;
  if (known_ne(x, y)) return false;
  if (!parts_.empty()) {
    std::vector<Dim>& part = parts_.back();
    for (size_t i = 0; i < part.size(); i += 2)
      if (part[i] == a && part[i + 1] == b) return true;
    part.insert(part.end(), {a, b});
    return true;
  }
  // Equalities that a substitution expresses return above; the others are deduplicated here.
  if (!recorded_.insert(std::minmax(a.raw(), b.raw())).second) return true;
  equalities_.emplace_back(a, b);
  auto as_symbol = [&](Dim d) {
    const auto a = single_atom(d);
    return a && atoms_[*a].is_symbol ? a : std::nullopt;
  };
  auto mentions = [&](Dim d, uint32_t s) {
    const auto names = symbols_of(d);
    return std::binary_search(names.begin(), names.end(), names_[atoms_[s].symbol]);
  };
  // Replaces the later symbol by the earlier expression, so the result does not depend on the order of a and b.
  auto sx = as_symbol(x), sy = as_symbol(y);
  if (sx && sy) {
    substitute(std::max(*sx, *sy), from_atom(std::min(*sx, *sy)));
    return true;
  }
  if (sx && !mentions(y, *sx)) {
    substitute(*sx, y);
    return true;
  }
  if (sy && !mentions(x, *sy)) {
    substitute(*sy, x);
    return true;
  }
  // min(n,64) == n: replaces the function by its symbol.
  if (const auto f = single_atom(x); sy && f) {
    substitute(*f, y);
    return true;
  }
  if (const auto f = single_atom(y); sx && f) {
    substitute(*f, x);
    return true;
  }
  return true;
}

bool DimTable::need_equal(Dim a, Dim b) { return complete_ ? !known_ne(a, b) : assume_equal(a, b); }

std::vector<Dim> DimTable::end_part() {
  std::vector<Dim> part = std::move(parts_.back());
  parts_.pop_back();
  return part;
}

std::vector<Dim> DimTable::deep_functions_of(Dim d) const {
  std::vector<Dim> out;
  each_deep(
      d, [](uint32_t) { return false; }, [&](uint32_t a) { out.push_back(atoms_[a].self); });
  return out;
}

std::optional<int64_t> DimTable::evaluate(Dim d, const DimBindings& bindings) const {
  DeepValues deep;
  each_deep(
      d, [](uint32_t) { return false; }, [&](uint32_t a) { deep.emplace(a, evaluate(a, bindings, deep)); });
  return evaluate(d, bindings, deep);
}

std::optional<int64_t> DimTable::evaluate(Dim d, const DimBindings& bindings, const DeepValues& deep) const {
  if (d.is_static()) return d.size();
  int64_t sum = 0;
  for (const Term& t : polys_[d.index()].terms) {
    int64_t product = t.coefficient;
    for (uint32_t a : t.atoms) {
      const auto known = deep.find(a);
      const auto v = known == deep.end() ? evaluate(a, bindings, deep) : known->second;
      if (!v || __builtin_mul_overflow(product, *v, &product)) return std::nullopt;
    }
    if (__builtin_add_overflow(sum, product, &sum)) return std::nullopt;
  }
  return sum;
}

std::optional<int64_t> DimTable::evaluate(uint32_t a, const DimBindings& bindings, const DeepValues& deep) const {
  const Atom& at = atoms_[a];
  if (at.is_symbol) {
    const auto it = bindings.find(names_[at.symbol]);
    return it == bindings.end() ? std::nullopt : std::optional(it->second);
  }
  const auto x = evaluate(at.a, bindings, deep), y = evaluate(at.b, bindings, deep);
  return x && y ? apply(at.fn, *x, *y) : std::nullopt;
}

Dim DimTable::bind(Dim d, const DimBindings& bindings) {
  if (d.is_static() || bindings.empty()) return d;
  if (bindings != bindings_) {
    bindings_ = bindings;
    bound_.clear();
  }
  each_deep(
      d, [&](uint32_t a) { return bound_.contains(atoms_[a].self.index()); }, [&](uint32_t a) { bind_part(atoms_[a].self); });
  return bind_part(d);
}

Dim DimTable::bind_part(Dim d) {
  if (d.is_static()) return d;
  if (const auto known = bound_.find(d.index()); known != bound_.end()) return known->second;
  const auto symbol = [&](uint32_t a) {
    const auto it = atoms_[a].is_symbol ? bindings_.find(names_[atoms_[a].symbol]) : bindings_.end();
    return it == bindings_.end() ? std::nullopt : std::optional(constant(it->second));
  };
  const Dim result = rewrite(d, symbol, [&](Dim inner) { return bind_part(inner); });
  bound_.emplace(d.index(), result);
  return result;
}

void DimTable::collect(Dim d, std::vector<std::string>& out) const {
  each_atom(polys_, atoms_, d, [&](uint32_t a) {
    if (atoms_[a].is_symbol) out.push_back(names_[atoms_[a].symbol]);
    return true;
  });
}

std::vector<std::string> DimTable::symbols_of(Dim d) const {
  std::vector<std::string> out;
  collect(d, out);
  std::sort(out.begin(), out.end());
  out.erase(std::unique(out.begin(), out.end()), out.end());
  return out;
}

}  // namespace rlxc
