// The parts of a module of MLIR: functions, operations, attributes and types. All text refers to the module's.
#pragma once
#include <cstdint>
#include <map>
#include <optional>
#include <string_view>
#include <vector>

#include "support/diagnostics.h"
#include "support/dtype.h"
#include "support/json_reader.h"

namespace rlxc::stablehlo_import {

inline constexpr int64_t kUnknownSize = -1;  // `?`

struct TensorType {
  std::optional<DType> dtype;  // none: a type that the IR lacks
  std::vector<int64_t> dims = {};
  std::string_view text = {};
};

// A list has `items`; a dictionary has them with keys. `text` of a Dense is what its brackets enclose.
struct Attr {
  enum class Kind : uint8_t { None, Int, Float, String, Word, Symbol, List, Dictionary, Dense, Resource };
  std::string_view key = {};
  Kind kind = Kind::None;
  int64_t integer = 0;
  std::string_view text = {};
  std::vector<Attr> items = {};
  std::optional<TensorType> type = {};
  size_t at = 0;

  const Attr* find(std::string_view name) const {
    for (const Attr& a : items)
      if (a.key == name) return &a;
    return nullptr;
  }
};

struct Operand {
  std::string_view name;  // without %
  uint32_t index = 0;     // of a group of results
  size_t at = 0;
};

struct Argument {
  std::string_view name;
  TensorType type;
  std::vector<Attr> attributes = {};
  size_t at = 0;
  std::string_view label = {};  // the name of its location
};

struct Operation;
struct Region {
  std::vector<Argument> arguments;
  std::vector<Operation> operations;
};

struct Operation {
  struct Result {
    std::string_view name;
    uint32_t count = 1;
  };
  std::string_view name;  // with the dialect; of `call` and `return`, without
  size_t at = 0;
  std::vector<Result> results = {};
  std::vector<Operand> operands = {};
  std::vector<Attr> attributes = {};
  std::vector<std::string_view> words = {};  // LT, SIGNED
  std::string_view symbol = {};              // of a call
  std::vector<Region> regions;
  std::vector<TensorType> result_types = {};

  size_t result_count() const {
    size_t n = 0;
    for (const Result& r : results) n += r.count;
    return n;
  }
  const Attr* find(std::string_view key) const {
    for (const Attr& a : attributes)
      if (a.key == key) return &a;
    return nullptr;
  }
  // The value of an enumeration: the attribute of the generic form, or word i of the pretty one. Empty without either.
  std::string_view word(std::string_view key, size_t i) const {
    const Attr* a = find(key);
    return a ? a->text : i < words.size() ? words[i] : std::string_view();
  }
  std::string_view direction() const { return word("comparison_direction", 0); }
  bool is_total_order() const { return word("compare_type", 1) == "TOTALORDER"; }
};

// Returns the operation of a region that defines a value; null for an argument or a value from outside.
inline const Operation* definition(const Region& r, std::string_view value) {
  for (const Operation& o : r.operations)
    for (const Operation::Result& x : o.results)
      if (x.name == value) return &o;
  return nullptr;
}

struct Function {
  std::string_view name;
  size_t at = 0;
  bool is_public = false;
  Region body = {};
  std::vector<Argument> results = {};  // types and attributes
};

struct ModuleText {
  std::string_view name;
  std::vector<Function> functions;
  std::map<std::string_view, std::string_view> resources;  // hexadecimal digits of dense_resource<NAME>
};

// Reads a module. Returns nothing after an error of syntax, which ends the reading.
std::optional<ModuleText> parse_module(std::string_view text, LineIndex&, Diagnostics&);

}  // namespace rlxc::stablehlo_import
