// Parses the protobuf wire format in place. Fields are views into the mapped file; no copies, no schema.
// https://protobuf.dev/programming-guides/encoding
#pragma once
#include <bit>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

namespace rlxc::onnx_import {

using Bytes = std::span<const std::byte>;

inline std::string_view as_text(Bytes b) { return {reinterpret_cast<const char*>(b.data()), b.size()}; }

// A field is identified by number and wire type: a known number with another wire type is skipped like an unknown one.
constexpr uint32_t varint_field(uint32_t number) { return number << 3; }
constexpr uint32_t fixed64_field(uint32_t number) { return number << 3 | 1; }
constexpr uint32_t bytes_field(uint32_t number) { return number << 3 | 2; }
constexpr uint32_t fixed32_field(uint32_t number) { return number << 3 | 5; }

class WireReader {
 public:
  explicit WireReader(Bytes b) : at_(b.data()), end_(b.data() + b.size()) {}

  // Advances to the next field. Returns false at the end or on malformed bytes, in which case ok() is false.
  bool next() {
    if (at_ == end_) return false;
    uint64_t tag = 0;
    if (!read_varint(&tag) || tag >> 32 || tag < 8) return fail();
    tag_ = static_cast<uint32_t>(tag);
    switch (tag_ & 7) {
      case 0: return read_varint(&value_) || fail();
      case 1: return read_fixed(8);
      case 2: {
        uint64_t length = 0;
        if (!read_varint(&length) || length > static_cast<uint64_t>(end_ - at_)) return fail();
        bytes_ = {at_, static_cast<size_t>(length)};
        at_ += length;
        return true;
      }
      case 5: return read_fixed(4);
      default: return fail();  // groups are not used by ONNX
    }
  }
  bool ok() const { return ok_; }

  uint32_t tag() const { return tag_; }
  uint64_t unsigned_value() const { return value_; }  // for varint, fixed32 and fixed64 fields
  int64_t value() const { return static_cast<int64_t>(value_); }
  float float_value() const { return std::bit_cast<float>(static_cast<uint32_t>(value_)); }
  Bytes bytes() const { return bytes_; }
  std::string_view text() const { return as_text(bytes_); }

 private:
  bool fail() { return at_ = end_, ok_ = false; }

  bool read_varint(uint64_t* out) {
    uint64_t v = 0;
    for (int shift = 0; shift < 70 && at_ != end_; shift += 7) {
      const auto byte = std::to_integer<uint64_t>(*at_++);
      v |= (byte & 127) << shift;
      if (byte < 128) return *out = v, true;
    }
    return false;
  }

  bool read_fixed(int size) {
    if (end_ - at_ < size) return fail();
    value_ = 0;
    for (int i = 0; i < size; ++i) value_ |= std::to_integer<uint64_t>(at_[i]) << (8 * i);
    at_ += size;
    return true;
  }

  const std::byte* at_;
  const std::byte* end_;
  uint32_t tag_ = 0;
  uint64_t value_ = 0;
  Bytes bytes_;
  bool ok_ = true;
};

// Reads consecutive varints without tags, the encoding of packed repeated fields. Returns false if malformed.
bool read_packed(Bytes, std::vector<int64_t>* out);
bool read_packed(Bytes, std::vector<float>* out);

}  // namespace rlxc::onnx_import
