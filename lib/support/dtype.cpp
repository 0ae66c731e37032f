#include "support/dtype.h"

#include <array>
#include <limits>

namespace rlxc {
namespace {

struct DTypeRow {
  std::string_view text;
  int bits;
  DTypeClass cls;
  int onnx;
  std::string_view reference;
};

constexpr std::array<DTypeRow, kDTypeCount> kDTypeRows = {{
#define DTYPE(id, text, bits, cls, onnx, ref) {text, bits, DTypeClass::cls, onnx, ref},
#include "support/dtype.def"
#undef DTYPE
}};

const DTypeRow& row(DType t) { return kDTypeRows[static_cast<size_t>(t)]; }

template <class Match>
std::optional<DType> find(Match match) {
  for (size_t i = 0; i < kDTypeRows.size(); ++i)
    if (match(kDTypeRows[i])) return static_cast<DType>(i);
  return std::nullopt;
}

}  // namespace

std::string_view name(DType t) { return row(t).text; }
int bits(DType t) { return row(t).bits; }
DTypeClass dtype_class(DType t) { return row(t).cls; }
int onnx_dtype(DType t) { return row(t).onnx; }

std::optional<DType> dtype_from_name(std::string_view s) {
  return find([&](const DTypeRow& r) { return r.text == s || r.reference == s; });
}

std::optional<DType> dtype_from_onnx(int tensor_proto_type) {
  return find([&](const DTypeRow& r) { return r.onnx == tensor_proto_type; });
}

std::optional<uint64_t> byte_size(DType t, uint64_t elements) {
  const uint64_t b = static_cast<uint64_t>(bits(t));
  if (b == 0 || (elements != 0 && b > std::numeric_limits<uint64_t>::max() / elements)) return std::nullopt;
  return elements * b / 8 + (elements * b % 8 != 0);
}

}  // namespace rlxc
