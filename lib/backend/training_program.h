// A training package contains two programs: a step, and an evaluation without an update (the folder `forward`). Its states begin
// with the contents of a checkpoint, which the package contains, too.
//
// A checkpoint is a safetensors file: the length of the header as 8 bytes, a JSON header with names, types, sizes and places,
// padded with spaces to a multiple of 64 bytes, and the tensors without gaps. Programs compare the header byte for byte.
#pragma once
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "ir/data.h"
#include "support/foreign_text.h"

namespace rlxc {

struct StateTensor {
  ForeignText name;
  TensorData initial;  // its type and sizes; the bytes may be missing
};

struct TrainingProgram {
  std::string forward;     // name of the package that evaluates, which is in the folder "forward"
  size_t data_inputs = 0;  // inputs of a sample: those of the model, and its target
  bool lr_input = false;   // a step has the rate as one more input
  size_t parameters = 0;   // of the states, the first
  DType loss = DType::F32;
  std::vector<StateTensor> states;
};

struct CheckpointPlace {
  uint64_t offset, bytes;  // in the file
};
struct CheckpointLayout {
  std::string header;  // with its length in front, padded
  std::vector<CheckpointPlace> states;
  uint64_t bytes = 0;  // of the file
};
CheckpointLayout checkpoint_layout(const TrainingProgram&);

std::string checkpoint_file(const std::string& package);  // <name>.safetensors

// Streams the file with the first contents of the states, in order. False as soon as `write` is, or if bytes are missing.
bool write_checkpoint(const TrainingProgram&, const std::function<bool(std::span<const std::byte>)>& write);

}  // namespace rlxc
