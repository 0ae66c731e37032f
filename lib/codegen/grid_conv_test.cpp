// Convolutions on grids of threads: images with channels last for matrix units and vectors, planes otherwise, against the
// reference evaluator.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <cstdlib>

#include "driver/compile.h"
#include "runtime/emulate_package.h"
#include "runtime/interpret_package.h"
#include "support/dot_net.h"

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

ValueId convolution(Net& n, const Window& c) {
  const ConvAttrs attrs{c.strides, c.pads, c.pads, c.dilations, {}, c.groups};
  if (!is_float(c.image))
    return n.b.create(OpKind::QConv,
                      {n.of(c.image, c.x), n.of(c.weight, c.w, c.constant), n.of(c.image, {}, true), n.of(c.weight, {}, true)},
                      attrs);
  const ValueId x = n.floats(c.x, -0.5, 0.5, false, c.image), w = n.floats(c.w, -0.5, 0.5, c.constant, c.weight);
  return n.b.create(OpKind::Conv, {x, w}, attrs);
}

// Compares all windows whose results have these tolerances with the evaluator.
void check(const std::string& target, DType t, double rtol, double atol) {
  INFO(target);
  Net net;
  int64_t terms = 1;
  for (const Window& c : kWindows) {
    if (is_float(t) ? c.image != t : is_float(c.image)) continue;
    net.m->main().add_output(convolution(net, c), {});
    terms = std::max(terms, c.w[1] * c.w[2] * c.w.back());
  }
  Diagnostics d;
  const auto expected = eval::evaluate(*net.m, net.inputs, d);
  REQUIRE_MESSAGE(expected.has_value(), d.text());
  LoadedModel model;
  net.m->name = ForeignText("convolutions");
  model.module = std::move(net.m);
  const auto compiled = compile(std::move(model), target, {}, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const double longer = std::sqrt(static_cast<double>(terms));
  const bool runs = target != "wgpu" || std::getenv("RLXC_WEBGPU");
  if (runs)
    net.compare(make_emulated_runner(compiled->lir, target, d, {}, compiled->lowerings.get()), *expected, d, rtol * longer,
                atol * longer);
  if (target == "cuda" || !runs)
    net.compare(make_interpreting_runner(compiled->lir, target, d, 0, compiled->lowerings.get()), *expected, d, rtol * longer,
                atol * longer);
}

}  // namespace

TEST_CASE("convolutions on grids agree with the evaluator") {
  for (const std::string target : {"cuda", "rocm", "metal", "wgpu"}) {
    check(target, kU8, 0, 0);
    check(target, kF32, 1e-4, 1e-5);
    check(target, kF16, 1e-3, 2.5e-3);
    check(target, kBF16, 1e-2, 2e-2);
  }
}
