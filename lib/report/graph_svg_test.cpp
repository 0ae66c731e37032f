#include "report/graph_svg.h"

#include <doctest/doctest.h>

#include "report/graph_boxes.h"
#include "report/layered_layout.h"
#include "support/bump_plan.h"
#include "support/deep_module.h"
#include "support/example_module.h"
#include "support/golden.h"
#include "support/random.h"
#include "support/xml.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("the graph as a picture") {
  const std::string svg = report::graph_svg(bump_lir(example_module()));
  CHECK(is_well_formed(svg));
  check_golden("report/graph.svg", svg);
}

TEST_CASE("a large graph is drawn by name scope, without names by order") {
  const LirModule named = bump_lir(deep_module(1000)), plain = bump_lir(deep_module(1000, false));
  const auto boxes = report::graph_boxes(named);
  CHECK(boxes.boxes.size() == 1001);
  CHECK(boxes.boxes[1].head == "/model/layers.0");
  CHECK(boxes.boxes[1].label == "6 nodes");
  const auto ranges = report::graph_boxes(plain);
  CHECK(ranges.boxes.size() == 546);
  for (const LirModule* lir : {&named, &plain}) {
    const std::string svg = report::graph_svg(*lir);
    CHECK(is_well_formed(svg));
    CHECK(svg.size() < 3'000'000);
  }
  CHECK(report::graph_svg(bump_lir(deep_module(20000))).size() < 3'000'000);
}

TEST_CASE("layouts put edges downward and nodes side by side") {
  for (uint64_t seed = 0; seed < 50; ++seed) {
    Random random(seed);
    report::LayeredLayout layout;
    const auto n = static_cast<size_t>(random.integer(1, 60));
    for (size_t i = 0; i < n; ++i) layout.nodes.push_back({random.uniform(20, 120), 0, 0});
    for (uint32_t to = 1; to < n; ++to)
      for (int64_t k = random.integer(0, 2); k > 0; --k)
        layout.edges.push_back({static_cast<uint32_t>(random.integer(0, to - 1)), to, {}, false});
    report::arrange(layout, 10);
    for (const report::LayoutEdge& e : layout.edges) {
      const uint32_t top = layout.nodes[e.from].layer, bottom = layout.nodes[e.to].layer;
      CHECK(top < bottom);
      if (!e.is_stub) CHECK(e.bends.size() == bottom - top - 1);
    }
    for (size_t a = 0; a < n; ++a) {
      CHECK(layout.nodes[a].x - layout.nodes[a].width / 2 >= -1e-6);
      CHECK(layout.nodes[a].x + layout.nodes[a].width / 2 <= layout.width + 1e-6);
      for (size_t b = 0; b < a; ++b) {
        if (layout.nodes[a].layer != layout.nodes[b].layer) continue;
        const double distance = std::abs(layout.nodes[a].x - layout.nodes[b].x);
        CHECK(distance >= (layout.nodes[a].width + layout.nodes[b].width) / 2 + 10 - 1e-6);
      }
    }
  }
}
