// Models of 8-bit integers for tests of dot units: kernels of the cpu target, as C and interpreted, must equal the evaluator.
#pragma once
#include <doctest/doctest.h>

#include "codegen/make_package.h"
#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/interpret_package.h"
#include "runtime/run_kernels.h"
#include "support/eval.h"

namespace rlxc {

// Quantized values, half of which are the minimum or maximum of their type.
inline TensorData codes(DType t, const std::vector<int64_t>& dims, uint32_t seed) {
  const double low = t == DType::I8 ? -128 : 0, high = low + 255;
  size_t count = 1;
  for (int64_t d : dims) count *= static_cast<size_t>(d);
  std::vector<double> v(count);
  uint32_t state = seed * 2654435761U + 1;
  for (double& x : v) {
    state = state * 1664525U + 1013904223U;
    const uint32_t u = state >> 8;
    x = u % 4 == 0 ? low : u % 4 == 1 ? high : low + (u >> 8) % 256;
  }
  return eval::tensor_of(t, dims, v).tensor;
}

struct Net {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  std::vector<eval::HostValue> inputs;
  uint32_t seed = 1;
  std::string cpu = "generic";

  // `dims`: those of the declaration, if some are symbols.
  ValueId value(TensorData d, bool weight, std::vector<Dim> dims = {}) {
    if (dims.empty()) dims.assign(d.dims.begin(), d.dims.end());
    const Type type = tensor_type(d.dtype, std::move(dims));
    if (weight) return b.param("w" + std::to_string(seed++), type, m->data.add(std::move(d)));
    const ValueId x = b.input("x" + std::to_string(inputs.size()), type);
    inputs.push_back({TypeKind::Tensor, std::move(d), {}});
    return x;
  }
  // Weights of any width.
  ValueId bits_of(DType t, const std::vector<int64_t>& dims) {
    std::vector<uint8_t> bytes(static_cast<size_t>(*byte_size(t, dims[0] * dims[1])));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 89 + seed);
    return value(make_data(t, dims, bytes), true);
  }
  ValueId of(DType t, const std::vector<int64_t>& dims, bool weight = false) { return value(codes(t, dims, seed++), weight); }
  ValueId of(DType t, const std::vector<int64_t>& dims, std::vector<Dim> declared) {
    return value(codes(t, dims, seed++), false, std::move(declared));
  }
  ValueId floats(const std::vector<int64_t>& dims, double low, double high, bool weight = true, DType t = DType::F32,
                 std::vector<Dim> declared = {}) {
    size_t count = 1;
    for (int64_t d : dims) count *= static_cast<size_t>(d);
    std::vector<double> v(count);
    for (size_t i = 0; i < count; ++i) v[i] = static_cast<float>(low + (high - low) * static_cast<double>(i * 7 % 13) / 13);
    return value(eval::tensor_of(t, dims, v).tensor, weight, std::move(declared));
  }

  // Compares kernels, as C and interpreted, with the evaluator.
  void check(ValueId y, OpKind expected_op, std::string_view what, double rtol = 0, double atol = 0) {
    INFO(what);
    REQUIRE(y.valid());
    m->main().add_output(y, {});
    Diagnostics d;
    const auto expected = eval::evaluate(*m, inputs, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    LoadedModel model;
    m->name = ForeignText("dots");
    model.module = std::move(m);
    CompileOptions options;
    options.cpu = cpu;
    const auto compiled = compile(std::move(model), "cpu", options, {}, d);
    REQUIRE_MESSAGE(compiled.has_value(), d.text());
    const Graph& g = compiled->lir.module->main();
    bool found = false;
    for (NodeId n : g.nodes()) found = found || g.op(n) == expected_op;
    CHECK_MESSAGE(found, name(expected_op));
    compare(make_kernel_runner(compiled->lir, d, {}, compiled->lowerings.get()), *expected, d, rtol, atol);
    compare(make_interpreting_runner(compiled->lir, "cpu", d, 0, compiled->lowerings.get()), *expected, d, rtol, atol);
  }

  void compare(std::unique_ptr<KernelRunner> runner, const std::vector<eval::HostValue>& expected, Diagnostics& d, double rtol,
               double atol) const {
    REQUIRE_MESSAGE(runner, d.text());
    const auto actual = runner->run(inputs, d);
    REQUIRE_MESSAGE(actual.has_value(), d.text());
    for (size_t i = 0; i < expected.size(); ++i) {
      const auto r = eval::compare((*actual)[i], expected[i], rtol, atol);
      CHECK_MESSAGE(r.pass, r.message);
    }
  }
};

}  // namespace rlxc
