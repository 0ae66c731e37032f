#include "passes/passes.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Form {
  DType x = DType::F8E4M3FN, w = DType::F8E4M3FN;
  std::vector<Dim> of_x = {}, of_w = {Dim(8)};  // sizes of the scales
  int64_t axis = 1;                             // of those of w
  bool trans_b = false, multiplied = false;     // multiplied: x is Mul(Cast)
  int64_t rank = 2;
  bool multiplies = true;
};

Rewrite rewritten(const Form& f) {
  return Rewrite(
      "multiply_f8",
      [&](Builder& b) -> std::vector<ValueId> {
        const auto q = [&](const char* name, DType t, std::vector<Dim> dims) {
          return b.cast(b.input(name, tensor_type(DType::F32, std::move(dims))), t);
        };
        std::vector<Dim> dims = f.trans_b ? std::vector<Dim>{Dim(8), Dim(16)} : std::vector<Dim>{Dim(16), Dim(8)};
        if (f.rank > 2) dims.insert(dims.begin(), Dim(3));
        const ValueId x = q("x", f.x, {Dim(3), Dim(16)}), w = q("w", f.w, dims);
        const ValueId s = b.input("s", tensor_type(DType::F32, f.of_x)), t = b.input("t", tensor_type(DType::F32, f.of_w));
        const ValueId left =
            f.multiplied ? b.mul(s, b.cast(x, DType::F32)) : b.create(OpKind::Dequantize, {x, s}, QuantAttrs{.to = DType::F32});
        const ValueId right = b.create(OpKind::Dequantize, {w, t}, QuantAttrs{.axis = f.axis, .to = DType::F32});
        return {b.matmul(left, right, false, f.trans_b)};
      },
      [&](PassRun& run) {
        for (const DType t : {DType::F8E4M3FN, DType::F8E5M2})
          if (f.multiplies) run.target.multiplies.set(static_cast<size_t>(t));
      },
      1e-4);
}

}  // namespace

TEST_CASE("dequantized 8-bit floats are multiplied as they are") {
  for (const Form& f : {Form{}, Form{.multiplied = true}, Form{.of_x = {Dim(1)}, .of_w = {}}, Form{.axis = 0, .trans_b = true},
                        Form{.x = DType::F8E5M2, .w = DType::F8E5M2}}) {
    const Rewrite r = rewritten(f);
    const NodeId n = r.find(OpKind::DequantMatMul);
    REQUIRE(n.valid());
    CHECK(r.after->main().dtype(r.after->main().operand(n, 0)) == f.x);
    CHECK(r.after->main().attrs<DequantMatMulAttrs>(n).trans_b == f.trans_b);
  }
}

TEST_CASE("products of 8-bit floats that units do not compute stay") {
  CHECK(rewritten({.multiplies = false}).run.decisions.empty());
  CHECK(rewritten({.w = DType::F8E5M2}).first_decline() == "other_operand");
  CHECK(rewritten({.of_x = {Dim(3)}}).first_decline() == "scale_per_axis");
  CHECK(rewritten({.of_w = {Dim(16)}, .axis = 0}).first_decline() == "scale_per_contracted_axis");
  CHECK(rewritten({.of_w = {}, .rank = 3}).first_decline() == "rank");
  CHECK(rewritten({.x = DType::F8E4M3FNUZ, .w = DType::F8E4M3FNUZ}).run.decisions.empty());
}
