// The set of ops. One row of ops/*.def declares an op: name, operand counts, attributes, traits, type rule and a one-sentence
// description. The enum, verifier, text and JSON names, schema and docs are generated from it.
#pragma once
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlxc {

enum class OpKind : uint16_t {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) id,
#include "ir/ops.def"
#undef OP
};

inline constexpr int kOpCount = 0
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) +1
#include "ir/ops.def"
#undef OP
    ;

enum Trait : uint32_t {
  kLeaf = 1 << 0,         // Input, Param, Constant
  kActivation = 1 << 1,   // unary elementwise
  kBinary = 1 << 2,       // binary elementwise, result has the operand type
  kCompare = 1 << 3,      // binary elementwise, bool result
  kElementwise = 1 << 4,  // elementwise over broadcast operands (includes the three above)
  kCommutative = 1 << 5,
  kView = 1 << 6,      // may alias its first operand
  kMovement = 1 << 7,  // moves or selects elements, computes none
  kBlas = 1 << 8,      // contraction or convolution; never part of a region
  kReduction = 1 << 9,
  kImpure = 1 << 10,      // not deterministic, or updates state
  kBody = 1 << 11,        // owns sub-graphs
  kFused = 1 << 12,       // has a decomposition into simpler ops
  kInPlace = 1 << 13,     // the result may overwrite an operand of equal size that dies here
  kHir = 1 << 14,         // a block of the HIR; lowering removes it
  kNormTrait = 1 << 15,   // statistics over axes: accumulates in f32
  kSequenceOp = 1 << 16,  // works on sequences, optionals or strings
  kTerminator = 1 << 17,
  kCollective = 1 << 18,  // differs between the devices of a mesh, or exchanges data between them
};

inline constexpr uint32_t kTraitsOfOps[] = {
#define OP(id, text, min_in, max_in, results, attrs, traits, domain, infer, cost, precision, layout, maps, doc) traits,
#include "ir/ops.def"
#undef OP
};

// Claims and reports group the elementwise kinds under the class names "Activation", "Binary" and "Compare".
std::string_view name(OpKind);        // "matmul"
std::string_view kind_name(OpKind);   // "MatMul": enumerator, used in JSON reports and claims
std::string_view claim_name(OpKind);  // "Activation" for relu, else kind_name
std::string_view doc(OpKind);
std::optional<OpKind> op_from_name(std::string_view);  // "matmul" or "MatMul"
constexpr uint32_t traits(OpKind k) { return kTraitsOfOps[static_cast<size_t>(k)]; }
int min_inputs(OpKind);
int max_inputs(OpKind);    // -1: any number
int result_count(OpKind);  // -1: given when the node is created
constexpr bool has_trait(OpKind k, uint32_t t) { return (traits(k) & t) != 0; }
constexpr bool is_weight(OpKind k) { return k == OpKind::Param || k == OpKind::Constant; }

}  // namespace rlxc
