#include "export/onnx/wire.h"

#include <bit>

namespace rlxc::onnx_export {

Message& Message::number(int field, float v) {
  key(field, 5);
  const auto bits = std::bit_cast<uint32_t>(v);
  for (int k = 0; k < 4; ++k) text_ += static_cast<char>(bits >> (8 * k));
  return *this;
}

// AttributeProto: name 1, f 2, i 3, s 4, t 5, g 6, floats 7, ints 8, strings 9, tp 14, type 20.
Message& Attributes::begin(std::string_view name, int type) { return all_.emplace_back().bytes(1, name).integer(20, type); }
Attributes& Attributes::integer(std::string_view name, int64_t v) {
  begin(name, 2).integer(3, v);
  return *this;
}
Attributes& Attributes::number(std::string_view name, double v) {
  begin(name, 1).number(2, static_cast<float>(v));
  return *this;
}
Attributes& Attributes::string(std::string_view name, std::string_view v) {
  begin(name, 3).bytes(4, v);
  return *this;
}
Attributes& Attributes::graph(std::string_view name, const Message& v) {
  begin(name, 5).message(6, v);
  return *this;
}
Attributes& Attributes::type(std::string_view name, const Message& v) {
  begin(name, 13).message(14, v);
  return *this;
}
Attributes& Attributes::tensor(std::string_view name, const Message& v) {
  begin(name, 4).message(5, v);
  return *this;
}
Attributes& Attributes::integers(std::string_view name, const std::vector<int64_t>& v) {
  Message& m = begin(name, 7);
  for (int64_t i : v) m.integer(8, i);
  return *this;
}
Attributes& Attributes::numbers(std::string_view name, const std::vector<double>& v) {
  Message& m = begin(name, 6);
  for (double d : v) m.number(7, static_cast<float>(d));
  return *this;
}
Attributes& Attributes::strings(std::string_view name, const std::vector<std::string>& v) {
  Message& m = begin(name, 8);
  for (const std::string& s : v) m.bytes(9, s);
  return *this;
}

}  // namespace rlxc::onnx_export
