// A model as it is before the pass that divides it over the devices of a mesh, with the decisions about its values: what formats
// say that divide models themselves.
#pragma once
#include "driver/loaded_model.h"
#include "options/options.h"
#include "shard/annotations.h"

namespace rlxc {

struct UndividedModel {
  LoadedModel model;
  shard::Shardings shardings;  // of the main graph
  shard::NodeStages stages;    // of the nodes of the file; empty without a pipeline
};

// Decides as a compile of the model with these options does, by which it was read. Nullopt after errors, and if nothing is to be
// divided. O(nodes).
std::optional<UndividedModel> undivided_model(LoadedModel, const CompileOptions&, const std::string& target, Diagnostics&);

// Annotates the model, which was read with these options, with its shardings (shard::annotate). Blocks and sequences become
// tensor operations first. Nothing without --mesh. False after errors.
bool annotate_shardings(LoadedModel&, const CompileOptions&, const std::string& target, Diagnostics&);

}  // namespace rlxc
