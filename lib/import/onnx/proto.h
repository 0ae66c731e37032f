// The messages of onnx.proto as views into the file: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto Each `read_x` returns
// false if the bytes are malformed. Repeated scalars are decoded on demand.
#pragma once
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "import/onnx/wire.h"
#include "ir/devices.h"

namespace rlxc::onnx_import {

enum class AttrType : uint8_t {
  Undefined,
  Float,
  Int,
  String,
  Tensor,
  Graph,
  Floats,
  Ints,
  Strings,
  Tensors,
  Graphs,
  SparseTensor,
  SparseTensors,
  TypeProto,
  TypeProtos
};

struct AttributeView {
  std::string_view name, s, reference;  // reference: the enclosing function's attribute that provides the value
  AttrType type = AttrType::Undefined;
  float f = 0;
  int64_t i = 0;
  Bytes message;               // the tensor, graph, sparse tensor or type that `type` says; empty if there is none
  Bytes body;                  // the whole attribute, from which lists are read
  mutable bool asked = false;  // whether it was looked up

  std::vector<int64_t> ints() const;
  std::vector<float> floats() const;
  std::vector<std::string_view> strings() const;
};

struct NodeView {
  std::string_view name, op_type, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeView> attributes;
  std::vector<Bytes> devices;  // NodeDeviceConfigurationProto

  const AttributeView* attribute(std::string_view attribute_name) const;
  std::string_view repeated_attribute() const;  // a duplicate name; empty if none
};
bool read_attribute(Bytes, AttributeView*);
bool read_node(Bytes, NodeView*);  // reuses the vectors

struct ExternalData {
  std::string_view location, checksum;  // checksum: SHA-1 of the whole file in hexadecimal; may be empty
  uint64_t offset = 0;
  std::optional<uint64_t> length;
  bool malformed = false;
};

struct TensorView {
  std::string_view name;
  std::vector<int64_t> dims;
  int data_type = 0;
  std::optional<Bytes> raw;     // raw_data
  std::vector<Bytes> packed;    // chunks of the typed field
  uint32_t packed_field = 0;    // its field number: 4 float, 5 int32, 7 int64, 10 double, 11 uint64
  std::vector<uint64_t> loose;  // unpacked elements of the typed field
  std::vector<std::string_view> strings;
  bool external = false, has_segment = false;
  bool mixed = false;  // data in more than one field
  ExternalData external_data;
};
bool read_tensor(Bytes, TensorView*);

struct SparseTensorView {
  Bytes values, indices;
  std::vector<int64_t> dims;
};
bool read_sparse_tensor(Bytes, SparseTensorView*);

struct ValueInfoView {
  std::string_view name;
  Bytes type;
  bool has_type = false;
};
bool read_value_info(Bytes, ValueInfoView*);

struct OpsetView {
  std::string_view domain;
  int64_t version = 0;
};

struct FunctionView {
  std::string_view name, domain, overload;
  std::vector<std::string_view> inputs, outputs;
  std::vector<AttributeView> defaults;
  std::vector<OpsetView> opsets;
  Bytes body;  // its nodes are field 7
};
bool read_function(Bytes, FunctionView*);

bool read_node_devices(Bytes, NodeDevices*);

struct ModelView {
  int64_t ir_version = 0;
  std::vector<OpsetView> opsets;
  std::vector<FunctionView> functions;
  std::vector<DeviceConfiguration> configurations;
  Bytes graph;
  int graphs = 0;
};
bool read_model(Bytes, ModelView*);

}  // namespace rlxc::onnx_import
