// The judge of results: whatever says that two results agree (`run`, `--verify-each`, `calibrate --accuracy`, the search for the
// first value that differs) asks it. Elements within a tolerance do not show a wrong scale of small values, and a cosine shows
// neither scale nor single elements, so a verdict looks at all three: elements, direction and norm of the error.
#pragma once
#include <limits>
#include <optional>
#include <string>

#include "eval/eval.h"

namespace rlxc::eval {

// Without `cosine`, float results a agree with expected values b if |a - b| <= atol + rtol * |b| for each element and
// ||a - b|| <= norm_error * ||b||. With `cosine`, the cosine similarity is at least that, ||a - b|| <= norm_error * ||b||, and no
// element is off by more than norm_error * (4 * rms(b) + |b|): errors of the largest norm that is allowed have a root mean square
// of norm_error * rms(b), and four times that is no noise. Where no expected value is above atol / 10, elements alone are
// compared: directions and norms of noise say nothing. Integers, bools and strings are equal.
struct Tolerance {
  double rtol = 0, atol = 0;
  std::optional<double> cosine = {};
  double norm_error = std::numeric_limits<double>::infinity();
  bool integers = false;     // judge integers and bools by `cosine`, too: they are computed from floats that are rounded
  std::string text() const;  // "rtol 0.001, atol 1e-05"
};

// Vectors of the same norm with this cosine differ by sqrt(2 - 2 * cosine) of it. As a limit of the norm error, this adds the
// scale to what the cosine demands, and nothing else.
double norm_error_at(double cosine);
Tolerance similar(double cosine);  // with that limit, and `integers`

// NaN equals NaN, and infinities must agree. Whatever the tolerance, these fail: elements that are not finite where the expected
// are, and the other way round; zeros alone where an expected value is above 1e-7 and atol / 10; lost signs, that is, each
// expected value of one sign and at least a quarter of the largest magnitude has a result without that sign.
struct Judgement : Comparison {
  double norm_error = 0;   // ||a - b|| / ||b||; infinite if only b is 0, or if elements are wrongly finite or not finite
  int64_t not_finite = 0;  // elements of which one is finite and the other not, or that are not finite in different ways
};
Judgement judge(const HostValue& actual, const HostValue& expected, const Tolerance&);

}  // namespace rlxc::eval
