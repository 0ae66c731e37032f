// A model as one step of training: the loss of a batch, its gradient by the parameters, and the update of an optimizer, all as
// nodes of the graph. Parameters, moments and counters become inputs with an output each, which a plan keeps in one buffer as
// states (memory/states.h).
//
//   inputs    those of the model; target:OUTPUT or label:OUTPUT; lr; the states, parameters first
//   outputs   loss; next:STATE for each state
//
// A program that only evaluates has the parameters as its last inputs, and the outputs of the model behind the loss.
#pragma once
#include <string>
#include <vector>

#include "transform/gradients.h"
#include "transform/optimizers.h"

namespace rlxc::transform {

inline constexpr int64_t kIgnoredLabel = -100;  // as ignore_index of PyTorch: the sample is left out of the loss

struct TrainingState {
  std::string name;       // of its input; of a parameter that of the parameter
  std::string kind;       // parameter, moment, gradient, counter or scale
  std::string parameter;  // that it is the state of; empty: of all
  TensorData initial;     // its bytes are empty if the model has none for the parameter
};

struct FrozenParameter {
  std::string name, why;
};

struct Training {
  std::string loss;     // mse, cross-entropy, or empty: a value of the model
  std::string judged;   // the output that it compares with `target`, or the value
  int64_t axis = 1;     // of classes
  int64_t classes = 0;  // 0 if the model does not say
  const Optimizer* optimizer = nullptr;
  Hyper hyper;
  bool scales = false;  // the loss, dynamically
  size_t model_inputs = 0;
  std::string target;  // the input with classes or targets; empty: none
  bool lr_input = false;
  std::vector<TrainingState> states;  // in the order of their inputs and outputs
  std::vector<FrozenParameter> frozen;

  size_t first_state() const { return model_inputs + (target.empty() ? 0 : 1) + (lr_input ? 1 : 0); }
};

// Makes the module a step, or with options.evaluate_only the program that evaluates one. Parameters are inputs of f32 (or f64)
// then. `scales`: gradients are those of a scaled loss. Values named by `stopped` count as constant. Errors: an unknown loss,
// output, optimizer or parameter; no float output, or several; nothing to train; operations without a gradient; floats that
// become integers on the way. O(nodes + nodes made).
std::optional<Training> make_training(Module&, const TrainingOptions&, bool scales, std::span<const std::string> stopped, Expand,
                                      Diagnostics&);

}  // namespace rlxc::transform
