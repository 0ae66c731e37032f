#include "import/compose/packed.h"
#include "import/compose/solve.h"
#include "support/eval.h"
#include "support/random.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

template <class Make>
std::vector<double> computed(const std::vector<HostValue>& inputs, Make make) {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  std::vector<ValueId> in;
  for (const HostValue& v : inputs) in.push_back(b.input("x" + std::to_string(in.size()), eval::type_of(v)));
  const ValueId y = make(b, in);
  REQUIRE_MESSAGE(y.valid(), d.text());
  m.main().add_output(y, m.symbol("y"));
  const auto r = eval::evaluate(m, inputs, d);
  REQUIRE_MESSAGE(r, d.text());
  return numbers((*r)[0]);
}

}  // namespace

TEST_CASE("blocks decode to the same by operations and by the scalar decoder") {
  Random random(4);
  for (int k = 0; k < kBlockFormatCount; ++k) {
    const auto f = static_cast<BlockFormat>(k);
    const auto bytes = static_cast<size_t>(block_bytes(f)), elements = static_cast<size_t>(block_elements(f));
    constexpr size_t kBlocks = 3;
    std::vector<uint8_t> packed(kBlocks * bytes);
    std::vector<double> as_numbers, expected;
    for (size_t i = 0; i < kBlocks; ++i) {
      std::vector<float> values(elements), decoded(elements);
      for (float& v : values) v = static_cast<float>(random.uniform(-3, 3));
      const std::span<uint8_t> block(packed.data() + i * bytes, bytes);
      encode_block(f, values, block);
      // Quantized values and small scales are arbitrary; bytes of halves and exponents are preserved.
      decode_block(f, block, decoded);
      for (float v : decoded) expected.push_back(static_cast<double>(v));
    }
    for (uint8_t v : packed) as_numbers.push_back(v);
    const auto got = computed({tensor_of(DType::U8, {kBlocks, static_cast<int64_t>(bytes)}, as_numbers)},
                              [&](Builder& b, const std::vector<ValueId>& x) { return compose::decode_blocks(b, f, x[0]); });
    INFO(std::string(name(f)));
    REQUIRE(got.size() == expected.size());
    for (size_t i = 0; i < got.size(); ++i) CHECK(got[i] == doctest::Approx(expected[i]).epsilon(1e-6));
  }
}

TEST_CASE("fields of bytes") {
  const HostValue x = tensor_of(DType::U8, {2, 2}, {0x1B, 0xE4, 0x21, 0x43});
  CHECK(computed({x}, [](Builder& b, const auto& in) { return compose::unpack_bits(b, in[0], 2); }) ==
        std::vector<double>{3, 2, 1, 0, 0, 1, 2, 3, 1, 0, 2, 0, 3, 0, 0, 1});
  CHECK(computed({x}, [](Builder& b, const auto& in) { return compose::unpack_bits(b, in[0], 4); }) ==
        std::vector<double>{11, 1, 4, 14, 1, 2, 3, 4});
  CHECK(computed({x}, [](Builder& b, const auto& in) { return compose::read_bytes(b, in[0], DType::U16); }) ==
        std::vector<double>{0xE41B, 0x4321});
  const HostValue one = tensor_of(DType::U8, {4}, {0, 0, 0xC0, 0x3F});
  CHECK(computed({one}, [](Builder& b, const auto& in) { return compose::read_bytes(b, in[0], DType::F32); }) ==
        std::vector<double>{1.5});
  const HostValue scales = tensor_of(DType::U8, {4}, {0x38, 0x7F, 0xB8, 0x01});
  CHECK(computed({scales}, [](Builder& b, const auto& in) { return compose::decode_scale_bytes(b, in[0]); }) ==
        std::vector<double>{1, 0, -1, 1.0 / 512});
}

TEST_CASE("linear systems") {
  Random random(5);
  std::vector<double> a(2 * 5 * 5), x(2 * 5 * 3), b(x.size(), 0);
  for (double& v : a) v = random.uniform(-1, 1);
  for (double& v : x) v = random.uniform(-1, 1);
  a[0] = 0;  // needs another pivot
  for (size_t s = 0; s < 2; ++s)
    for (size_t i = 0; i < 5; ++i)
      for (size_t j = 0; j < 3; ++j)
        for (size_t k = 0; k < 5; ++k) b[(s * 5 + i) * 3 + j] += a[(s * 5 + i) * 5 + k] * x[(s * 5 + k) * 3 + j];
  const auto got = computed({tensor_of(DType::F64, {2, 5, 5}, a), tensor_of(DType::F64, {2, 5, 3}, b)},
                            [](Builder& g, const auto& in) { return compose::solve(g, in[0], in[1]); });
  for (size_t i = 0; i < x.size(); ++i) CHECK(got[i] == doctest::Approx(x[i]).epsilon(1e-9));
}
