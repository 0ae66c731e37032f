#include "backend/backend.h"

#include <doctest/doctest.h>

#include <set>

#include "backend/host_files.h"
#include "support/text.h"

namespace rlxc {
namespace {

TEST_CASE("every target has a row that says what it is") {
  std::set<std::string_view> names;
  std::set<size_t> columns;
  for (const Backend* b : backends()) {
    const TargetInfo& t = b->info;
    CAPTURE(t.name);
    CHECK(names.insert(t.name).second);
    CHECK(columns.insert(t.claims).second);
    CHECK(find_backend(t.name) == b);
    CHECK_FALSE(t.emits.empty());
    CHECK_FALSE(t.extension.empty());
    CHECK_FALSE(t.dtypes.empty());
    CHECK((t.supports != nullptr));
    CHECK(t.machine.memory_gbps > 0);
    CHECK((capability(t).has_value() == (t.language != nullptr)));
    if (t.host_run.how == HostRun::How::Script) CHECK_FALSE(t.host_run.script.empty());
    if (t.host_run.how == HostRun::How::Emulated) CHECK_FALSE(t.host_run.compiler.empty());
  }
  CHECK(find_backend("vulkan") == nullptr);
}

TEST_CASE("the MLX host defines a function for just the kinds of functions.def") {
  std::set<std::string, std::less<>> defined;
  for (const HostFile& h : host_files()) {
    if (!h.name.starts_with("rlxc_mlx")) continue;
    for (std::string_view line : split(h.text, '\n')) {
      if (line.starts_with("def ")) defined.emplace(line.substr(4, line.find('(') - 4));
      const size_t equals = line.find(" = ");
      if (equals == line.npos || line[0] < 'a' || line[0] > 'z') continue;
      for (std::string_view name : split(line.substr(0, equals), ',')) defined.emplace(trim(name));
    }
  }
  const auto supports = find_backend("mlx")->info.supports;
  for (size_t k = 0; k < kOpCount; ++k) {
    const auto op = static_cast<OpKind>(k);
    if (has_trait(op, kBody) || op == OpKind::ElementwiseRegion) continue;
    const std::string spelled(name(op));
    CAPTURE(spelled);
    // Kinds whose names are taken in Python get a trailing underscore.
    CHECK(supports(op) == (defined.contains(spelled + "_") || defined.contains(spelled)));
  }
}

}  // namespace
}  // namespace rlxc
