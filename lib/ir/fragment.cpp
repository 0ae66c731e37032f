#include "ir/fragment.h"

#include "ir/bind_dims.h"

namespace rlxc {
namespace {

std::string words(const FragmentNode& n) {
  std::string s = std::string(name(n.op)) + "(";
  for (const FragmentOperand& o : n.in) s += (s.back() == '(' ? "" : ", ") + (o.name.empty() ? std::string("number") : o.name);
  return s + ")";
}

// Numbers given as integers fit attributes that are real.
std::optional<double> real(const AttrValue& v) {
  if (const auto* d = std::get_if<double>(&v)) return *d;
  if (const auto* i = std::get_if<int64_t>(&v)) return static_cast<double>(*i);
  return std::nullopt;
}

}  // namespace

std::optional<std::string> parameter_name(const AttrValue& v) {
  const auto* text = std::get_if<std::string>(&v);
  return text && text->starts_with('$') ? std::optional(text->substr(1)) : std::nullopt;
}

bool fragment_attrs(DimTable& dims, const FragmentNode& n, const FragmentValues& given, Attrs* out, std::string* message) {
  *out = default_attrs(n.op);
  for (const auto& [key, written] : n.attrs) {
    AttrValue value = written;
    if (const auto parameter = parameter_name(written)) {
      const auto at = given.parameters.find(*parameter);
      if (at == given.parameters.end()) {
        *message = words(n) + ": there is no parameter \"" + *parameter + "\"";
        return false;
      }
      value = at->second;
    }
    if (!set_attr_field(*out, key, value, dims, message)) {
      const auto number = std::holds_alternative<int64_t>(value) ? real(value) : std::nullopt;
      if (!number || !set_attr_field(*out, key, AttrValue(*number), dims, message)) {
        *message = words(n) + ": " + *message;
        return false;
      }
    }
  }
  std::string unknown;
  *out = with_dims(std::move(*out), [&](Dim d) {
    for (const std::string& s : dims.symbols_of(d))
      if (!given.sizes.contains(s)) unknown = s;
    return substitute(dims, d, given.sizes);
  });
  if (unknown.empty()) return true;
  *message = words(n) + ": there is no size \"" + unknown + "\"";
  return false;
}

bool build_fragment(Builder& b, std::span<const FragmentNode> nodes, FragmentValues* given, std::string* message) {
  for (const FragmentNode& n : nodes) {
    std::vector<ValueId> operands;
    ValueId first;
    for (const FragmentOperand& o : n.in) {
      const auto at = given->values.find(o.name);
      if (!o.name.empty() && at == given->values.end()) {
        *message = words(n) + ": there is no value \"" + o.name + "\"";
        return false;
      }
      operands.push_back(o.name.empty() ? ValueId() : at->second);
      if (!first.valid()) first = operands.back();
    }
    for (size_t i = 0; i < n.in.size(); ++i) {
      if (!n.in[i].name.empty()) continue;
      std::optional<double> number = n.in[i].number;
      if (const auto at = given->parameters.find(n.in[i].parameter); at != given->parameters.end()) number = real(at->second);
      if (!number || !first.valid() || b.graph().type(first).kind != TypeKind::Tensor) {
        *message = words(n) + ": operand " + std::to_string(i) + " is no number";
        return false;
      }
      operands[i] = b.scalar(b.graph().dtype(first), *number);
    }
    Attrs attrs;
    if (!fragment_attrs(b.dims(), n, *given, &attrs, message)) return false;
    const NodeId made = b.create_node(n.op, operands, attrs);
    if (!made.valid()) {
      *message = words(n) + ": " + b.error();
      return false;
    }
    if (n.out.size() > b.graph().result_count(made)) {
      *message = words(n) + " has fewer results than names";
      return false;
    }
    for (size_t r = 0; r < n.out.size(); ++r) given->values[n.out[r]] = b.graph().result(made, r);
  }
  return true;
}

bool bind_shape(DimTable& dims, const ShapePattern& pattern, std::span<const Dim> actual, BoundShapes* bound) {
  if (actual.size() < pattern.dims.size() || (!pattern.any_front && actual.size() != pattern.dims.size())) return false;
  const size_t front = actual.size() - pattern.dims.size();
  if (pattern.any_front) {
    const std::vector<Dim> own(actual.begin(), actual.begin() + static_cast<std::ptrdiff_t>(front));
    if (!bound->front) bound->front = own;
    else if (own != *bound->front) return false;
  }
  for (size_t i = 0; i < pattern.dims.size(); ++i) {
    const auto d = dims.parse(pattern.dims[i]);
    if (!d) return false;
    const std::vector<std::string> symbols = dims.symbols_of(*d);
    if (symbols.size() == 1 && *d == dims.symbol(symbols[0])) bound->sizes.try_emplace(symbols[0], actual[front + i]);
  }
  for (size_t i = 0; i < pattern.dims.size(); ++i) {
    const Dim d = dims.parse(pattern.dims[i]).value();
    for (const std::string& s : dims.symbols_of(d))
      if (!bound->sizes.contains(s)) return false;
    if (substitute(dims, d, bound->sizes) != actual[front + i]) return false;
  }
  return true;
}

std::optional<std::vector<Dim>> shape_of(DimTable& dims, const ShapePattern& pattern, const BoundShapes& bound) {
  std::vector<Dim> out;
  if (pattern.any_front) {
    if (!bound.front) return std::nullopt;
    out = *bound.front;
  }
  for (const std::string& text : pattern.dims) {
    const auto d = dims.parse(text);
    if (!d) return std::nullopt;
    for (const std::string& s : dims.symbols_of(*d))
      if (!bound.sizes.contains(s)) return std::nullopt;
    out.push_back(substitute(dims, *d, bound.sizes));
  }
  return out;
}

}  // namespace rlxc
