#include "import/onnx/text_proto.h"

#include <algorithm>
#include <bit>
#include <cctype>
#include <charconv>
#include <map>
#include <vector>

#include "import/onnx/text_cursor.h"
#include "import/onnx/wire_out.h"
#include "support/text.h"

namespace rlxc::onnx_import {
namespace {

enum class Kind : uint8_t { Int, Float, Double, Text, Message, PackedInt, PackedFloat, PackedDouble };

struct FieldRow {
  std::string_view name;
  uint32_t number;
  Kind kind;
  std::string_view message = {};  // its type, if it is a message
};

// The fields of onnx.proto, by message.
const std::map<std::string_view, std::vector<FieldRow>>& messages() {
  constexpr Kind I = Kind::Int, F = Kind::Float, S = Kind::Text, M = Kind::Message;
  static const std::map<std::string_view, std::vector<FieldRow>> all = {
      {"Model",
       {{"ir_version", 1, I},
        {"producer_name", 2, S},
        {"producer_version", 3, S},
        {"domain", 4, S},
        {"model_version", 5, I},
        {"doc_string", 6, S},
        {"graph", 7, M, "Graph"},
        {"opset_import", 8, M, "Opset"},
        {"metadata_props", 14, M, "Entry"},
        {"training_info", 20, M, "Training"},
        {"functions", 25, M, "Function"},
        {"configuration", 26, M, "Configuration"}}},
      {"Configuration", {{"name", 1, S}, {"num_devices", 2, I}, {"device", 3, S}}},
      {"Opset", {{"domain", 1, S}, {"version", 2, I}}},
      {"Entry", {{"key", 1, S}, {"value", 2, S}}},
      {"Graph",
       {{"node", 1, M, "Node"},
        {"name", 2, S},
        {"initializer", 5, M, "Tensor"},
        {"doc_string", 10, S},
        {"input", 11, M, "Value"},
        {"output", 12, M, "Value"},
        {"value_info", 13, M, "Value"},
        {"quantization_annotation", 14, M, "Annotation"},
        {"sparse_initializer", 15, M, "Sparse"},
        {"metadata_props", 16, M, "Entry"}}},
      {"Node",
       {{"input", 1, S},
        {"output", 2, S},
        {"name", 3, S},
        {"op_type", 4, S},
        {"attribute", 5, M, "Attribute"},
        {"doc_string", 6, S},
        {"domain", 7, S},
        {"overload", 8, S},
        {"metadata_props", 9, M, "Entry"},
        {"device_configurations", 10, M, "NodeDevices"}}},
      {"NodeDevices", {{"configuration_id", 1, S}, {"sharding_spec", 2, M, "Sharding"}, {"pipeline_stage", 3, I}}},
      {"Sharding",
       {{"tensor_name", 1, S},
        {"device", 2, I},
        {"index_to_device_group_map", 3, M, "Integers"},
        {"sharded_dim", 4, M, "ShardedDim"}}},
      {"Integers", {{"key", 1, I}, {"value", 2, I}}},
      {"ShardedDim", {{"axis", 1, I}, {"simple_sharding", 2, M, "Shards"}}},
      {"Shards", {{"dim_value", 1, I}, {"dim_param", 2, S}, {"num_shards", 3, I}}},
      {"Attribute",
       {{"name", 1, S},
        {"f", 2, F},
        {"i", 3, I},
        {"s", 4, S},
        {"t", 5, M, "Tensor"},
        {"g", 6, M, "Graph"},
        {"floats", 7, F},
        {"ints", 8, I},
        {"strings", 9, S},
        {"tensors", 10, M, "Tensor"},
        {"graphs", 11, M, "Graph"},
        {"doc_string", 13, S},
        {"tp", 14, M, "Type"},
        {"type_protos", 15, M, "Type"},
        {"type", 20, I},
        {"ref_attr_name", 21, S},
        {"sparse_tensor", 22, M, "Sparse"},
        {"sparse_tensors", 23, M, "Sparse"}}},
      {"Value", {{"name", 1, S}, {"type", 2, M, "Type"}, {"doc_string", 3, S}, {"metadata_props", 4, M, "Entry"}}},
      {"Tensor",
       {{"dims", 1, I},
        {"data_type", 2, I},
        {"segment", 3, M, "Segment"},
        {"float_data", 4, Kind::PackedFloat},
        {"int32_data", 5, Kind::PackedInt},
        {"string_data", 6, S},
        {"int64_data", 7, Kind::PackedInt},
        {"name", 8, S},
        {"raw_data", 9, S},
        {"double_data", 10, Kind::PackedDouble},
        {"uint64_data", 11, Kind::PackedInt},
        {"doc_string", 12, S},
        {"external_data", 13, M, "Entry"},
        {"data_location", 14, I},
        {"metadata_props", 16, M, "Entry"}}},
      {"Segment", {{"begin", 1, I}, {"end", 2, I}}},
      {"Sparse", {{"values", 1, M, "Tensor"}, {"indices", 2, M, "Tensor"}, {"dims", 3, I}}},
      {"Type",
       {{"tensor_type", 1, M, "TensorType"},
        {"sequence_type", 4, M, "Holder"},
        {"map_type", 5, M, "MapType"},
        {"denotation", 6, S},
        {"sparse_tensor_type", 8, M, "TensorType"},
        {"optional_type", 9, M, "Holder"}}},
      {"TensorType", {{"elem_type", 1, I}, {"shape", 2, M, "Shape"}}},
      {"Holder", {{"elem_type", 1, M, "Type"}}},
      {"MapType", {{"key_type", 1, I}, {"value_type", 2, M, "Type"}}},
      {"Shape", {{"dim", 1, M, "Dimension"}}},
      {"Dimension", {{"dim_value", 1, I}, {"dim_param", 2, S}, {"denotation", 3, S}}},
      {"Function",
       {{"name", 1, S},
        {"input", 4, S},
        {"output", 5, S},
        {"attribute", 6, S},
        {"node", 7, M, "Node"},
        {"doc_string", 8, S},
        {"opset_import", 9, M, "Opset"},
        {"domain", 10, S},
        {"attribute_proto", 11, M, "Attribute"},
        {"value_info", 12, M, "Value"},
        {"overload", 13, S},
        {"metadata_props", 14, M, "Entry"}}},
      {"Annotation", {{"tensor_name", 1, S}, {"quant_parameter_tensor_names", 2, M, "Entry"}}},
      {"Training",
       {{"initialization", 1, M, "Graph"},
        {"algorithm", 2, M, "Graph"},
        {"initialization_binding", 3, M, "Entry"},
        {"update_binding", 4, M, "Entry"}}}};
  return all;
}

// The enumerators that stand for numbers: attribute types, then places of data.
constexpr std::pair<std::string_view, int> kEnumerators[] = {
    {"UNDEFINED", 0},       {"FLOAT", 1},       {"INT", 2},          {"STRING", 3},  {"TENSOR", 4},  {"GRAPH", 5},
    {"FLOATS", 6},          {"INTS", 7},        {"STRINGS", 8},      {"TENSORS", 9}, {"GRAPHS", 10}, {"SPARSE_TENSOR", 11},
    {"SPARSE_TENSORS", 12}, {"TYPE_PROTO", 13}, {"TYPE_PROTOS", 14}, {"DEFAULT", 0}, {"EXTERNAL", 1}};

constexpr int kDeepest = 100;

class TextProtoReader : public TextCursor {
 public:
  explicit TextProtoReader(std::string_view text) : TextCursor(text) {}

