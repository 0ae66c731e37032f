// How closely results have to agree, by the precision of a compile.
#pragma once
#include <optional>
#include <string>

#include "options/options.h"

namespace rlxc {

// A float result agrees if |a - b| <= atol + rtol * |expected| or, with `cosine`, if the cosine similarity is at least that.
struct Tolerance {
  double rtol = 0, atol = 0;
  std::optional<double> cosine;
  std::string text() const;  // "rtol 0.001, atol 1e-05"
};

// Rounding errors of f16 and bf16 grow over layers; 8-bit and 4-bit values are compared by cosine. Flags of `rlxc run` override.
Tolerance tolerance_of(const CompileOptions&, const RunRequest&);

}  // namespace rlxc
