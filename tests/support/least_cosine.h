// Similarity of two modules' results, for tests of passes that round on purpose.
#pragma once
#include <algorithm>

#include "support/same_results.h"

namespace rlxc::testing {

// Returns the smallest cosine over all outputs.
inline double least_cosine(const Module& before, const Module& after, uint64_t seed = 1) {
  const auto a = results_of(before, seed), b = results_of(after, seed);
  REQUIRE(a.size() == b.size());
  double least = 1;
  for (size_t i = 0; i < a.size(); ++i) least = std::min(least, eval::compare(b[i], a[i], 0, 0).cosine);
  return least;
}

}  // namespace rlxc::testing
