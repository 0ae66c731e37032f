#include "backend/c/cpu_training.h"

#include "backend/c/c_like.h"
#include "backend/host_files.h"
#include "backend/weight_files.h"
#include "support/checked.h"

namespace rlxc {
namespace {

constexpr size_t kLineOfText = 100, kLengthBytes = 8;
constexpr uint64_t kUnit = 64;

// A long string, in lines.
std::string long_literal(std::string_view text) {
  std::string s;
  for (; !text.empty(); text.remove_prefix(std::min(kLineOfText, text.size())))
    s += (s.empty() ? "    " : "\n    ") + ForeignText(text.substr(0, kLineOfText)).c_string();
  return s;
}

std::string host_text(std::string_view name, const std::vector<std::pair<std::string_view, std::string>>& values) {
  for (const HostFile& h : host_files())
    if (h.name == name) return target::expand(h.text, values);
  return {};
}

constexpr std::string_view kReadme = R"(
## Training

`$N_train.h` is the C API of training: `$N_train_create` opens the package and begins with `$CHECKPOINT`, `$N_step` takes a step
on a batch, `$N_loss` evaluates without one, `$N_save` and `$N_load` write and read checkpoints (safetensors). Programs link
`lib$N.a` and `forward/lib$F.a`, or `lib$N.so` alone.

```c
#include <stdio.h>

#include "$N_train.h"

int main(int argc, char** argv) {
  int error = $U_OK;
  $N_trainer* t = $N_train_create(".", ".", &error);
  if (!error && argc > 1) error = $N_save(t, argv[1]);
  if (!error && argc > 1) error = $N_load(t, argv[1]);
  if (error) fprintf(stderr, "%s\n", $N_strerror(error));
  $N_train_destroy(t);
  return error;
}
```
)";

}  // namespace

std::vector<TextFile> training_files(const codegen::Package& step, const TrainingProgram& t) {
  const CheckpointLayout layout = checkpoint_layout(t);
  std::string rows;
  uint64_t block = 0;
  for (const StateTensor& s : t.states) {
    const uint64_t bytes = s.initial.size_bytes();
    rows += "    {" + s.name.c_string() + ", " + std::to_string(bytes) + "u, " + std::to_string(block) + "u},\n";
    block = align_up(block + bytes, kUnit).value_or(block + bytes);
  }
  const std::vector<std::pair<std::string_view, std::string>> values = {
      {"STATE_ROWS", rows},
      {"STATES", std::to_string(t.states.size())},
      {"PARAMETERS", std::to_string(t.parameters)},
      {"STEP_INPUTS", std::to_string(t.data_inputs + (t.lr_input ? 1 : 0))},
      {"LOSS_INPUTS", std::to_string(t.data_inputs)},
      {"HEADER_TEXT", long_literal(std::string_view(layout.header).substr(kLengthBytes))},
      {"HEADER", std::to_string(layout.header.size() - kLengthBytes)},
      {"BLOCK", std::to_string(std::max(block, kUnit))},
      {"REAL", t.loss == DType::F64 ? "double" : "float"},
      {"CHECKPOINT", checkpoint_file(step.name)},
      {"WEIGHTS_FILE", weights_file(step)},
      {"FU", upper(t.forward)},
      {"F", t.forward},
      {"N", step.name},
      {"U", upper(step.name)}};
  return {{step.name + "_train.h", host_text("package_train.h.in", values)},
          {step.name + "_train.c", host_text("package_train.c.in", values)}};
}

std::vector<std::pair<std::string, std::string>> training_values(const std::string& package, const TrainingProgram* t) {
  const std::string u = upper(package), library = t ? "forward/lib" + t->forward + ".a" : "";
  const auto only = [&](const std::string& text) { return t ? text : std::string(); };
  return {{"TRAIN_ERRORS", only("  " + u + "_NO_CHECKPOINT = 10  // the file is missing or no checkpoint of this program\n")},
          {"TRAIN_COMMA", only(",")},
          {"TRAIN_MESSAGES",
           only("    case " + u + "_NO_CHECKPOINT: return \"the file is missing or no checkpoint of this program\";\n")},
          {"TRAIN_LIBRARY", only(" " + library)},
          {"TRAIN_RULE",
           only("\n" + library + ": always\n\t$(MAKE) -C forward lib" + (t ? t->forward : "") + ".a\n\n.PHONY: always\n")},
          {"TRAIN_CLEAN", only("\n\t$(MAKE) -C forward clean")},
          {"TRAIN_FOLDER", only("add_subdirectory(forward)\n")},
          {"TRAIN_LINK", only("target_link_libraries(" + package + "_model PUBLIC " + (t ? t->forward : "") + "_model)\n")}};
}

std::string training_readme(const std::string& package, const TrainingProgram* t) {
  if (!t) return {};
  return target::expand(kReadme,
                        {{"CHECKPOINT", checkpoint_file(package)}, {"F", t->forward}, {"N", package}, {"U", upper(package)}});
}

}  // namespace rlxc
