// Element types of tensors, declared in dtype.def. 2-bit and 4-bit types are packed, low bits first.
#pragma once
#include <cstdint>
#include <optional>
#include <string_view>

namespace rlxc {

enum class DType : uint8_t {
#define DTYPE(id, text, bits, cls, onnx, ref) id,
#include "support/dtype.def"
#undef DTYPE
};

enum class DTypeClass : uint8_t { Float, Int, UInt, Bool, Complex, String };

inline constexpr int kDTypeCount = 0
#define DTYPE(id, text, bits, cls, onnx, ref) +1
#include "support/dtype.def"
#undef DTYPE
    ;

std::string_view name(DType);  // "f32"
int bits(DType);               // 32; 0 for string
DTypeClass dtype_class(DType);
std::optional<DType> dtype_from_name(std::string_view);  // "f32" or "F32"
std::optional<DType> dtype_from_onnx(int tensor_proto_type);
int onnx_dtype(DType);

inline bool is_float(DType t) { return dtype_class(t) == DTypeClass::Float; }
inline bool is_integer(DType t) { return dtype_class(t) == DTypeClass::Int || dtype_class(t) == DTypeClass::UInt; }
inline bool is_int8(DType t) { return t == DType::I8 || t == DType::U8; }  // an 8-bit integer of either sign
inline bool is_signed(DType t) { return dtype_class(t) == DTypeClass::Int || is_float(t); }
inline bool is_complex(DType t) { return dtype_class(t) == DTypeClass::Complex; }

// Types that the kernel language lacks: 8-bit floats and sub-byte types.
inline bool is_narrow(DType t) { return t != DType::String && (bits(t) < 8 || (bits(t) == 8 && is_float(t))); }
inline bool is_narrow_float(DType t) { return is_float(t) && bits(t) <= 8; }
inline DType storage_dtype(DType t) { return is_narrow(t) ? DType::U8 : t; }  // type of the bytes in kernels

// Bytes of `elements` packed elements. Nullopt on overflow and for strings, which have no fixed size.
std::optional<uint64_t> byte_size(DType, uint64_t elements);

}  // namespace rlxc
