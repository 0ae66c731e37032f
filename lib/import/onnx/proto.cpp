#include "import/onnx/proto.h"

#include <algorithm>
#include <charconv>

namespace rlxc::onnx_import {
namespace {

bool read_opset(Bytes b, OpsetView* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->domain = r.text(); break;
      case varint_field(2): out->version = r.value(); break;
    }
  return r.ok();
}

bool read_configuration(Bytes b, DeviceConfiguration* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->name = r.text(); break;
      case varint_field(2): out->devices = r.value(); break;
      case bytes_field(3): out->device_names.emplace_back(r.text()); break;
    }
  return r.ok();
}

bool read_part(Bytes b, ShardedAxis::Part* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): out->size = r.value(); break;
      case bytes_field(2): out->symbol = r.text(); break;
      case varint_field(3): out->shards = r.value(); break;
    }
  return r.ok();
}

bool read_axis(Bytes b, ShardedAxis* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): out->axis = r.value(); break;
      case bytes_field(2):
        if (!read_part(r.bytes(), &out->parts.emplace_back())) return false;
        break;
    }
  return r.ok();
}

bool read_group(Bytes b, std::pair<int64_t, std::vector<int64_t>>* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): out->first = r.value(); break;
      case varint_field(2): out->second.push_back(r.value()); break;
      case bytes_field(2):
        if (!read_packed(r.bytes(), &out->second)) return false;
        break;
    }
  return r.ok();
}

bool read_sharding(Bytes b, TensorSharding* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->tensor = r.text(); break;
      case varint_field(2): out->devices.push_back(r.value()); break;
      case bytes_field(2):
        if (!read_packed(r.bytes(), &out->devices)) return false;
        break;
      case bytes_field(3):
        if (!read_group(r.bytes(), &out->groups.emplace_back())) return false;
        break;
      case bytes_field(4):
        if (!read_axis(r.bytes(), &out->axes.emplace_back())) return false;
        break;
    }
  return r.ok();
}

bool read_number(std::string_view s, uint64_t* out) {
  const auto [end, error] = std::from_chars(s.data(), s.data() + s.size(), *out);
  return error == std::errc() && end == s.data() + s.size();
}

bool read_external_entry(Bytes b, ExternalData* out) {
  std::string_view key, value;
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): key = r.text(); break;
      case bytes_field(2): value = r.text(); break;
    }
  if (!r.ok()) return false;
  uint64_t number = 0;
  if (key == "location") {
    out->location = value;
  } else if (key == "checksum") {
    out->checksum = value;
  } else if (key == "offset" || key == "length") {
    if (!read_number(value, &number)) out->malformed = true;
    else if (key == "offset") out->offset = number;
    else out->length = number;
  }
  return true;
}

}  // namespace

std::vector<int64_t> AttributeView::ints() const {
  std::vector<int64_t> out;
  WireReader r(body);
  while (r.next()) {
    if (r.tag() == varint_field(8)) out.push_back(r.value());
    else if (r.tag() == bytes_field(8) && !read_packed(r.bytes(), &out)) break;
  }
  return out;
}

std::vector<float> AttributeView::floats() const {
  std::vector<float> out;
  WireReader r(body);
  while (r.next()) {
    if (r.tag() == fixed32_field(7)) out.push_back(r.float_value());
    else if (r.tag() == bytes_field(7) && !read_packed(r.bytes(), &out)) break;
  }
  return out;
}

std::vector<std::string_view> AttributeView::strings() const {
  std::vector<std::string_view> out;
  WireReader r(body);
  while (r.next())
    if (r.tag() == bytes_field(9)) out.push_back(r.text());
  return out;
}

const AttributeView* NodeView::attribute(std::string_view attribute_name) const {
  for (const AttributeView& a : attributes)
    if (a.name == attribute_name) {
      a.asked = true;
      return &a;
    }
  return nullptr;
}

std::string_view NodeView::repeated_attribute() const {
  if (attributes.size() < 2) return {};
  std::vector<std::string_view> names;
  for (const AttributeView& a : attributes) names.push_back(a.name);
  std::ranges::sort(names);
  const auto repeated = std::ranges::adjacent_find(names);
  return repeated == names.end() ? std::string_view() : *repeated;
}

bool read_attribute(Bytes b, AttributeView* out) {
  *out = {};
  out->body = b;
  AttrType guess = AttrType::Undefined;  // IR version 1 has no type field
  Bytes tensor, graph, type, sparse;
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->name = r.text(); break;
      case fixed32_field(2): out->f = r.float_value(), guess = AttrType::Float; break;
      case varint_field(3): out->i = r.value(), guess = AttrType::Int; break;
      case bytes_field(4): out->s = r.text(), guess = AttrType::String; break;
      case bytes_field(5): tensor = r.bytes(), guess = AttrType::Tensor; break;
      case bytes_field(6): graph = r.bytes(), guess = AttrType::Graph; break;
      case fixed32_field(7):
      case bytes_field(7): guess = AttrType::Floats; break;
      case varint_field(8):
      case bytes_field(8): guess = AttrType::Ints; break;
      case bytes_field(9): guess = AttrType::Strings; break;
      case bytes_field(14): type = r.bytes(), guess = AttrType::TypeProto; break;
      case varint_field(20):
        out->type = r.unsigned_value() <= 14 ? static_cast<AttrType>(r.unsigned_value()) : AttrType::Undefined;
        break;
      case bytes_field(21): out->reference = r.text(); break;
      case bytes_field(22): sparse = r.bytes(), guess = AttrType::SparseTensor; break;
    }
  if (out->type == AttrType::Undefined) out->type = guess;
  if (out->type == AttrType::Tensor) out->message = tensor;
  if (out->type == AttrType::Graph) out->message = graph;
  if (out->type == AttrType::TypeProto) out->message = type;
  if (out->type == AttrType::SparseTensor) out->message = sparse;
  return r.ok();
}

