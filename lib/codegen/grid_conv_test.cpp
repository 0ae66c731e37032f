// Convolutions on grids of threads: images with channels last for matrix units and vectors, planes otherwise, against the
// reference evaluator.
#include <doctest/doctest.h>

#include <cmath>
#include <cstdlib>

#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "support/eval.h"

using namespace rlxc;

namespace {

struct Window {
  std::vector<int64_t> x, w;
  DType image, weight;
  std::vector<int64_t> strides = {1, 1}, pads = {1, 1}, dilations = {1, 1};
  int64_t groups = 1;
  bool constant = true;  // the weights
};

constexpr DType kF16 = DType::F16, kBF16 = DType::BF16, kF32 = DType::F32, kU8 = DType::U8, kI8 = DType::I8;

const Window kWindows[] = {
    {{2, 32, 9, 9}, {24, 32, 3, 3}, kF16, kF16},
    {{1, 16, 11, 7}, {40, 16, 3, 3}, kBF16, kBF16, {2, 2}, {1, 1}, {1, 1}, 1, false},
    {{2, 48, 10, 12}, {32, 24, 3, 2}, kF16, kF16, {1, 2}, {1, 0}, {2, 1}, 2},
    {{1, 16, 40}, {24, 16, 5}, kBF16, kBF16, {3}, {2}, {1}},
    {{1, 12, 9, 9}, {24, 12, 3, 3}, kF16, kF16},  // channels that no vector divides
    {{2, 8, 9, 9}, {24, 8, 3, 3}, kF32, kF32},
    {{1, 16, 12, 12}, {40, 8, 1, 1}, kF32, kF32, {2, 2}, {0, 0}, {1, 1}, 2},
    {{1, 32, 9, 9}, {24, 32, 3, 3}, kU8, kI8},
    {{2, 32, 9, 11}, {24, 16, 3, 3}, kI8, kU8, {1, 2}, {1, 2}, {1, 1}, 2, false},
    {{1, 48, 8, 8}, {24, 48, 1, 1}, kU8, kU8, {1, 1}, {0, 0}},  // rows of pixels are words
    {{1, 48, 7, 7}, {24, 48, 1, 1}, kI8, kI8, {1, 1}, {0, 0}},
    {{1, 3, 21, 19}, {16, 3, 7, 7}, kU8, kI8, {2, 2}, {3, 3}},
    {{1, 10, 9, 9}, {24, 5, 3, 3}, kU8, kI8, {2, 2}, {1, 1}, {1, 1}, 2},
};

TensorData ramp(DType t, const std::vector<int64_t>& dims, int seed) {
  size_t count = 1;
  for (const int64_t d : dims) count *= static_cast<size_t>(d);
  std::vector<double> v(count);
  for (size_t i = 0; i < count; ++i) {
    const int code = static_cast<int>((i * 89 + i / 251 + static_cast<size_t>(seed) * 31) % 256);
    v[i] = t == kU8 ? code : t == kI8 ? code - 128 : static_cast<double>(code - 128) / 256;
  }
  return eval::tensor_of(t, dims, v).tensor;
}

// A model of all windows.
struct Net {
  std::unique_ptr<Module> m = std::make_unique<Module>();
  Builder b{m->main()};
  std::vector<eval::HostValue> inputs;
  int seed = 0;

  ValueId value(DType t, const std::vector<int64_t>& dims, bool constant) {
    TensorData data = ramp(t, dims, ++seed);
    const Type type = tensor_type(t, std::vector<Dim>(dims.begin(), dims.end()));
    if (constant) return b.param("w" + std::to_string(seed), type, m->data.add(std::move(data)));
    inputs.push_back({TypeKind::Tensor, std::move(data), {}});
    return b.input("x" + std::to_string(seed), type);
  }

  void add(const Window& c) {
    const ConvAttrs attrs{c.strides, c.pads, c.pads, c.dilations, {}, c.groups};
    const ValueId x = value(c.image, c.x, false), w = value(c.weight, c.w, c.constant);
    const ValueId y = is_float(c.image)
                          ? b.create(OpKind::Conv, {x, w}, attrs)
                          : b.create(OpKind::QConv, {x, w, value(c.image, {}, true), value(c.weight, {}, true)}, attrs);
    m->main().add_output(y, m->symbol("y" + std::to_string(seed)));
  }
};

}  // namespace

TEST_CASE("convolutions on grids agree with the evaluator") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    INFO(target);
    Net net;
    for (const Window& c : kWindows) net.add(c);
    Diagnostics d;
    const auto expected = eval::evaluate(*net.m, net.inputs, d);
    REQUIRE_MESSAGE(expected.has_value(), d.text());
    LoadedModel model;
    net.m->name = ForeignText("convolutions");
    model.module = std::move(net.m);
    const auto compiled = compile(std::move(model), target, {}, {}, d);
    REQUIRE_MESSAGE(compiled.has_value(), d.text());
    const bool runs = target != "wgpu" || std::getenv("RLXC_WEBGPU");
    std::vector<std::unique_ptr<KernelRunner>> runners;
    if (runs) runners.push_back(make_emulated_runner(compiled->lir, target, d, {}, compiled->lowerings.get()));
    if (target == "cuda" || !runs)
      runners.push_back(make_interpreting_runner(compiled->lir, target, d, 0, compiled->lowerings.get()));
    for (const auto& runner : runners) {
      REQUIRE_MESSAGE(runner, d.text());
      const auto actual = runner->run(net.inputs, d);
      REQUIRE_MESSAGE(actual.has_value(), d.text());
      for (size_t i = 0; i < expected->size(); ++i) {
        const Window& c = kWindows[i];
        const double terms = std::sqrt(static_cast<double>(c.w[1] * c.w[2] * c.w.back()));
        const bool exact = !is_float(c.image), bf16 = c.image == kBF16, f16 = c.image == kF16;
        const double rtol = exact ? 0 : terms * (bf16 ? 1e-2 : f16 ? 1e-3 : 1e-4), atol = rtol * (bf16 ? 2 : f16 ? 2.5 : 0.1);
        const auto r = eval::compare((*actual)[i], (*expected)[i], rtol, atol);
        CHECK_MESSAGE(r.pass, "window " << i << ": " << r.message);
      }
    }
  }
}
