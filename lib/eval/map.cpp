// Maps: a vector of keys in ascending order, and the vector of values.
#include <algorithm>

#include "eval/context.h"
#include "eval/value.h"
#include "support/order.h"

namespace rlxc::eval {
namespace {

TensorData vector_of(DType t, size_t count) {
  const auto n = static_cast<int64_t>(count);
  return t == DType::String ? strings_of({n}, std::vector<std::string>(count)).tensor
                            : tensor_of(t, {n}, std::vector<double>(count)).tensor;
}

// Gathers elements of a tensor into `out`; position -1 gives 0 or an empty string.
TensorData chosen(const TensorData& x, std::span<const int64_t> at, TensorData out) {
  with_cells(x.dtype, [&](auto cell) {
    using T = decltype(cell);
    const Cells<T> in(x);
    CellWriter<T> writer(std::move(out));
    for (size_t i = 0; i < at.size(); ++i) writer.data()[i] = at[i] < 0 ? T() : in[at[i]];
    return out = writer.finish(), true;
  });
  return out;
}

std::vector<int64_t> integers(const TensorData& x) {
  std::vector<int64_t> out;
  for (int64_t i = 0; i < x.elements(); ++i) out.push_back(load_int(x, i));
  return out;
}

std::vector<int64_t> ascending_keys(const TensorData& keys) {
  return keys.dtype == DType::String ? ascending(keys.strings) : ascending(integers(keys));
}

// The positions of `wanted` in the ascending `keys`, or -1.
template <class T>
std::vector<int64_t> positions(const std::vector<T>& keys, const std::vector<T>& wanted) {
  std::vector<int64_t> at;
  for (const T& w : wanted) {
    const auto it = std::ranges::lower_bound(keys, w);
    at.push_back(it != keys.end() && *it == w ? it - keys.begin() : -1);
  }
  return at;
}

TensorData keys_of(const MapKeysAttrs& a) {
  const auto count = static_cast<int64_t>(a.size());
  if (a.strings.empty()) return make_data(DType::I64, {count}, a.ints);
  return strings_of({count}, a.strings).tensor;
}

bool eval_map_of_row(Context& c) {
  const auto& a = c.a<MapKeysAttrs>();
  if (c.dims(0).empty() || c.dims(0).back() != static_cast<int64_t>(a.size()))
    return c.fail("has " + std::to_string(a.size()) + " keys for rows of " + show(c.t(0).dtype, c.dims(0)));
  return c.charge(static_cast<double>(c.t(0).elements())) && (c.out.push_back(maps_of_rows(c.t(0), a)), true);
}

bool eval_map_lookup(Context& c) {
  const auto& a = c.a<MapKeysAttrs>();
  const bool text = a.ints.empty();
  if (!is_map(*c.in[0]) || (c.in[0]->items[0].tensor.dtype == DType::String) != text)
    return c.fail("operand 0 must be a map of such keys");
  const TensorData &keys = c.in[0]->items[0].tensor, &values = c.in[0]->items[1].tensor;
  const auto at = text ? positions(keys.strings, a.strings) : positions(integers(keys), a.ints);
  const auto strange = keys.elements() - std::ranges::count_if(at, [](int64_t i) { return i >= 0; });
  if (a.all && strange > 0) return c.fail("the map has " + std::to_string(strange) + " keys that are not expected");
  TensorData out;
  return c.make(values.dtype, {static_cast<int64_t>(at.size())}, &out) && c.put(chosen(values, at, std::move(out)));
}

bool eval_map_values(Context& c) {
  if (!is_map(*c.in[0])) return c.fail("operand 0 must be a map");
  return c.put(c.in[0]->items[1].tensor);
}

}  // namespace

std::optional<HostValue> map_of(const TensorData& keys, const TensorData& values) {
  if (keys.dims != values.dims || keys.dims.size() != 1 || keys.splat) return std::nullopt;
  const auto order = ascending_keys(keys);
  const auto sorted = [&](const TensorData& x) { return host_value(chosen(x, order, vector_of(x.dtype, order.size()))); };
  HostValue map{TypeKind::Map, {}, {sorted(keys), sorted(values)}};
  return is_map(map) ? std::optional(std::move(map)) : std::nullopt;
}

HostValue maps_of_rows(const TensorData& x, const MapKeysAttrs& a) {
  const TensorData keys = keys_of(a);
  const auto order = ascending_keys(keys);
  const HostValue sorted = host_value(chosen(keys, order, vector_of(keys.dtype, order.size())));
  std::vector<HostValue> maps;
  for (int64_t at = 0, width = keys.elements(); width > 0 && at + width <= x.elements(); at += width) {
    std::vector<int64_t> from = order;
    for (int64_t& i : from) i += at;
    maps.push_back({TypeKind::Map, {}, {sorted, host_value(chosen(x, from, vector_of(x.dtype, from.size())))}});
  }
  return sequence_of(std::move(maps));
}

HostValue empty_map(const Type& type) {
  return {TypeKind::Map, {}, {host_value(vector_of(key_dtype(type.key), 0)), host_value(vector_of(type.dtype, 0))}};
}

bool is_map(const HostValue& v) {
  if (v.kind != TypeKind::Map || v.items.size() != 2) return false;
  const TensorData &keys = v.items[0].tensor, &values = v.items[1].tensor;
  if (keys.dims.size() != 1 || keys.dims != values.dims || keys.splat) return false;
  const auto strictly = [](const auto& k) { return std::ranges::adjacent_find(k, std::ranges::greater_equal()) == k.end(); };
  return keys.dtype == DType::String ? strictly(keys.strings) : keys.dtype == DType::I64 && strictly(integers(keys));
}

std::span<const Entry> map_evaluators() {
  static constexpr Entry kTable[] = {
      {OpKind::MapOfRow, eval_map_of_row}, {OpKind::MapLookup, eval_map_lookup}, {OpKind::MapValues, eval_map_values}};
  return kTable;
}

}  // namespace rlxc::eval
