#include "eval/text_bytes.h"

#include <algorithm>

namespace rlxc::eval {

std::optional<HostValue> bytes_of_text(const HostValue& v) {
  size_t width = 1;
  for (const std::string& s : v.tensor.strings) {
    if (s.ends_with('\0')) return std::nullopt;
    width = std::max(width, s.size());
  }
  std::vector<uint8_t> bytes(static_cast<size_t>(v.tensor.elements()) * width);
  for (size_t i = 0; i * width < bytes.size(); ++i)
    std::ranges::copy(v.tensor.strings[v.tensor.splat ? 0 : i], bytes.begin() + static_cast<std::ptrdiff_t>(i * width));
  std::vector<int64_t> dims = v.tensor.dims;
  dims.push_back(static_cast<int64_t>(width));
  return HostValue{TypeKind::Tensor, make_data(DType::U8, std::move(dims), bytes), {}};
}
HostValue text_of_bytes(const HostValue& v) {
  const auto width = static_cast<size_t>(v.tensor.dims.back());
  TensorData d;
  d.dtype = DType::String;
  d.dims.assign(v.tensor.dims.begin(), v.tensor.dims.end() - 1);
  const auto* bytes = reinterpret_cast<const char*>(v.tensor.bytes.data());
  for (int64_t i = 0; i < d.elements(); ++i, bytes += width) {
    std::string s(bytes, width);
    s.erase(s.find_last_not_of('\0') + 1);
    d.strings.push_back(std::move(s));
  }
  return {TypeKind::Tensor, std::move(d), {}};
}

}  // namespace rlxc::eval