bool read_node(Bytes b, NodeView* out) {
  out->name = out->op_type = out->domain = out->overload = {};
  out->inputs.clear();
  out->outputs.clear();
  out->attributes.clear();
  out->devices.clear();
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->inputs.push_back(r.text()); break;
      case bytes_field(2): out->outputs.push_back(r.text()); break;
      case bytes_field(3): out->name = r.text(); break;
      case bytes_field(4): out->op_type = r.text(); break;
      case bytes_field(5):
        if (!read_attribute(r.bytes(), &out->attributes.emplace_back())) return false;
        break;
      case bytes_field(7): out->domain = r.text(); break;
      case bytes_field(8): out->overload = r.text(); break;
      case bytes_field(10): out->devices.push_back(r.bytes()); break;
    }
  if (out->domain == "ai.onnx") out->domain = {};
  return r.ok();
}

bool read_tensor(Bytes b, TensorView* out) {
  const auto typed = [out](uint32_t tag) {
    out->mixed |= out->packed_field != 0 && out->packed_field != tag >> 3;
    out->packed_field = tag >> 3;
  };
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): out->dims.push_back(r.value()); break;
      case bytes_field(1):
        if (!read_packed(r.bytes(), &out->dims)) return false;
        break;
      case varint_field(2): out->data_type = r.unsigned_value() <= 1000 ? static_cast<int>(r.unsigned_value()) : 0; break;
      case bytes_field(3): out->has_segment = true; break;
      case bytes_field(4):
      case bytes_field(5):
      case bytes_field(7):
      case bytes_field(10):
      case bytes_field(11):
        if (r.bytes().empty()) break;
        typed(r.tag());
        out->packed.push_back(r.bytes());
        break;
      case fixed32_field(4):
      case varint_field(5):
      case varint_field(7):
      case fixed64_field(10):
      case varint_field(11):
        typed(r.tag());
        out->loose.push_back(r.unsigned_value());
        break;
      case bytes_field(6): out->strings.push_back(r.text()); break;
      case bytes_field(8): out->name = r.text(); break;
      case bytes_field(9): out->raw = r.bytes(); break;
      case bytes_field(13):
        if (!read_external_entry(r.bytes(), &out->external_data)) return false;
        break;
      case varint_field(14): out->external = r.value() == 1; break;
    }
  const bool raw = out->raw && !out->raw->empty(), numbers = out->packed_field != 0, text = !out->strings.empty();
  out->mixed |= raw + numbers + text + out->external > 1;
  return r.ok();
}

bool read_sparse_tensor(Bytes b, SparseTensorView* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->values = r.bytes(); break;
      case bytes_field(2): out->indices = r.bytes(); break;
      case varint_field(3): out->dims.push_back(r.value()); break;
      case bytes_field(3):
        if (!read_packed(r.bytes(), &out->dims)) return false;
        break;
    }
  return r.ok();
}

bool read_value_info(Bytes b, ValueInfoView* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->name = r.text(); break;
      case bytes_field(2): out->type = r.bytes(), out->has_type = true; break;
    }
  return r.ok();
}

bool read_function(Bytes b, FunctionView* out) {
  out->body = b;
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->name = r.text(); break;
      case bytes_field(4): out->inputs.push_back(r.text()); break;
      case bytes_field(5): out->outputs.push_back(r.text()); break;
      case bytes_field(9):
        if (!read_opset(r.bytes(), &out->opsets.emplace_back())) return false;
        break;
      case bytes_field(10): out->domain = r.text(); break;
      case bytes_field(11):
        if (!read_attribute(r.bytes(), &out->defaults.emplace_back())) return false;
        break;
      case bytes_field(13): out->overload = r.text(); break;
    }
  if (out->domain == "ai.onnx") out->domain = {};
  return r.ok();
}

bool read_node_devices(Bytes b, NodeDevices* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case bytes_field(1): out->configuration = r.text(); break;
      case bytes_field(2):
        if (!read_sharding(r.bytes(), &out->tensors.emplace_back())) return false;
        break;
      case varint_field(3): out->stage = r.value(); break;
    }
  return r.ok();
}

bool read_model(Bytes b, ModelView* out) {
  WireReader r(b);
  while (r.next()) switch (r.tag()) {
      case varint_field(1): out->ir_version = r.value(); break;
      case bytes_field(7): out->graph = r.bytes(), ++out->graphs; break;
      case bytes_field(8):
        if (!read_opset(r.bytes(), &out->opsets.emplace_back())) return false;
        break;
      case bytes_field(25):
        if (!read_function(r.bytes(), &out->functions.emplace_back())) return false;
        break;
      case bytes_field(26):
        if (!read_configuration(r.bytes(), &out->configurations.emplace_back())) return false;
        break;
    }
  return r.ok();
}

}  // namespace rlxc::onnx_import
