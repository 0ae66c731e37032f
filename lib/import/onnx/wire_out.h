// Writing the wire format of protocol buffers.
#pragma once
#include <bit>
#include <cstdint>
#include <string>
#include <string_view>

namespace rlxc::onnx_import {

inline void put_varint(std::string* out, uint64_t v) {
  for (; v > 127; v >>= 7) out->push_back(static_cast<char>((v & 127) | 128));
  out->push_back(static_cast<char>(v));
}
inline void put_tag(std::string* out, uint32_t number, uint32_t wire) { put_varint(out, uint64_t{number} << 3 | wire); }
inline void put_int(std::string* out, uint32_t number, int64_t v) {
  put_tag(out, number, 0);
  put_varint(out, static_cast<uint64_t>(v));
}
inline void put_bytes(std::string* out, uint32_t number, std::string_view bytes) {
  put_tag(out, number, 2);
  put_varint(out, bytes.size());
  out->append(bytes);
}
template <class T>
void put_fixed(std::string* out, T v) {
  for (size_t i = 0; i < sizeof(T); ++i) out->push_back(static_cast<char>(v >> (8 * i) & 255));
}
inline void put_float(std::string* out, uint32_t number, double v) {
  put_tag(out, number, 5);
  put_fixed(out, std::bit_cast<uint32_t>(static_cast<float>(v)));
}

}  // namespace rlxc::onnx_import
