// The text of dims, and the names of long ones.
#include <algorithm>
#include <array>
#include <cctype>
#include <unordered_set>

#include "ir/dim.h"
#include "support/parse_number.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr std::array<std::string_view, 4> kFunctionNames = {"floordiv", "mod", "min", "max"};

bool is_plain_symbol(std::string_view s) {
  if (s.empty() || std::isdigit(static_cast<unsigned char>(s[0]))) return false;
  return std::all_of(s.begin(), s.end(), [](unsigned char c) { return std::isalnum(c) || c == '_' || c == '.'; });
}

std::optional<uint32_t> number_of(std::string_view name) {
  uint32_t number = 0;
  if (!name.starts_with('#') || !parse_number(name.substr(1), &number) || number > INT32_MAX) return std::nullopt;
  return number;
}

}  // namespace

void DimTable::name_size(Dim d, Definition made_of) {
  polys_[d.index()].name = static_cast<uint32_t>(named_.size());
  named_.push_back({d, next_number_, made_of});
  numbered_[next_number_++] = d;
}

std::optional<Dim> DimTable::size_named(std::string_view name) const {
  const auto number = number_of(name);
  const auto it = number ? numbered_.find(*number) : numbered_.end();
  return it == numbered_.end() ? std::nullopt : std::optional(it->second);
}

bool DimTable::define(std::string_view name, std::string_view definition) {
  const auto number = number_of(name);
  const auto d = number ? parse(definition) : std::nullopt;
  if (!d) return false;
  const auto renumber = [&](Dim named, uint32_t to) {
    named_[name_of(named)].number = to;
    numbered_[to] = named;
  };
  next_number_ = std::max(next_number_, *number + 1);
  if (const auto taken = numbered_.find(*number); taken != numbered_.end() && taken->second != *d)
    if (const Dim other = taken->second; name_of(other) != kUnnamed && named_[name_of(other)].number == *number)
      renumber(other, next_number_++);
  if (name_of(*d) != kUnnamed) renumber(*d, *number);
  else numbered_[*number] = *d;
  return true;
}

DimTable::Definition DimTable::definition_of(Dim d) const {
  if (name_of(d) != kUnnamed && named_[name_of(d)].made_of.op != Operator::Terms) return named_[name_of(d)].made_of;
  const auto single = single_atom(d);
  if (!single || atoms_[*single].is_symbol) return {};
  constexpr std::array kOperators = {Operator::FloorDiv, Operator::Mod, Operator::Min, Operator::Max};
  const Atom& f = atoms_[*single];
  return {kOperators[static_cast<size_t>(f.fn)], f.a, f.b};
}

std::vector<size_t> DimTable::named_sizes_of(std::span<const Dim> dims) const {
  std::vector<size_t> out;
  if (named_.empty()) return out;
  std::unordered_set<uint32_t> seen;  // expressions
  std::vector<Dim> open(dims.begin(), dims.end());
  while (!open.empty()) {
    const Dim d = open.back();
    open.pop_back();
    if (d.is_static() || !seen.insert(d.index()).second) continue;
    if (const uint32_t name = name_of(d); name != kUnnamed) {
      out.push_back(name);
      if (const Definition& made = named_[name].made_of; made.op != Operator::Terms) {
        open.insert(open.end(), {made.a, made.b});
        continue;
      }
    }
    for (const Term& t : polys_[d.index()].terms)
      for (uint32_t a : t.atoms) {
        if (atoms_[a].is_symbol) continue;
        if (atoms_[a].is_named && atoms_[a].self != d) open.push_back(atoms_[a].self);
        else open.insert(open.end(), {atoms_[a].a, atoms_[a].b});
      }
  }
  std::ranges::sort(out);
  return out;
}

void DimTable::append_atom(uint32_t a, std::string* out) const {
  const Atom& at = atoms_[a];
  if (at.is_symbol) {
    const std::string& name = names_[at.symbol];
    *out += is_plain_symbol(name) ? name : quote(name);
    return;
  }
  (*out += kFunctionNames[static_cast<size_t>(at.fn)]) += '(';
  append_text(at.a, out);
  *out += ',';
  append_text(at.b, out);
  *out += ')';
}

void DimTable::append_terms(Dim d, std::string* out) const {
  if (d.is_static()) {
    *out += std::to_string(d.size());
    return;
  }
  bool is_first = true;
  const auto append = [&](const Term& t) {
    if (t.coefficient < 0) *out += '-';
    else if (!is_first) *out += '+';
    is_first = false;
    const int64_t factor = std::abs(t.coefficient);
    const bool has_factor = factor != 1 || t.atoms.empty();
    if (has_factor) *out += std::to_string(factor);
    for (size_t i = 0; i < t.atoms.size(); ++i) {
      if (has_factor || i > 0) *out += '*';
      const uint32_t a = t.atoms[i];
      if (atoms_[a].is_named && atoms_[a].self != d) append_text(atoms_[a].self, out);
      else append_atom(a, out);
    }
  };
  // Symbolic terms first, the constant last: "2*seq+1".
  for (const bool is_constant : {false, true})
    for (const Term& t : polys_[d.index()].terms)
      if (t.atoms.empty() == is_constant) append(t);
}

void DimTable::append_text(Dim d, std::string* out) const {
  if (const uint32_t name = name_of(d); name != kUnnamed) (*out += '#') += std::to_string(named_[name].number);
  else append_terms(d, out);
}

std::string DimTable::text(Dim d) const {
  std::string out;
  append_text(d, &out);
  return out;
}

std::string DimTable::terms(Dim d) const {
  std::string out;
  append_terms(d, &out);
  return out;
}

std::string DimTable::definition(size_t i) const {
  const auto& [dim, number, made] = named_[i];
  std::string_view sign;
  switch (made.op) {
    case Operator::Add: sign = "+"; break;
    case Operator::Subtract: sign = "-"; break;
    case Operator::Multiply: sign = "*"; break;
    default: return terms(dim);
  }
  const auto part = [&](Dim d, bool is_whole) {
    const std::string s = text(d);
    return is_whole || (poly_size(d) < 2 && s[0] != '-') || name_of(d) != kUnnamed ? s : "(" + s + ")";
  };
  return part(made.a, made.op != Operator::Multiply) + std::string(sign) + part(made.b, false);
}

}  // namespace rlxc
