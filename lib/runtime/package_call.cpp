#include "runtime/package_call.h"

#include <algorithm>
#include <cstddef>
#include <memory>

#include "ir/bind_dims.h"
#include "ir/size_message.h"

namespace rlxc {
namespace {

constexpr uintptr_t kAlignment = alignof(std::max_align_t);  // sufficient for all buffers of a package

// An input without users may have any type.
bool is_read(const codegen::Package& p, const codegen::Port& input) {
  return p.lir->module->graph(input.graph).use_count(input.value) > 0;
}

}  // namespace

void Call::set_shape(size_t result, std::vector<int64_t> dims) {
  TensorData& d = results[result].tensor;
  d.dims = std::move(dims);
  d.bytes = d.bytes.first(static_cast<size_t>(d.size_bytes()));
}

DimBindings input_sizes(const Module& m, std::span<const eval::HostValue> inputs) {
  const Graph& g = m.main();
  std::vector<KnownSize> sizes;
  for (size_t i = 0; i < std::min(g.inputs().size(), inputs.size()); ++i)
    add_sizes(g.type(g.result(g.inputs()[i])), inputs[i].tensor.dims, &sizes);
  DimBindings bindings;
  solve_dims(m.dims, sizes, &bindings);
  return bindings;
}

void bind_input_sizes(Module& m, std::span<const eval::HostValue> inputs) { bind_dims(m, input_sizes(m, inputs)); }

bool check_index_inputs(const Module& m, std::span<const IndexInput> indices, std::span<const eval::HostValue> inputs,
                        Diagnostics& diagnostics) {
  if (indices.empty()) return true;
  const DimBindings sizes = input_sizes(m, inputs);
  for (const IndexInput& x : indices) {
    const auto largest = m.dims.evaluate(x.largest, sizes);
    if (x.input >= inputs.size() || !largest) continue;  // errors of the call
    const TensorData& d = inputs[x.input].tensor;
    const int64_t count = d.dtype != DType::I64 ? 0 : d.splat ? std::min<int64_t>(d.elements(), 1) : d.elements();
    for (int64_t i = 0; i < count; ++i) {
      const int64_t index = element_as_int(d, i);
      if (index >= 0 && index <= *largest) continue;
      const Graph& g = m.main();
      diagnostics.error(Code::BadTensor,
                        std::to_string(index) + " is out of range: " + x.description +
                            (*largest < 0 ? ", so no value is valid in this run"
                                          : ", so that 0 to " + std::to_string(*largest) + " are valid in this run"),
                        "input " + m.text(g.value_name(g.result(g.inputs()[x.input]))).quoted());
      return false;
    }
  }
  return true;
}

std::optional<Call> bind_call(const codegen::Package& package, std::span<const eval::HostValue> inputs, Diagnostics& diagnostics,
                              const std::shared_ptr<eval::MemoryMeter>& memory) {
  const Module& m = *package.lir->module;
  if (inputs.size() != package.inputs.size()) {
    diagnostics.error(Code::BadShape,
                      "expected " + std::to_string(package.inputs.size()) + " inputs, got " + std::to_string(inputs.size()));
    return std::nullopt;
  }
  std::vector<KnownSize> sizes;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type t = whole_type(package, package.inputs[i]);
    const TensorData& d = inputs[i].tensor;
    if (d.dtype != t.dtype || d.dims.size() != t.dims.size()) {
      if (!is_read(package, package.inputs[i])) continue;
      diagnostics.error(Code::BadType, "expected " + text(t, m.dims), "input " + package.inputs[i].name.quoted());
      return std::nullopt;
    }
    add_sizes(t, d.dims, &sizes);
  }
  DimBindings bindings;
  solve_dims(m.dims, sizes, &bindings);
  if (const std::string missing = undetermined_size(m.dims, sizes, bindings); !missing.empty()) {
    diagnostics.error(Code::UnboundDim, missing);
    return std::nullopt;
  }
  Call call;
  for (size_t i = 0; i < inputs.size(); ++i) {
    const Type t = whole_type(package, package.inputs[i]);
    const TensorData& d = inputs[i].tensor;
    for (size_t k = 0; is_read(package, package.inputs[i]) && k < t.dims.size(); ++k) {
      const auto want = m.dims.evaluate(t.dims[k], bindings);
      if (want && *want == d.dims[k]) continue;
      diagnostics.error(
          Code::BadShape,
          "axis " + std::to_string(k) + " has size " + std::to_string(d.dims[k]) + ", expected " + m.dims.text(t.dims[k]),
          "input " + package.inputs[i].name.quoted());
      return std::nullopt;
    }
    call.in.push_back(d.bytes.data());
    if (!d.splat && reinterpret_cast<uintptr_t>(d.bytes.data()) % kAlignment == 0) continue;
    std::vector<std::byte>& all = call.copies.emplace_back(static_cast<size_t>(d.size_bytes()));
    for (size_t k = 0; k < all.size(); ++k) all[k] = d.bytes[d.splat ? k % d.bytes.size() : k];
    call.in.back() = all.data();
  }
  if (std::string unmet = unmet_equality(m.dims, bindings); !unmet.empty()) {
    diagnostics.error(Code::BadBinding, std::move(unmet), refusing_node(m, bindings));
    return std::nullopt;
  }
  for (const auto& [symbol, range] : package.lir->ranges)
    if (const auto it = bindings.find(symbol);
        it != bindings.end() && (it->second < range.low->size() || it->second > range.high->size())) {
      diagnostics.error(Code::BadBinding, ForeignText(symbol).line() + " is " + std::to_string(it->second) +
                                              ", memory was planned for " + std::to_string(range.low->size()) + ".." +
                                              std::to_string(range.high->size()));
      return std::nullopt;
    }
  for (const ForeignText& s : package.symbols) {
    const auto it = bindings.find(s.bytes());
    if (it == bindings.end()) {
      diagnostics.error(Code::UnboundDim, "the inputs do not determine the size " + s.quoted());
      return std::nullopt;
    }
    call.sizes.push_back(it->second);
  }
  for (const codegen::Port& port : package.outputs) {
    const Type t = whole_type(package, port);
    TensorData d;
    d.dtype = t.dtype;
    for (Dim dim : t.dims) d.dims.push_back(m.dims.evaluate(dim, bindings).value_or(0));
    const Dim slot = package.lir->plans[port.graph.raw].slot[port.value.raw].size;
    const int64_t room = m.dims.evaluate(slot, bindings).value_or(0) * (port.part ? port.part->devices : 1);
    const auto padded = static_cast<uint64_t>(room) + 64;
    auto held = memory ? eval::MemoryMeter::hold(memory, padded) : nullptr;
    if (memory && !held) {
      diagnostics.error(Code::TooLarge,
                        std::to_string(room) + " bytes exceed the memory limit of " + std::to_string(memory->limit()) + " bytes",
                        "output " + port.name.quoted(), "--max-memory BYTES allows more");
      return std::nullopt;
    }
    struct Buffer {
      std::vector<std::byte> bytes;
      std::shared_ptr<void> held;
    };
    auto buffer = std::make_shared<Buffer>(Buffer{std::vector<std::byte>(padded), std::move(held)});
    d.bytes = std::span<const std::byte>(buffer->bytes).first(static_cast<size_t>(room));
    call.out.push_back(buffer->bytes.data());
    d.owner = std::move(buffer);
    call.results.push_back({TypeKind::Tensor, std::move(d), {}});
  }
  return call;
}

}  // namespace rlxc
