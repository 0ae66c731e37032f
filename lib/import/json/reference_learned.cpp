// Learned layers of the reference vocabulary and their gradients: modulated norms, norms with given statistics, codebook weights,
// radial basis activations.
#include <algorithm>
#include <array>

#include "import/json/reference_rows.h"
#include "transform/gradients.h"
#include "transform/nn_gradients.h"

namespace rlxc::import_json {
namespace {

using Node = ReferenceNode;
using transform::make, transform::Term;

// Modulated norms. Modulation broadcasts over all but the last axis.

// norm(x) (1 + scale) + shift.
ValueId modulated(Node& n) {
  const OpKind op = n.find("norm") && n.word("norm") == "RmsNorm" ? OpKind::RmsNorm : OpKind::LayerNorm;
  return (make(op, {term(n, 0)}, NormAttrs{n.rank(0) - 1, n.number("eps", 1e-5)}) * (term(n, 1) + 1) + term(n, 2)).v;
}
ValueId gated(Node& n) { return (term(n, 0) + term(n, 2) * term(n, 1)).v; }  // x, y, gate

using Forward = ValueId (*)(Node&);
template <Forward kForward>
ValueId of_three(Node& n) {
  return n.count(3, 3) ? kForward(n) : ValueId();
}
template <Forward kForward>
ValueId backward_of_three(Node& n) {  // plus dy; returns the three gradients packed
  return n.count(4, 4) ? reference_packed(n, reference_gradients(n, kForward(n), n.in[3], std::span(n.in).first(3))) : ValueId();
}

// Norms with given statistics, along the last axis.

Term inverse_deviation(Node& n, Term variance) { return rsqrt(variance + n.number("eps", 1e-5)); }
Term summed_rows(Term x) { return sum(x, transform::all_but(x.rank() - 1, x.rank()), false); }

ValueId batch_norm_backward_input(Node& n) {  // x, gamma, mean, var, dy
  return n.count(5, 5) ? (term(n, 4) * (term(n, 1) * inverse_deviation(n, term(n, 3)))).v : ValueId();
}
ValueId batch_norm_backward_gamma(Node& n) {  // x, mean, var, dy
  if (!n.count(4, 4)) return {};
  return summed_rows(term(n, 3) * (term(n, 0) - term(n, 1)) * inverse_deviation(n, term(n, 2))).v;
}
ValueId batch_norm_backward_beta(Node& n) { return n.count(1, 1) ? summed_rows(term(n, 0)).v : ValueId(); }

// Weights [n,k] assembled from codebook entries [d] by indices [n, k/d].

Term from_codebook(Term index, Term book) {
  const Term rows = make(OpKind::Gather, {book, index.with(index.b->cast(index.v, DType::I64))}, AxisAttrs{0});
  const auto d = rows.dims();
  return d.size() == 3 ? reshape(rows, {d[0], rows.b->dims().mul(d[1], d[2])}) : rows.with({});
}
ValueId synth_matmul(Node& n) {  // x, indices, code book
  return n.count(3, 3) ? matmul(term(n, 0), from_codebook(term(n, 1), term(n, 2)), false, true).v : ValueId();
}
ValueId synth_reconstruct(Node& n) { return n.count(2, 2) ? from_codebook(term(n, 0), term(n, 1)).v : ValueId(); }
ValueId synth_matmul_backward(Node& n) {  // x, indices, code book, dy
  if (!n.count(4, 4)) return {};
  const std::string wrt = n.word("wrt");
  if (wrt == "Dx") return matmul(term(n, 3), from_codebook(term(n, 1), term(n, 2))).v;
  if (wrt != "Codebook") {
    n.fail(Code::BadAttribute, "\"wrt\" must be Dx or Codebook");
    return ValueId();
  }
  const auto book = term(n, 2).dims();
  if (book.size() != 2) {
    n.fail(Code::BadShape, "needs a code book [entries, size]");
    return ValueId();
  }
  const Dim count = n.b.dims().product(term(n, 1).dims());
  const Term dw = reshape(matmul(term(n, 3), term(n, 0), true), {count, book[1]});
  const Term index{&n.b, n.b.expand(n.b.reshape(n.b.cast(n.in[1], DType::I64), {count, Dim(1)}), {count, book[1]})};
  return make(OpKind::ScatterElements, {transform::zeros(n.b, dw.dtype(), book), index, dw}, ScatterAttrs{0, Reduction::Add}).v;
}

// y = sum over i of coefficient[c,i] * exp(-((x - center i) / h)^2) for x [.., c], with centers at spacing h from grid_min to
// grid_max.

struct Bells {
  Term away, basis;  // (x - center) / h and the Gaussian, [.., c, num_basis]
  double width = 1;
};
std::optional<Bells> bells_of(Node& n) {
  const int64_t count = n.integer("num_basis");
  const double low = n.number("grid_min", 0), high = n.number("grid_max", 0);
  if (!n.good) return std::nullopt;
  if (count < 1 || count > 1 << 20 || n.rank(0) < 1 || (count > 1 && !(high > low))) {
    n.fail(Code::BadAttribute, "num_basis, grid_min or grid_max are out of range");
    return std::nullopt;
  }
  Bells s;
  if (count > 1) s.width = (high - low) / static_cast<double>(count - 1);
  std::vector<float> centers;
  for (int64_t i = 0; i < count; ++i) centers.push_back(static_cast<float>(low + static_cast<double>(i) * s.width));
  auto column = term(n, 0).dims();
  column.emplace_back(1);
  const Term x = reshape(term(n, 0), column);
  s.away = (x - x.with(n.b.cast(n.b.constant(make_data(DType::F32, {count}, centers)), x.dtype()))) / s.width;
  s.basis = exp(-square(s.away));
  return s;
}
ValueId spline(Node& n) {  // x, coefficients
  const auto s = n.count(2, 2) ? bells_of(n) : std::nullopt;
  return s ? sum(s->basis * term(n, 1), {n.rank(0)}, false).v : ValueId();
}
ValueId spline_backward_x(Node& n) {  // x, coefficients, dy
  const auto s = n.count(3, 3) ? bells_of(n) : std::nullopt;
  if (!s) return {};
  const Term slope = s->basis * s->away * (-2 / s->width);
  return (term(n, 2) * sum(slope * term(n, 1), {n.rank(0)}, false)).v;
}
ValueId spline_backward_coefficients(Node& n) {  // x, dy
  const auto s = n.count(2, 2) ? bells_of(n) : std::nullopt;
  if (!s) return {};
  auto column = term(n, 1).dims();
  column.emplace_back(1);
  std::vector<int64_t> rows;
  for (int64_t i = 0; i + 1 < n.rank(0); ++i) rows.push_back(i);
  return sum(s->basis * reshape(term(n, 1), column), rows, false).v;
}

}  // namespace

std::vector<ValueId> reference_gradients(ReferenceNode& n, ValueId y, ValueId dy, std::span<const ValueId> operands) {
  if (!y.valid()) return {};
  for (size_t i = 0; i < n.in.size(); ++i)
    if (std::find(n.in.begin(), n.in.begin() + static_cast<std::ptrdiff_t>(i), n.in[i]) !=
        n.in.begin() + static_cast<std::ptrdiff_t>(i)) {
      n.fail(Code::UnsupportedAttribute, "two of its inputs are the same value");
      return std::vector<ValueId>();
    }
  Diagnostics inner;
  const auto all = transform::gradients(n.b, y, dy, operands, n.in, inner);
  if (all) return *all;
  n.fail(inner.items()[0].code, inner.items()[0].message);
  return {};
}

std::span<const ReferenceRow> reference_learned_rows() {
  static constexpr ReferenceRow kRows[] = {
      {"AdaLayerNorm", of_three<modulated>},
      {"AdaLayerNormBackward", backward_of_three<modulated>},
      {"GatedResidual", of_three<gated>},
      {"GatedResidualBackward", backward_of_three<gated>},
      {"BatchNormInferenceBackwardInput", batch_norm_backward_input},
      {"BatchNormInferenceBackwardGamma", batch_norm_backward_gamma},
      {"BatchNormInferenceBackwardBeta", batch_norm_backward_beta},
      {"SynthMatMul", synth_matmul},
      {"SynthReconstruct", synth_reconstruct},
      {"SynthMatMulBackward", synth_matmul_backward},
      {"SplineActivation", spline},
      {"SplineActivationBackwardX", spline_backward_x},
      {"SplineActivationBackwardCoeff", spline_backward_coefficients},
  };
  return kRows;
}

}  // namespace rlxc::import_json
