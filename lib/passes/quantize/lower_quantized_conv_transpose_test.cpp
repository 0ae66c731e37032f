#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "lower_quantized_conv_transpose";

struct Form {
  int64_t groups = 1;
  bool per_channel = true, zero = false, bias = false, quantized = true;
};

std::vector<ValueId> conv_transpose(Builder& b, const Form& f) {
  const auto parameter = [&](const char* name, DType t, std::vector<Dim> dims) { return b.param(name, tensor_type(t, dims)); };
  const std::vector<Dim> scales = f.per_channel ? std::vector<Dim>{Dim(3)} : std::vector<Dim>{};
  const ValueId zero = f.zero ? b.scalar(DType::I8, 3) : ValueId(),
                w = b.create(
                    OpKind::Dequantize,
                    {parameter("w", DType::I8, {Dim(4), Dim(3), Dim(3), Dim(4)}), parameter("s", DType::F32, scales), zero},
                    QuantAttrs{.axis = 1, .to = DType::F32});
  ValueId x = b.input("x", tensor_type(f.quantized ? DType::U8 : DType::F32, {b.dims().symbol("n"), Dim(4), Dim(5), Dim(6)}));
  if (f.quantized)
    x = b.create(OpKind::Dequantize, {x, b.scalar(DType::F32, 0.05), b.scalar(DType::U8, 117)}, QuantAttrs{.to = DType::F32});
  const ConvAttrs a{
      .strides = {2, 3}, .pads_begin = {1, 0}, .pads_end = {0, 1}, .dilations = {1, 1}, .output_padding = {}, .groups = f.groups};
  return {b.create(OpKind::ConvTranspose, {x, w, f.bias ? f32_param(b, "bias", {3 * f.groups}) : ValueId()}, a)};
}

}  // namespace

TEST_CASE("lower_quantized_conv_transpose: phases of codes with their scales") {
  for (const Form& f :
       {Form{}, Form{.bias = true}, Form{.groups = 2, .per_channel = false}, Form{.per_channel = false, .bias = true}}) {
    const Rewrite r(kPass, [&](Builder& b) { return conv_transpose(b, f); });
    const NodeId conv = r.find(OpKind::Conv);
    REQUIRE(conv.valid());
    CHECK_FALSE(r.find(OpKind::ConvTranspose).valid());
    const Graph& g = r.after->main();
    for (const size_t i : {size_t{0}, size_t{1}}) CHECK(g.op(g.def(g.operand(conv, i))) == OpKind::Dequantize);
  }
}

TEST_CASE("lower_quantized_conv_transpose: other weights stay") {
  for (const Form& f : {Form{.groups = 2}, Form{.per_channel = false, .zero = true}, Form{.quantized = false}}) {
    const Rewrite r(kPass, [&](Builder& b) { return conv_transpose(b, f); });
    CHECK(r.find(OpKind::ConvTranspose).valid());
  }
}
