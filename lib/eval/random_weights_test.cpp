#include "eval/random_weights.h"

#include <doctest/doctest.h>

#include <cmath>

#include "ir/builder.h"

namespace rlxc::eval {

TEST_CASE("random weights of many gigabytes share memory, and differ") {
  Module m;
  Builder b(m.main());
  const int64_t rows = int64_t{1} << 17;
  b.param("a", tensor_type(DType::F32, {Dim(rows), Dim(8192)}));
  b.param("b", tensor_type(DType::F32, {Dim(rows), Dim(8192)}));
  b.param("small", tensor_type(DType::F32, {Dim(3), Dim(5)}));
  const NamedValues w = random_weights(m, {}, 1, {});
  REQUIRE(w.size() == 3);
  const TensorData &x = w.at("a").tensor, &y = w.at("b").tensor;
  CHECK(x.elements() == rows * 8192);
  const auto at = [](const TensorData& t, int64_t row, int64_t column) { return element_as_double(t, row * 8192 + column); };
  for (int64_t row : {int64_t{0}, int64_t{1}, rows / 3, rows - 1}) {
    CHECK(std::abs(at(x, row, 8191)) <= std::sqrt(6.0 / static_cast<double>(rows + 8192)));
    CHECK(at(x, row, 7) != at(y, row, 7));
    if (row > 0) CHECK(at(x, row, 7) != at(x, row - 1, 7));
  }
  CHECK(random_weights(m, {}, 1, {}).at("a").tensor.bytes[12345] == x.bytes[12345]);
  CHECK(w.at("small").tensor.dims == std::vector<int64_t>{3, 5});
  const NamedValues again = random_weights(m, {}, 1, {}, w);
  for (const auto& [name, value] : w) CHECK(again.at(name).tensor.bytes.data() == value.tensor.bytes.data());
}

}  // namespace rlxc::eval
