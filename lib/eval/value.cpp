#include "eval/value.h"

#include "eval/tensor.h"

namespace rlxc::eval {

HostValue tensor_of(DType t, std::vector<int64_t> dims, const std::vector<double>& values) {
  auto meter = std::make_shared<MemoryMeter>(uint64_t{1} << 40);
  auto d = MemoryMeter::allocate(meter, t, std::move(dims));
  if (!d) return {};
  store(*d, 0, d->elements(), values.data());
  return host_value(std::move(*d));
}

HostValue strings_of(std::vector<int64_t> dims, std::vector<std::string> values) {
  TensorData d;
  d.dtype = DType::String;
  d.dims = std::move(dims);
  d.strings = std::move(values);
  return host_value(std::move(d));
}

std::vector<double> numbers(const HostValue& v) { return load_all<double>(v.tensor); }

Type type_of(const HostValue& v) {
  if (v.kind == TypeKind::Tensor) return tensor_type(v.tensor.dtype, {v.tensor.dims.begin(), v.tensor.dims.end()});
  if (v.kind == TypeKind::Map)
    return map_type(v.items[0].tensor.dtype == DType::String ? MapKey::String : MapKey::I64, v.items[1].tensor.dtype);
  Type t = v.items.empty() ? Type() : type_of(v.items[0]);
  for (const HostValue& item : v.items)
    if (type_of(item).dims != t.dims) {
      t.ranked = false;
      t.dims.clear();
    }
  return holder_type(v.kind, std::move(t));
}

}  // namespace rlxc::eval
