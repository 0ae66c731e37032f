// Nodes in words, as files of operations and of rewrites give them: kinds, names of values and attributes. A number among the
// operands is a constant of the type of the first operand that has a name; "$NAME" stands for a parameter.
#pragma once
#include <map>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "ir/builder.h"
#include "ir/dim_range.h"

namespace rlxc {

using Parameters = std::map<std::string, AttrValue, std::less<>>;

struct FragmentOperand {
  std::string name;              // of a value
  std::optional<double> number;  // instead of a value
  std::string parameter;         // instead of a number
};

struct FragmentNode {
  OpKind op{};
  std::vector<FragmentOperand> in;
  std::vector<std::string> out;
  AttrFields attrs;  // text "$NAME" stands for a parameter
};

struct FragmentValues {
  std::map<std::string, ValueId, std::less<>> values;
  SymbolValues sizes;  // what symbols in attributes stand for
  Parameters parameters;
};

// The name behind the "$" if the text stands for a parameter.
std::optional<std::string> parameter_name(const AttrValue&);
// Attributes of the node: parameters have their value, symbols their size. False, with a message, for an unknown name.
bool fragment_attrs(DimTable&, const FragmentNode&, const FragmentValues&, Attrs*, std::string* message);

// Creates the nodes and adds their results to the values. False, with a message that names the node, if one does not type-check.
bool build_fragment(Builder&, std::span<const FragmentNode>, FragmentValues*, std::string* message);

// Binds the symbols of the shape ("n", "2*d") to the sizes of a tensor, or compares them. "..." in front takes any leading axes;
// it is the same list wherever it occurs.
struct ShapePattern {
  bool any_front = false;
  std::vector<std::string> dims;
};
struct BoundShapes {
  SymbolValues sizes;
  std::optional<std::vector<Dim>> front;
};
bool bind_shape(DimTable&, const ShapePattern&, std::span<const Dim> actual, BoundShapes*);
// The sizes that the shape stands for; nullopt if a symbol of it is not bound.
std::optional<std::vector<Dim>> shape_of(DimTable&, const ShapePattern&, const BoundShapes&);

}  // namespace rlxc
