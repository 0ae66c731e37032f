// Operations that a file defines (--ops): what they compute in terms of others, and their derivatives.
#pragma once
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "ir/fragment.h"

namespace rlxc {

struct OpPort {
  std::string name;
  std::optional<DType> dtype;  // nullopt: that of all ports of the same variable
  std::string variable;
  ShapePattern shape;
};

enum class ParameterKind : uint8_t { Int, Float, String, Ints, Floats, Strings };
struct OpParameter {
  std::string name;
  ParameterKind kind{};
  std::optional<AttrValue> fallback;  // nullopt: has to be given
};

// The body of a kernel in the language of a target. It reads inputs and writes outputs by their names, has sizes of shapes as i64
// variables, and `group_x`, `group_y`, `group_z` and `thread_x`, .. as far as `grid` and `threads` say. "$NAME" stands for a
// parameter.
struct OpKernel {
  std::string target, source;
  std::vector<std::string> grid;        // extents, as expressions of sizes; at most three
  std::vector<int64_t> threads;         // of a workgroup
  std::map<std::string, DType> dtypes;  // of type variables; f32 for others
};

struct OpBody {
  std::vector<FragmentNode> nodes;
  std::vector<std::string> outputs;
};

// Names of values in bodies: the ports; in `vjp` also "grad:OUTPUT", in `jvp` "tangent:INPUT" of float ports. `vjp` gives the
// gradients of the float inputs, `jvp` the tangents of the float outputs. The ports of `vmap` have an axis in front, of the size
// "samples".
struct OpDefinition {
  std::string domain, name;
  std::vector<OpParameter> parameters;
  std::vector<OpPort> inputs, outputs;
  OpBody body;
  std::optional<OpBody> vjp, jvp, vmap;
  std::vector<OpKernel> kernels;  // instead of `body`, on their targets and for their element types
};

const OpDefinition* find_definition(const std::vector<OpDefinition>&, std::string_view domain, std::string_view name);

// A node (OpKind::CustomOp) on these operands. Invalid, with a message, if they do not fit the definition, or a body does not fit
// its ports. Parameters that are not given get their fallback.
NodeId create_custom_op(Builder&, const OpDefinition&, std::span<const ValueId> operands, Parameters, std::string* message);

}  // namespace rlxc
