#include "eval/random_weights.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "eval/value.h"
#include "support/checked.h"
#include "support/repeated_bytes.h"

namespace rlxc::eval {
namespace {

constexpr uint64_t kBlockBytes = 1021 * kRepeatGranule;  // 1021 is prime, so that rows of a matrix rarely repeat
constexpr uint64_t kPlace = 64;                          // alignment of weights in a block

// Ranges as for initialised networks, so that rounding errors do not grow over layers: matrices and filters within Glorot's bound
// (Glorot, Bengio: Understanding the difficulty of training deep feedforward neural networks, 2010), vectors positive, as
// variances and scales must be.
RandomRange range_of_weight(const Type& type, const RandomRange& range) {
  RandomRange r = range;
  if (type.dims.size() < 2) {
    r.low = r.high / 10;
    return r;
  }
  double taps = 1;
  const auto size = [&](size_t i) { return type.dims[i].is_static() ? static_cast<double>(type.dims[i].size()) : 2; };
  for (size_t i = 2; i < type.dims.size(); ++i) taps *= size(i);
  const double bound = std::sqrt(6 / std::max(1.0, (size(0) + size(1)) * taps));
  r.low *= std::min(1.0, bound);
  r.high *= std::min(1.0, bound);
  return r;
}

struct Weight {
  std::string name;
  Type type;
  RandomRange range;
  std::vector<int64_t> dims;
  uint64_t bytes = 0;  // 0: not a tensor of bytes

  auto key() const { return std::tuple(type.dtype, range.low, range.high); }
};

std::vector<Weight> weights_of(const Module& m, const DimBindings& bindings, const RandomRange& range) {
  std::vector<Weight> out;
  for (size_t i = 0; i < m.graph_count(); ++i) {
    const Graph& g = m.graph(GraphId(static_cast<uint32_t>(i)));
    for (NodeId n : g.nodes()) {
      if (g.op(n) != OpKind::Param || g.attrs<DataAttrs>(n).data.valid()) continue;
      const ValueId v = g.result(n);
      Weight w{std::string(m.bytes(g.value_name(v))), g.type(v), range_of_weight(g.type(v), range), {}, 0};
      if (w.type.kind == TypeKind::Tensor && w.type.dtype != DType::String) {
        w.dims = sizes_of(m, w.type, bindings);
        if (const auto n = checked_product(w.dims)) w.bytes = byte_size(w.type.dtype, static_cast<uint64_t>(*n)).value_or(0);
      }
      out.push_back(std::move(w));
    }
  }
  return out;
}

}  // namespace

NamedValues random_weights(const Module& m, const DimBindings& bindings, uint64_t seed, const RandomRange& range,
                           const NamedValues& known) {
  NamedValues out;
  auto weights = weights_of(m, bindings, range);
  std::erase_if(weights, [&](const Weight& w) {
    const auto it = known.find(w.name);
    if (it == known.end() || w.bytes == 0 || it->second.tensor.dtype != w.type.dtype || it->second.tensor.dims != w.dims)
      return false;
    out.insert(*it);
    return true;
  });
  using Key = decltype(Weight().key());
  std::map<Key, uint64_t> largest;
  for (const Weight& w : weights)
    if (w.bytes > kBlockBytes) largest[w.key()] = std::max(largest[w.key()], w.bytes);
  std::map<Key, std::shared_ptr<const RepeatedBytes>> shared;
  for (const Weight& w : weights)
    if (w.bytes > kBlockBytes && !shared.contains(w.key())) {
      const auto elements = static_cast<int64_t>(kBlockBytes * 8 / static_cast<uint64_t>(bits(w.type.dtype)));
      const HostValue block = random_value(m, tensor_type(w.type.dtype, {Dim(elements)}), {}, seed, w.range);
      shared[w.key()] = RepeatedBytes::make(block.tensor.bytes, largest[w.key()] + kBlockBytes);
    }

  for (const Weight& w : weights) {
    const uint64_t own = seed_of(seed, w.name);
    const auto block = w.bytes > kBlockBytes ? shared[w.key()] : nullptr;
    if (!block && checked_product(w.dims).value_or(INT64_MAX) > static_cast<int64_t>(kBlockBytes))
      continue;  // out of memory: stays without data
    if (!block) {
      out[w.name] = random_value(m, w.type, bindings, own, w.range);
      continue;
    }
    TensorData t;
    t.dtype = w.type.dtype;
    t.dims = w.dims;
    t.owner = block;
    t.bytes = block->bytes().subspan(own % (kBlockBytes / kPlace) * kPlace, w.bytes);
    out[w.name] = host_value(std::move(t));
  }
  return out;
}

}  // namespace rlxc::eval