  // Appends the fields of a message up to its end.
  bool message(std::string_view type, char end, int depth, std::string* out) {
    if (depth > kDeepest) return fail("messages are nested too deep");
    const std::vector<FieldRow>& rows = messages().at(type);
    std::map<uint32_t, std::string> packed;  // numbers of one field, which may be listed one by one
    while (true) {
      skip();
      if (rest_.empty() ? end == 0 : rest_.front() == end) break;
      const std::string_view name = word();
      if (name.empty()) return fail("expects the name of a field");
      const auto row = std::ranges::find(rows, name, &FieldRow::name);
      if (row == rows.end()) return fail("the field " + quote(name) + " is not known in a " + std::string(type));
      const bool colon = accept(':');
      if (!colon && row->kind != Kind::Message) return fail("expects ':' after " + quote(name));
      if (accept('[')) {
        for (bool first = true; !accept(']'); first = false)
          if ((!first && !accept(',')) || !value(*row, depth, out, &packed)) return fail("expects a list of values");
      } else if (!value(*row, depth, out, &packed)) {
        return fail("expects a value of " + quote(name));
      }
      if (!accept(',')) accept(';');
    }
    for (const auto& [number, bytes] : packed) put_bytes(out, number, bytes);
    return true;
  }

 private:
  bool value(const FieldRow& row, int depth, std::string* out, std::map<uint32_t, std::string>* packed) {
    switch (row.kind) {
      case Kind::Message: {
        const bool brace = accept('{');
        if (!brace && !accept('<')) return false;
        std::string inner;
        if (!message(row.message, brace ? '}' : '>', depth + 1, &inner)) return false;
        rest_.remove_prefix(1);
        put_bytes(out, row.number, inner);
        return true;
      }
      case Kind::Text: {
        std::string s;
        if (!text(&s)) return false;
        put_bytes(out, row.number, s);
        return true;
      }
      case Kind::Int:
      case Kind::PackedInt: {
        int64_t v = 0;
        if (!whole(word(), &v)) return false;
        if (row.kind == Kind::Int) put_tag(out, row.number, 0);
        put_varint(row.kind == Kind::Int ? out : &(*packed)[row.number], static_cast<uint64_t>(v));
        return true;
      }
      default: {
        double v = 0;
        if (!real(word(), &v)) return false;
        std::string* to = row.kind == Kind::Float ? out : &(*packed)[row.number];
        if (row.kind == Kind::Float) put_tag(out, row.number, 5);
        if (row.kind == Kind::PackedDouble) put_fixed(to, std::bit_cast<uint64_t>(v));
        else put_fixed(to, std::bit_cast<uint32_t>(static_cast<float>(v)));
        return true;
      }
    }
  }

