// Rounding errors of Winograd's algorithm against sums in f64, which docs/passes.md states.
#include <doctest/doctest.h>

#include <cmath>

#include "codegen/lower_blocked.h"
#include "codegen/lowering_cache.h"
#include "eval/value.h"
#include "ir/builder.h"
#include "memory/plan_lir.h"
#include "runtime/interpret_package.h"
#include "support/random.h"

using namespace rlxc;

namespace {

struct Errors {
  double largest = 0, squares = 0;
  int64_t count = 0;
  double rms() const { return std::sqrt(squares / static_cast<double>(count)); }
};

// Adds the errors of one convolution of `channels` to as many, by the square root of the number of terms. Convolutions of 1x1 by
// the identity, whose results are exact, stand around it, because Winograd's algorithm needs channels in blocks.
void add_errors(int64_t channels, int64_t height, int64_t width, int64_t tile, test::Random& random, Errors* errors) {
  const auto c = static_cast<size_t>(channels), h = static_cast<size_t>(height), w = static_cast<size_t>(width);
  const std::vector<float> image = random.uniform_floats(c * h * w, -1, 1), weights = random.uniform_floats(c * c * 9, -1, 1);
  std::vector<float> identity(c * c);
  for (size_t i = 0; i < c; ++i) identity[i * c + i] = 1;
  codegen::CapabilityRow row;
  row.winograd = tile;
  row.mapping.vector_bytes = 32;  // products on short vectors take long enough for both tiles to pay
  row.mapping.vector_registers = 16;
  auto m = std::make_unique<Module>();
  Diagnostics d;
  Builder b(m->main(), &d);
  const Type type = tensor_type(DType::F32, {1, channels, height, width});
  ConvAttrs own, padded;
  own.strides = padded.strides = own.dilations = padded.dilations = {1, 1};
  own.pads_begin = own.pads_end = {0, 0};
  padded.pads_begin = padded.pads_end = {1, 1};
  const ValueId eye = b.constant(make_data(DType::F32, {channels, channels, 1, 1}, identity));
  const ValueId x = b.create(OpKind::Conv, {b.input("x", type), eye}, own);
  const ValueId y = b.create(OpKind::Conv, {x, b.constant(make_data(DType::F32, {channels, channels, 3, 3}, weights))}, padded);
  m->main().add_output(b.create(OpKind::Conv, {y, eye}, own), m->symbol("y"));
  const auto lir = plan_lir(std::move(m), {}, d, {.kernels = row});
  REQUIRE_MESSAGE(lir.has_value(), d.text());
  std::vector<int64_t> tiles;
  for (const PrepackedWeight& p : lir->plans[0].prepacked)
    if (const int64_t used = codegen::winograd_tile(lir->module->main(), lir->plans[0].layouts, p.node, row))
      tiles.push_back(used);
  REQUIRE(tiles == std::vector<int64_t>(tile > 0 ? 1 : 0, tile));
  codegen::LoweringCache lowerings(row);
  const auto runner = make_interpreting_runner(*lir, "cpu", d, 0, &lowerings);
  REQUIRE_MESSAGE(runner != nullptr, d.text());
  const std::vector<double> values(image.begin(), image.end());
  const auto results = runner->run({eval::tensor_of(DType::F32, {1, channels, height, width}, values)}, d);
  REQUIRE_MESSAGE(results.has_value(), d.text());
  const std::vector<double> got = eval::numbers(results->front());
  const double terms = std::sqrt(9.0 * static_cast<double>(channels));
  for (int64_t i = 0; i < static_cast<int64_t>(got.size()); i += 7) {  // an element in seven
    const int64_t o = i / (height * width), y0 = i / width % height, x0 = i % width;
    double sum = 0;
    for (int64_t k = 0; k < channels * 9; ++k) {
      const int64_t yy = y0 + k / 3 % 3 - 1, xx = x0 + k % 3 - 1;
      if (yy < 0 || xx < 0 || yy >= height || xx >= width) continue;
      sum += double{weights[static_cast<size_t>(o * channels * 9 + k)]} *
             double{image[static_cast<size_t>((k / 9 * height + yy) * width + xx)]};
    }
    const double error = std::abs(got[static_cast<size_t>(i)] - sum) / terms;
    errors->largest = std::max(errors->largest, error);
    errors->squares += error * error;
    ++errors->count;
  }
}

}  // namespace

TEST_CASE("rounding errors of Winograd's algorithm are those of the documentation") {
  Errors plain, small, large;
  for (const auto& [tile, errors] : {std::pair{0, &plain}, std::pair{2, &small}, std::pair{4, &large}}) {
    test::Random random;
    for (int i = 0; i < 35; ++i)
      add_errors(32, 13 + static_cast<int64_t>(random.below(6)), 13 + static_cast<int64_t>(random.below(6)), tile, random,
                 errors);
  }
  INFO("largest and rms: plain ", plain.largest, " ", plain.rms(), ", 2x2 ", small.largest, " ", small.rms(), ", 4x4 ",
       large.largest, " ", large.rms());
  CHECK(small.largest < plain.largest);
  CHECK(small.rms() < plain.rms());
  CHECK(large.largest < 3 * plain.largest);
  CHECK(large.rms() < 3 * plain.rms());
}
