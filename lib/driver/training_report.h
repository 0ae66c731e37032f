// training.json, and what a package that trains needs to know.
#pragma once
#include "backend/training_program.h"
#include "driver/compile.h"
#include "report/context.h"
#include "support/json_writer.h"

namespace rlxc {

// `forward`: the name of the package that evaluates.
TrainingProgram training_program(const Compiled& step, std::string forward);

// training.json (schemas/training.schema.json): the loss and the update, the states and their places in the checkpoint, what the
// forward half keeps for the backward half, and what is computed again instead. O(nodes + bytes of states).
void write_training(const Compiled& step, const LirModule& forward, JsonWriter&, const report::ReportContext&);

}  // namespace rlxc
