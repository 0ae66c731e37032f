// Messages of onnx.proto, written field by field: https://github.com/onnx/onnx/blob/main/onnx/onnx.proto
#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace rlxc::onnx_export {

class Message {
 public:
  Message& integer(int field, int64_t v) { return key(field, 0).varint(static_cast<uint64_t>(v)); }
  Message& number(int field, float v);
  Message& bytes(int field, std::string_view v) {
    key(field, 2).varint(v.size());
    text_ += v;
    return *this;
  }
  Message& message(int field, const Message& m) { return bytes(field, m.text_); }
  const std::string& text() const { return text_; }
  bool empty() const { return text_.empty(); }

 private:
  Message& key(int field, int wire_type) { return varint(static_cast<uint64_t>(field) << 3 | static_cast<uint64_t>(wire_type)); }
  Message& varint(uint64_t v) {
    for (; v >= 0x80; v >>= 7) text_ += static_cast<char>(v | 0x80);
    text_ += static_cast<char>(v);
    return *this;
  }
  std::string text_;
};

// The attributes of a node.
class Attributes {
 public:
  Attributes& integer(std::string_view name, int64_t v);
  Attributes& number(std::string_view name, double v);
  Attributes& string(std::string_view name, std::string_view v);
  Attributes& integers(std::string_view name, const std::vector<int64_t>& v);
  Attributes& numbers(std::string_view name, const std::vector<double>& v);
  Attributes& strings(std::string_view name, const std::vector<std::string>& v);
  Attributes& graph(std::string_view name, const Message& v);
  Attributes& type(std::string_view name, const Message& v);
  Attributes& tensor(std::string_view name, const Message& v);
  const std::vector<Message>& all() const { return all_; }

 private:
  Message& begin(std::string_view name, int type);
  std::vector<Message> all_;
};

}  // namespace rlxc::onnx_export