  static bool whole(std::string_view w, int64_t* v) {
    if (integer(w, v)) return true;
    for (const auto& [name, number] : kEnumerators)
      if (name == w) {
        *v = number;
        return true;
      }
    return false;
  }

  static bool real(std::string_view w, double* v) {
    const bool minus = w.starts_with('-');
    if (minus || w.starts_with('+')) w.remove_prefix(1);
    if ((w.ends_with('f') || w.ends_with('F')) && w != "inf") w.remove_suffix(1);
    if (!parse_number(w, v)) return false;  // reads "inf" and "nan" too
    if (minus) *v = -*v;
    return true;
  }

  // Strings in quotes; several in a row are one.
  bool text(std::string* out) {
    bool some = false;
    for (skip(); !rest_.empty() && (rest_.front() == '"' || rest_.front() == '\''); skip()) {
      const char quote = rest_.front();
      rest_.remove_prefix(1);
      while (!rest_.empty() && rest_.front() != quote && rest_.front() != '\n')
        if (!character(out)) return false;
      if (rest_.empty() || rest_.front() != quote) return false;
      rest_.remove_prefix(1);
      some = true;
    }
    return some;
  }

  bool character(std::string* out) {
    char c = rest_.front();
    rest_.remove_prefix(1);
    if (c != '\\') {
      out->push_back(c);
      return true;
    }
    if (rest_.empty()) return false;
    c = rest_.front();
    rest_.remove_prefix(1);
    constexpr std::string_view kNames = "abfnrtv\\'\"?", kValues = "\a\b\f\n\r\t\v\\'\"?";
    if (const size_t at = kNames.find(c); at != kNames.npos) {
      out->push_back(kValues[at]);
      return true;
    }
    const bool hex = c == 'x' || c == 'X';
    std::string digits = hex ? std::string() : std::string(1, c);
    const auto fits = [&](char d) { return hex ? std::isxdigit(static_cast<unsigned char>(d)) != 0 : d >= '0' && d <= '7'; };
    while (!rest_.empty() && digits.size() < (hex ? 2U : 3U) && fits(rest_.front())) {
      digits.push_back(rest_.front());
      rest_.remove_prefix(1);
    }
    unsigned v = 0;
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), v, hex ? 16 : 8);
    if (error != std::errc() || end != digits.data() + digits.size()) return false;
    out->push_back(static_cast<char>(v));
    return true;
  }
};

}  // namespace

bool looks_like_text_proto(std::string_view head) {
  while (head.starts_with('#')) {
    head.remove_prefix(std::min(head.find('\n'), head.size()));
    head = trim(head);
  }
  const size_t end = head.find_first_not_of("abcdefghijklmnopqrstuvwxyz_");
  if (end == head.npos || end == 0) return false;
  const std::string_view name = head.substr(0, end), after = trim(head.substr(end));
  const auto& rows = messages().at("Model");
  return (after.starts_with(':') || after.starts_with('{') || after.starts_with('<')) &&
         std::ranges::find(rows, name, &FieldRow::name) != rows.end();
}

std::optional<std::string> read_text_proto(std::string_view text, Diagnostics& d) {
  TextProtoReader r(text);
  std::string out;
  if (r.message("Model", 0, 0, &out)) return out;
  d.error(Code::NotAModel, r.error(), "line " + std::to_string(r.line()));
  return std::nullopt;
}

}  // namespace rlxc::onnx_import
