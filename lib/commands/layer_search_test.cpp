#include "commands/layer_search.h"

#include <doctest/doctest.h>

#include <algorithm>

namespace rlxc {
namespace {

struct Search {
  std::vector<double> harm;  // of each layer; the whole is good if the sum of those quantized is at most 1
  std::vector<double> accuracy;
  int calls = 0;

  std::optional<std::vector<bool>> run() {
    return layers_to_keep(accuracy, [&](const std::vector<bool>& kept) {
      ++calls;
      double sum = 0;
      for (size_t i = 0; i < harm.size(); ++i) sum += kept[i] ? 0 : harm[i];
      return std::optional(sum <= 1);
    });
  }
};

TEST_CASE("the layers that do harm stay float, and no others") {
  Search s{{0, 0.1, 5, 0, 0.2, 3, 0.1, 0}, {}};
  for (double h : s.harm) s.accuracy.push_back(1 - h / 10);
  CHECK(*s.run() == std::vector<bool>{false, false, true, false, false, true, false, false});
  CHECK(s.calls <= 7);
}

TEST_CASE("layers that only looked harmful are quantized") {
  Search s{{0, 4, 0, 0}, {0.1, 0.2, 0.3, 0.4}};
  CHECK(*s.run() == std::vector<bool>{false, true, false, false});
}

TEST_CASE("a model that is accurate enough keeps nothing; one that never is keeps all") {
  Search fine{{0.1, 0.1}, {0.9, 0.9}};
  CHECK(*fine.run() == std::vector<bool>{false, false});
  CHECK(fine.calls == 1);
  CHECK(*layers_to_keep({0.5, 0.6, 0.7}, [](const auto&) { return std::optional(false); }) ==
        std::vector<bool>{true, true, true});
  CHECK(layers_to_keep({}, [](const auto&) { return std::optional(false); })->empty());
  CHECK_FALSE(layers_to_keep({0.5}, [](const auto&) { return std::optional<bool>(); }));
}

}  // namespace
}  // namespace rlxc
