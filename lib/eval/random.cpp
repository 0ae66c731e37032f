#include "eval/random.h"

#include "eval/tensor.h"
#include "eval/value.h"
#include "ir/size_message.h"

namespace rlxc::eval {
namespace {

// SplitMix64 (Steele, Lea, Flood 2014).
uint64_t next(uint64_t* state) {
  uint64_t z = *state += 0x9E3779B97F4A7C15;
  z = (z ^ z >> 30) * 0xBF58476D1CE4E5B9;
  z = (z ^ z >> 27) * 0x94D049BB133111EB;
  return z ^ z >> 31;
}

}  // namespace

uint64_t seed_of(uint64_t seed, std::string_view name) {
  uint64_t h = 0xCBF29CE484222325;
  for (char ch : name) h = (h ^ static_cast<unsigned char>(ch)) * 0x100000001B3;
  return next(&seed) ^ h;
}

std::vector<int64_t> sizes_of(const Module& m, const Type& type, const DimBindings& bindings) {
  std::vector<int64_t> dims;
  DimBindings known = bindings;
  for (Dim d : type.dims) {
    for (const auto& s : m.dims.symbols_of(d)) known.try_emplace(s, 2);
    dims.push_back(d.is_static() ? d.size() : m.dims.evaluate(d, known).value_or(2));
  }
  return dims;
}

// A tensor of numbers that `draw` returns, rounded.
template <class Draw>
HostValue drawn_tensor(DType t, std::vector<int64_t> dims, const Draw& draw) {
  HostValue v = host_value(*MemoryMeter::allocate(std::make_shared<MemoryMeter>(UINT64_MAX), t, std::move(dims)));
  std::vector<double> block(4096);
  const int64_t n = v.tensor.elements(), most = static_cast<int64_t>(block.size());
  for (int64_t first = 0; first < n; first += most) {
    const int64_t count = std::min(most, n - first);
    for (int64_t i = 0; i < count; ++i) block[static_cast<size_t>(i)] = draw();
    store(v.tensor, first, count, block.data());
  }
  return v;
}

bool random_inputs_fit(const Module& m, const Options& options, Diagnostics& d) {
  if (std::string unmet = unmet_equality(m.dims, options.bindings); !unmet.empty()) {
    d.error(Code::BadBinding, std::move(unmet));
    return false;
  }
  double bytes = 0;
  for (NodeId n : m.main().inputs()) {
    const Type& t = m.main().type(m.main().result(n));
    if (t.kind != TypeKind::Tensor) continue;
    const double element = t.dtype == DType::String ? sizeof(std::string) : bits(t.dtype) / 8.0;
    bytes += element * static_cast<double>(product(sizes_of(m, t, options.bindings)));
    if (bytes > static_cast<double>(options.max_bytes)) {
      d.error(Code::TooLarge, "random inputs take more than " + std::to_string(options.max_bytes) + " bytes",
              "input " + m.main().label(n).quoted(), "bind its symbols to smaller sizes, or give data");
      return false;
    }
  }
  return true;
}

HostValue random_value(const Module& m, const Type& type, const DimBindings& bindings, uint64_t seed, const RandomRange& range) {
  if (type.kind == TypeKind::Map) return empty_map(type);
  if (type.kind != TypeKind::Tensor) return {type.kind, {}, {}};
  std::vector<int64_t> dims = sizes_of(m, type, bindings);
  const auto n = static_cast<size_t>(product(dims));
  if (type.dtype == DType::String) return strings_of(std::move(dims), std::vector<std::string>(n, "text"));
  const auto span = static_cast<uint64_t>(range.int_high - range.int_low + 1);
  return drawn_tensor(type.dtype, std::move(dims), [&] {
    const uint64_t r = next(&seed);
    if (is_float(type.dtype) || is_complex(type.dtype))
      return range.low + (range.high - range.low) * static_cast<double>(r >> 11) * 0x1p-53;
    if (type.dtype == DType::Bool) return static_cast<double>(r >> 63);
    return static_cast<double>(range.int_low + static_cast<int64_t>(r % span));
  });
}

}  // namespace rlxc::eval
