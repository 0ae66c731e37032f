// Compiles a model and reads the results: compile_model MODEL FOLDER
#include <iostream>

#include "driver/artefacts.h"
#include "driver/compile.h"
#include "driver/load.h"

int main(int argc, char** argv) {
  if (argc != 3) return 2;
  rlxc::CompileOptions options;
  options.input = argv[1];
  options.precision_name = "f32";

  // Errors are values: all problems of the input are in the diagnostics.
  rlxc::Diagnostics diagnostics(options.input);
  auto model = rlxc::load_model(options, diagnostics);
  if (!model) {
    std::cerr << diagnostics.text();
    return static_cast<int>(diagnostics.exit());
  }
  const rlxc::InputIdentity identity{"model", model->content_hash, model->hash_sampled};
  const auto compiled = rlxc::compile(std::move(*model), "cpu", options, {}, diagnostics);
  if (!compiled || !rlxc::write_artefacts(*compiled, nullptr, identity, options, {argv[2], ""}, diagnostics)) {
    std::cerr << diagnostics.text();
    return static_cast<int>(diagnostics.exit());
  }

  // The result: nodes in the order in which they run, with the bytes that each writes.
  const rlxc::Graph& graph = compiled->lir.module->main();
  const rlxc::GraphPlan& plan = compiled->lir.plans[0];
  for (rlxc::NodeId node : plan.schedule) {
    if (plan.phase[node.raw] == rlxc::Phase::Prologue || node == graph.terminator()) continue;
    const rlxc::Slot& slot = plan.slot[graph.result(node).raw];
    std::cout << rlxc::kind_name(graph.op(node)) << " " << graph.label(node).line() << ": "
              << compiled->lir.module->dims.text(slot.size) << " bytes in " << rlxc::name(slot.region) << "\n";
  }
  std::cout << compiled->after.launches << " launches, arena " << compiled->lir.module->dims.text(plan.arena_size) << " bytes\n";
}
