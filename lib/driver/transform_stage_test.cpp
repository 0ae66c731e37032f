// Transforms of models as commands apply them: HIR blocks, sequences, the report.
#include "driver/transform_stage.h"

#include "driver/load.h"
#include "ir/graphs.h"
#include "support/golden.h"
#include "support/json_writer.h"
#include "support/schema.h"
#include "support/source_dir.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

std::optional<LoadedModel> transformed(const std::string& file, std::vector<std::string> words, Diagnostics& d) {
  CompileOptions o;
  o.input = source_dir() + "/" + file;
  o.transforms = std::move(words);
  return load_model(o, d);
}

}  // namespace

TEST_CASE("the ledger follows its schema and says what was done") {
  Diagnostics d;
  const auto model = transformed("examples/mlp.json", {"grad y", "wrt params", "vmap x", "size 8"}, d);
  REQUIRE_MESSAGE(model, d.text());
  std::string json;
  JsonWriter w(json);
  write_ledger(model->transforms, w, {"mlp.json", "", false, "", "0"});
  check_schema("transform", json);
  check_golden("report/transform.txt", ledger_text(model->transforms));
}

TEST_CASE("blocks of the HIR are lowered before they are differentiated") {
  Diagnostics d;
  const auto model = transformed("examples/decoder.json", {"grad y", "wrt inputs"}, d);
  REQUIRE_MESSAGE(model, d.text());
  for (GraphId id : graphs_in_use(*model->module))
    for (NodeId n : model->module->graph(id).nodes()) CHECK_FALSE(has_trait(model->module->graph(id).op(n), kHir));
  REQUIRE(model->transforms.steps.size() == 1);
  CHECK_FALSE(model->transforms.steps[0].outputs.empty());
}
