// Evaluates one op of the reference JSON format on given numbers.
#pragma once
#include <cmath>
#include <string>
#include <vector>

#include "import/json/import.h"
#include "ir/verify.h"
#include "support/eval.h"
#include "support/random.h"
#include "support/reference_lines.h"

namespace rlxc::test {

using Reals = std::vector<double>;

inline std::vector<Reals> run(const std::string& document, const std::vector<HostValue>& inputs) {
  Diagnostics d;
  const auto m = import_json::parse_json(document, "", {}, d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK_MESSAGE(verify(*m, d), d.text());
  const auto r = eval::evaluate(*m, inputs, d);
  REQUIRE_MESSAGE(r, d.text());
  std::vector<Reals> out;
  for (const auto& v : *r) out.push_back(numbers(v));
  return out;
}

struct In {
  std::vector<int> dims;
  Reals values;
  DType type = DType::F32;
};
inline std::string reference_name(DType t) {
  std::string s(name(t));
  if (t == DType::Bool) return "Bool";
  s[0] = static_cast<char>(s[0] - 32);
  return s;
}
// Evaluates one op. Entries of `inputs` may have shapes without values.
inline Reals one(const std::string& op, const std::vector<In>& inputs, const std::vector<int>& result,
                 const std::string& type = "F32") {
  ReferenceLines l;
  std::vector<HostValue> values;
  std::vector<int> ids;
  for (const In& x : inputs) {
    ids.push_back(l.count);
    values.push_back(tensor_of(x.type, {x.dims.begin(), x.dims.end()}, x.values));
    l.input("x" + std::to_string(l.count), x.dims, reference_name(x.type));
  }
  return run(l.add(op, ids, result, type).graph(), values)[0];
}

inline In random_in(std::vector<int> dims, uint64_t seed, double low = -1, double high = 1) {
  size_t n = 1;
  for (int d : dims) n *= static_cast<size_t>(d);
  Random r(seed);
  Reals v(n);
  for (double& x : v) x = static_cast<double>(static_cast<float>(r.uniform(low, high)));
  return {std::move(dims), std::move(v)};
}

inline void close(const Reals& a, const Reals& b, double tolerance = 1e-4) {
  REQUIRE(a.size() == b.size());
  for (size_t i = 0; i < a.size(); ++i)
    CHECK_MESSAGE(std::abs(a[i] - b[i]) <= tolerance * (1 + std::abs(b[i])), "element ", i, ": ", a[i], " and ", b[i]);
}

}  // namespace rlxc::test
