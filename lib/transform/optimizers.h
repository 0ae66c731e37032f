// Update rules of optimizers: one row each. Formulas and defaults are those of PyTorch (torch.optim); lion is that of Chen et
// al., Symbolic Discovery of Optimization Algorithms.
#pragma once
#include <array>
#include <span>
#include <string_view>
#include <vector>

#include "ir/term.h"
#include "options/options.h"

namespace rlxc::transform {

// Numbers of an update rule. Those that a rule does not use are 0.
struct Hyper {
  double lr = 0, momentum = 0, beta1 = 0, beta2 = 0, epsilon = 0, weight_decay = 0;
};

// What all parameters share in a step: the learning rate, and which step it is, from 1, as f32 scalars.
struct StepTerms {
  Term lr, number;
};

// A parameter and its moments after a step.
struct Updated {
  Term parameter;
  std::vector<Term> moments;
};
using UpdateRule = Updated (*)(const Hyper&, const StepTerms&, Term parameter, Term gradient, std::span<const Term> moments);

struct Optimizer {
  std::string_view name;
  std::array<std::string_view, 2> moments;  // names of a parameter's moments, which begin as zeros; "": none
  Hyper defaults;
  bool counts_steps;  // the rule reads StepTerms::number
  UpdateRule update;
};

std::span<const Optimizer> optimizers();
const Optimizer* find_optimizer(std::string_view name);

// The defaults, with the options that are given. Errors: an option that the rule does not use.
Hyper hyper_of(const Optimizer&, const TrainingOptions&, Diagnostics&);

}  // namespace rlxc::transform
