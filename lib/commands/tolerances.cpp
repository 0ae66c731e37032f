#include "commands/tolerances.h"

#include "support/number.h"

namespace rlxc {
namespace {

struct PrecisionRow {
  std::string_view prefix;  // of --precision; the first row that fits counts
  Tolerance tolerance;
};
constexpr Tolerance kQuantised{1e-3, 1e-5, 0.98};
const PrecisionRow kRows[] = {{"f32", {1e-3, 1e-5, {}}},       {"f16", {1e-2, 1e-2, {}}}, {"automixed-bf16", {5e-2, 8e-2, {}}},
                              {"automixed", {1e-2, 1e-2, {}}}, {"fp8", kQuantised},       {"mxfp8", kQuantised},
                              {"custom", {5e-2, 8e-2, {}}}};

}  // namespace

std::string Tolerance::text() const {
  return cosine ? "cosine at least " + shortest(*cosine) : "rtol " + shortest(rtol) + ", atol " + shortest(atol);
}

Tolerance tolerance_of(const CompileOptions& o, const RunRequest& run) {
  Tolerance t = kRows[0].tolerance;
  for (const PrecisionRow& row : kRows)
    if (o.precision_name.starts_with(row.prefix)) {
      t = row.tolerance;
      break;
    }
  const bool quantised = !o.weights.empty() || !o.calibration_file.empty() || o.activations == "int8";
  if (quantised) t = kQuantised;
  if (run.rtol || run.atol) t.cosine.reset();
  t.rtol = run.rtol.value_or(t.rtol);
  t.atol = run.atol.value_or(t.atol);
  if (run.min_cosine) t.cosine = run.min_cosine;
  return t;
}

}  // namespace rlxc
