#include "passes/passes.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Case {
  DType codes = DType::I8;
  bool zero = true, transposed = false, cast = false;
  std::optional<int64_t> axis = 1;  // axis of the scale
  int64_t block = 0;
  bool constant = true, quantized_input = false, moved_input = false;
  uint8_t zero_byte = 0x35;

  std::vector<ValueId> operator()(Builder& b) const {
    const int64_t k = 8, n = 6;
    const Type t = tensor_type(codes, {k, n});
    std::vector<uint8_t> bytes(static_cast<size_t>(k * n * bits(codes) / 8));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 29 + 7);
    const ValueId q = constant ? b.param("w", t, b.module().data.add(make_data(codes, {k, n}, bytes))) : b.input("w", t);
    std::vector<int64_t> shape;
    if (axis && block) shape = {*axis == 0 ? k / block : k, *axis == 0 ? n : n / block};
    else if (axis) shape = {*axis == 0 ? k : n};
    size_t count = 1;
    for (int64_t d : shape) count *= static_cast<size_t>(d);
    std::vector<float> scales(count);
    for (size_t i = 0; i < count; ++i) scales[i] = 0.01F + 0.003F * static_cast<float>(i);
    std::vector<uint8_t> zeros(static_cast<size_t>(*byte_size(codes, count)), zero_byte);
    const ValueId z = zero ? b.constant(make_data(codes, shape, zeros)) : ValueId();
    const DType to = cast ? DType::F16 : DType::F32;
    const ValueId s = b.cast(b.constant(make_data(DType::F32, shape, scales)), to);
    ValueId w = b.create(OpKind::Dequantize, {q, s, z}, QuantAttrs{axis.value_or(0), block, to, true});
    if (cast) w = b.cast(w, DType::F32);
    if (transposed) w = b.transpose(w, {1, 0});
    ValueId x = f32_input(b, "x", {2, 3, transposed ? n : k});
    if (quantized_input)
      x = b.create(OpKind::Dequantize, {b.input("xq", tensor_type(DType::I8, {3, 8})), num(b, 0.1)},
                   QuantAttrs{0, 0, DType::F32, true});
    if (moved_input) x = b.reshape(b.transpose(x, {1, 0}), {3, 8});
    return {b.matmul(x, w)};
  }
};

std::string left(const Case& c) { return Rewrite("keep_quantized_weights", c, {}, c.cast ? 1e-2 : 1e-4).left(); }

bool keeps(const Case& c) {
  const std::string ops = left(c);
  return ops.ends_with("dequant_matmul") && ops.find("dequantize") == std::string::npos;
}

}  // namespace

TEST_CASE("a product with a dequantized weight reads the codes") {
  for (DType t : {DType::I8, DType::U8, DType::I4, DType::U4, DType::F8E4M3FN})
    for (bool zero : {false, true}) {
      const bool with_zero = zero && is_integer(t);
      CHECK(keeps({.codes = t, .zero = with_zero}));
      CHECK(keeps({.codes = t, .zero = with_zero, .axis = {}}));
    }
}

TEST_CASE("zero points of 0 are left out") {
  for (const uint8_t zero : {0, 1}) {
    const Rewrite r("keep_quantized_weights", Case{.zero_byte = zero});
    CHECK(r.after->main().operand(r.find(OpKind::DequantMatMul), 3).valid() == (zero != 0));
  }
}

TEST_CASE("blocks and scales along the summed axis, transposed and cast weights keep their codes") {
  const Rewrite r("keep_quantized_weights", Case{.axis = 0, .block = 4});
  CHECK(r.left() == "dequant_matmul");
  CHECK(r.after->main().attrs<DequantMatMulAttrs>(r.find(OpKind::DequantMatMul)).block == 4);
  CHECK(r.run.decisions.at(0).bytes_saved == 8 * 6 * 3);
  CHECK(keeps({.axis = 0}));
  CHECK(keeps({.transposed = true}));
  CHECK(keeps({.transposed = true, .axis = 1, .block = 3}));
  CHECK(keeps({.cast = true}));
}

TEST_CASE("a weight in blocks of columns, one that is an input, and a product of integers stay") {
  const Rewrite columns("keep_quantized_weights", Case{.axis = 1, .block = 3});
  CHECK(columns.left() == "dequantize matmul");
  CHECK(columns.first_decline() == "scale_per_column_block");
  CHECK(left({.constant = false}) == "dequantize matmul");
  CHECK(left({.quantized_input = true}) == "dequantize dequantize matmul");
  CHECK(left({.quantized_input = true, .moved_input = true}) == "dequantize dequantize transpose reshape matmul");
}

TEST_CASE("a weight whose product with integers is one of floats keeps its codes") {
  for (const Case& c : {Case{.codes = DType::I4}, Case{.axis = 0}, Case{.axis = 0, .block = 4}, Case{.cast = true}}) {
    Case quantized = c;
    quantized.quantized_input = true;
    CHECK(left(quantized).ends_with("dequant_matmul"));
  }
}
