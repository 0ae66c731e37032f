#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

enum class Inverse { SqrtRecip, OneOverSqrt, Rsqrt, Divide, Power };

Rewrite::Build chain(Inverse inverse, DType source = DType::F32, bool centred = false) {
  return [=](Builder& b) {
    const ValueId in = b.input("x", tensor_type(source, {b.dims().symbol("batch"), 3, 8}));
    ValueId x = b.cast(in, DType::F32);
    if (centred) x = b.sub(x, b.reduce(ReduceOp::Mean, x, {2}, true));
    const ValueId s = b.add(b.reduce(ReduceOp::Mean, b.create(OpKind::Pow, {x, num(b, 2)}), {2}, true), num(b, 1e-6));
    auto root = [&] { return b.unary(OpKind::Sqrt, s); };
    ValueId y;
    switch (inverse) {
      case Inverse::SqrtRecip: y = b.mul(x, b.unary(OpKind::Recip, root())); break;
      case Inverse::OneOverSqrt: y = b.mul(x, b.div(num(b, 1), root())); break;
      case Inverse::Rsqrt: y = b.mul(b.unary(OpKind::Rsqrt, s), x); break;
      case Inverse::Divide: y = b.div(x, root()); break;
      case Inverse::Power: y = b.mul(x, b.create(OpKind::Pow, {s, num(b, -0.5)})); break;
    }
    return std::vector{b.mul(b.cast(f32_param(b, "gamma", {8}), source), b.cast(y, source))};
  };
}

}  // namespace

TEST_CASE("an rms norm chain becomes one node, in every spelling") {
  for (Inverse i : {Inverse::SqrtRecip, Inverse::OneOverSqrt, Inverse::Rsqrt, Inverse::Divide, Inverse::Power})
    CHECK(Rewrite("recognise_rms_norm", chain(i)).left() == "rms_norm");
}

TEST_CASE("an rms norm computed in f32 between casts reads the narrow value") {
  const Rewrite r("recognise_rms_norm", chain(Inverse::Rsqrt, DType::F16), {}, 4e-3);
  CHECK(r.left() == "cast rms_norm");  // the cast of gamma
  CHECK(r.after->main().dtype(r.after->main().result(r.find(OpKind::RmsNorm))) == DType::F16);
}

TEST_CASE("a centred chain is not an rms norm") {
  CHECK_FALSE(Rewrite("recognise_rms_norm", chain(Inverse::Rsqrt, DType::F32, true)).result.changed);
}
