// The part of a cpu package that trains: steps, evaluation and checkpoints, over the packages of the step and of the evaluation.
#pragma once
#include <string>
#include <utility>
#include <vector>

#include "backend/package_options.h"
#include "backend/training_program.h"
#include "codegen/package.h"

namespace rlxc {

// <name>_train.h and <name>_train.c.
std::vector<TextFile> training_files(const codegen::Package& step, const TrainingProgram&);

// Values of $KEY in the host files of every package: what training adds to errors and to the build. Empty without training.
std::vector<std::pair<std::string, std::string>> training_values(const std::string& package, const TrainingProgram*);

// Markdown for README.md: what training adds. Empty without.
std::string training_readme(const std::string& package, const TrainingProgram*);

}  // namespace rlxc
