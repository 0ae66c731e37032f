#include "report/mesh_svg.h"

#include <doctest/doctest.h>

#include "ir/text.h"
#include "support/bump_plan.h"
#include "support/golden.h"
#include "support/mlp_text.h"
#include "support/rewrite.h"
#include "support/xml.h"

using namespace rlxc;
using namespace rlxc::test;
using namespace rlxc::testing;

namespace {

std::string picture(const std::string& mesh, std::vector<std::string> shards, std::vector<std::string> parallel = {}) {
  Diagnostics d;
  auto m = parse_text(kMlp, d);
  REQUIRE_MESSAGE(m, d.text());
  PassRun run;
  run.options.mesh = mesh;
  run.options.shards = std::move(shards);
  run.options.parallel = std::move(parallel);
  run(*m, "partition");
  run(*m, "dead_code_elimination");
  REQUIRE_MESSAGE(run.diagnostics.ok(), run.diagnostics.text());
  std::string svg = report::mesh_svg(bump_lir(std::move(m)), {}, {});
  CHECK(is_well_formed(svg));
  return svg;
}

}  // namespace

TEST_CASE("the devices of a mesh as a picture") {
  check_golden("report/mesh.svg", picture("data=2,model=2", {"x=data:0", "w1=model:1"}));
  CHECK(picture("pipe=2,model=2", {"w1=model:1"}, {"pipeline"}).find("stage 1") != std::string::npos);
}

TEST_CASE("of a large mesh some devices are drawn") {
  const std::string svg = picture("a=9,b=4,c=10,d=12", {"x=d:0"});
  CHECK(svg.find("3808 further devices are not drawn") != std::string::npos);
  CHECK(svg.find("a=7,b=") == std::string::npos);
  CHECK(svg.find("a=1,b=3") != std::string::npos);
}
