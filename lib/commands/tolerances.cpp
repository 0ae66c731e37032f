#include "commands/tolerances.h"

#include <algorithm>

#include "backend/backend.h"
#include "ir/graphs.h"

namespace rlxc {
namespace {

using eval::Tolerance;

// The limit of the norm error finds a wrong scale of values near `atol`. Noise of a tenth of `atol` passes.
struct PrecisionRow {
  std::string_view prefix;  // of --precision; the first row that fits counts
  Tolerance tolerance;
};
const Tolerance kQuantized = eval::similar(0.98), kF32{1e-3, 1e-5, {}, 0.2}, kHalf{1e-2, 1e-2, {}, 0.4},
                kBrain{5e-2, 8e-2, {}, 0.5};
const PrecisionRow kRows[] = {{"f32", kF32},       {"f16", kHalf},        {"automixed-bf16", kBrain}, {"automixed", kHalf},
                              {"fp8", kQuantized}, {"mxfp8", kQuantized}, {"custom", kBrain}};

// One unit in the last place, or two if expected values were rounded in between.
double resolution(DType t) {
  switch (t) {
    case DType::F16: return 0x1p-9;
    case DType::BF16: return 0x1p-6;
    case DType::F8E4M3FN:
    case DType::F8E4M3FNUZ: return 0x1p-3;
    case DType::F8E5M2:
    case DType::F8E5M2FNUZ: return 0x1p-2;
    default: return 0;
  }
}

Tolerance wider(const Tolerance& a, const Tolerance& b) {
  return {std::max(a.rtol, b.rtol), std::max(a.atol, b.atol), a.cosine, std::max(a.norm_error, b.norm_error)};
}

// The rounding of the types that nodes compute in.
Tolerance of_types(const Module& m) {
  Tolerance t{.norm_error = 0};
  for (GraphId id : graphs_in_use(m)) {
    const Graph& g = m.graph(id);
    for (NodeId n : g.nodes())
      for (size_t i = 0; !has_trait(g.op(n), kLeaf) && i < g.result_count(n); ++i) {
        if (g.dtype(g.result(n, i)) == DType::F16) t = wider(t, {1e-3, 2.5e-3, {}, kHalf.norm_error});
        if (g.dtype(g.result(n, i)) == DType::BF16) t = wider(t, {1e-2, 2e-2, {}, kBrain.norm_error});
      }
  }
  return t;
}

}  // namespace

Tolerance for_type(Tolerance t, DType type) {
  t.rtol = std::max(t.rtol, resolution(type));
  t.norm_error = std::max(t.norm_error, resolution(type));
  return t;
}

Tolerance tolerance_of(const CompileOptions& o, const RunRequest& run, const Module& m) {
  const auto* row = std::ranges::find_if(kRows, [&](const PrecisionRow& r) { return o.precision_name.starts_with(r.prefix); });
  Tolerance t = row == std::end(kRows) ? kF32 : row->tolerance;
  const Backend* backend = find_backend(run.target);
  if (o.precision_name == "automixed" && backend && backend->info.half == DType::BF16) t = kBrain;
  if (!o.weights.empty() || !o.calibration_file.empty() || o.activations == "int8") t = kQuantized;
  if (run.rtol || run.atol) t.cosine.reset();
  if (!t.cosine) t = wider(t, of_types(m));
  t.rtol = run.rtol.value_or(t.rtol);
  t.atol = run.atol.value_or(t.atol);
  if (!t.cosine) t.norm_error = std::max(t.norm_error, 2 * t.rtol);
  if (run.min_cosine) t = {t.rtol, t.atol, run.min_cosine, eval::norm_error_at(*run.min_cosine)};
  t.integers = false;
  return t;
}

}  // namespace rlxc
