#include "ops/resize.h"

#include <doctest/doctest.h>

#include <numeric>

using namespace rlxc;

namespace {

ResizeAttrs attrs(ResizeMode mode, CoordMode coord) {
  ResizeAttrs a;
  a.mode = mode, a.coord = coord;
  return a;
}

// Source coordinates of all results of an axis: the nearest, or the first tap.
std::vector<int64_t> nearest(CoordMode coord, NearestMode rounding, int64_t in, int64_t out) {
  ResizeAttrs a = attrs(ResizeMode::Nearest, coord);
  a.nearest = rounding;
  std::vector<int64_t> at;
  for (int64_t x = 0; x < out; ++x) at.push_back(ops::resize_taps(a, ops::resize_axis(a, 0, in, out), x)->at[0]);
  return at;
}

using Ints = std::vector<int64_t>;

}  // namespace

TEST_CASE("nearest coordinates of each rule") {
  constexpr NearestMode kFloor = NearestMode::RoundPreferFloor;
  CHECK(nearest(CoordMode::Asymmetric, NearestMode::Floor, 2, 4) == Ints{0, 0, 1, 1});
  CHECK(nearest(CoordMode::Asymmetric, NearestMode::Ceil, 2, 4) == Ints{0, 1, 1, 1});
  CHECK(nearest(CoordMode::HalfPixel, kFloor, 4, 2) == Ints{0, 2});
  CHECK(nearest(CoordMode::HalfPixel, NearestMode::RoundPreferCeil, 4, 2) == Ints{1, 3});
  CHECK(nearest(CoordMode::AlignCorners, kFloor, 4, 7) == Ints{0, 0, 1, 1, 2, 2, 3});
  CHECK(nearest(CoordMode::AlignCorners, kFloor, 4, 1) == Ints{0});
  CHECK(nearest(CoordMode::PytorchHalfPixel, kFloor, 4, 1) == Ints{0});
  CHECK(nearest(CoordMode::TfHalfPixelForNn, NearestMode::Floor, 4, 2) == Ints{1, 3});
}

TEST_CASE("weights sum to 1, and those of upsampling by 2 are known") {
  const ResizeAttrs linear = attrs(ResizeMode::Linear, CoordMode::HalfPixel);
  const auto taps = ops::resize_taps(linear, ops::resize_axis(linear, 0, 2, 4), 1);
  REQUIRE(taps.has_value());
  CHECK(taps->at == Ints{0, 1});
  CHECK(taps->weight == std::vector<double>{0.75, 0.25});
  for (ResizeMode mode : {ResizeMode::Linear, ResizeMode::Cubic})
    for (CoordMode coord : {CoordMode::HalfPixel, CoordMode::HalfPixelSymmetric, CoordMode::PytorchHalfPixel,
                            CoordMode::AlignCorners, CoordMode::Asymmetric, CoordMode::TfHalfPixelForNn})
      for (bool antialias : {false, true})
        for (int64_t out : {1, 2, 3, 5, 9}) {
          ResizeAttrs a = attrs(mode, coord);
          a.antialias = antialias, a.exclude_outside = antialias, a.cubic_a = -0.75;
          for (int64_t x = 0; x < out; ++x) {
            const auto t = ops::resize_taps(a, ops::resize_axis(a, 0, 4, out), x);
            REQUIRE(t.has_value());
            CHECK(std::accumulate(t->weight.begin(), t->weight.end(), 0.0) == doctest::Approx(1));
            for (int64_t at : t->at) CHECK((at >= 0 && at < 4));
          }
        }
}

TEST_CASE("regions: coordinates beyond them are outside") {
  ResizeAttrs a = attrs(ResizeMode::Linear, CoordMode::TfCropAndResize);
  a.roi = {0.5, 1.5};
  const ops::ResizeAxis axis = ops::resize_axis(a, 0, 5, 3);
  CHECK_FALSE(ops::resize_taps(a, axis, 0)->outside);
  CHECK(ops::resize_taps(a, axis, 2)->outside);
  CHECK(ops::resizes(a, ops::resize_axis(a, 0, 5, 5)));
  CHECK_FALSE(ops::resizes(attrs(ResizeMode::Linear, CoordMode::HalfPixel), ops::resize_axis({}, 0, 5, 5)));
}
