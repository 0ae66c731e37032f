// A node in the reference format while it is converted: operands, fields, declared result.
#pragma once
#include <span>
#include <string>
#include <vector>

#include "import/json/document.h"
#include "ir/builder.h"

namespace rlxc::import_json {

struct Field {
  std::string name;
  std::string_view value;  // raw JSON
  size_t at = 0;
};

// Ops are externally tagged: "MatMul", {"Activation": "Gelu"}, {"Reduce": {"op": "Sum", ...}}. A missing or malformed field is an
// error that clears `good`; the handler's result is then ignored.
class ReferenceNode {
 public:
  Document& doc;
  Builder& b;
  std::vector<ValueId> in;
  Type type;       // declared
  std::string op;  // "Reduce"
  std::string name;
  size_t at = 0;
  size_t depth = 0;
  std::string_view payload;  // raw value of the tag; empty for a plain string
  size_t payload_at = 0;
  std::vector<Field> fields;  // of an object payload
  bool good = true;

  ReferenceNode(Document& d, Builder& builder) : doc(d), b(builder) {}

  bool fail(Code, std::string message);  // returns false
  ValueId operand(size_t i);             // error if there are fewer
  bool count(size_t low, size_t high);   // checks the number of operands

  const Field* find(std::string_view field) const;  // null if absent or null
  int64_t integer(std::string_view field);
  int64_t integer(std::string_view field, int64_t otherwise) { return find(field) ? integer(field) : otherwise; }
  double number(std::string_view field, double otherwise);
  bool flag(std::string_view field);                      // false if absent
  std::vector<int64_t> integers(std::string_view field);  // empty if absent
  std::vector<double> numbers(std::string_view field);
  std::string word(std::string_view field);  // a plain string; empty if absent or of another kind
  std::string payload_word();                // the payload as a string
  int64_t axis(int64_t written, int rank);   // normalised
  int rank(size_t operand) { return in.size() > operand && in[operand].valid() ? b.graph().rank(in[operand]) : 0; }
};

using ReferenceHandler = ValueId (*)(ReferenceNode&);
ReferenceHandler find_reference_op(std::string_view name);  // null if unknown
bool is_reference_block(std::string_view name);             // whether the op is in the HIR only

// Reads an inline subgraph from a field. Returns an invalid id after errors.
GraphId read_reference_body(ReferenceNode&, const Field&, std::string name);
// Values for the inputs of an inlined subgraph: by name, otherwise in the order of the inputs.
struct BoundInputs {
  std::vector<ValueId> in_order;
  std::vector<std::pair<std::string, ValueId>> by_name;
};
// Reads the subgraph into the builder's graph. Returns its outputs, none after errors.
std::vector<ValueId> read_reference_inline(ReferenceNode&, std::string_view field, Builder&, const BoundInputs&);

}  // namespace rlxc::import_json
