#include "backend/c/cpu_training.h"

#include "backend/c/c_like.h"
#include "backend/c/mesh_link.h"
#include "backend/host_files.h"
#include "backend/package_text.h"
#include "backend/weight_files.h"
#include "support/checked.h"

namespace rlxc {
namespace {

constexpr size_t kLineOfText = 100, kLengthBytes = 8;
constexpr uint64_t kBlockUnit = 64;

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

constexpr std::string_view kPartFunctions =
    R"(// Reads the runs of this device from a file that has those of all.
static int read_state(int file, const state_row* s, unsigned char* to) {
  const $N_link* link = $N_joined();
  const uint64_t position = link && s->group >= 0 ? (uint64_t)$N_group(s->group, link->rank, NULL) : 0;
  const off_t begin = lseek(file, 0, SEEK_CUR);
  for (uint64_t r = 0; r < s->runs; ++r) {
    if (lseek(file, begin + (off_t)((r * s->devices + position) * s->run), SEEK_SET) < 0) return 0;
    if (!read_all(file, to + r * s->run, s->run)) return 0;
  }
  return lseek(file, begin + (off_t)(s->bytes * s->devices), SEEK_SET) >= 0;
}

// Writes the runs of all devices, which take part. Nothing into file -1.
static int write_state(int file, const state_row* s, const unsigned char* from) {
  const $N_link* link = $N_joined();
  if (s->group < 0) return file >= 0 && write_all(file, from, s->bytes);
  unsigned char* whole = link ? malloc(s->bytes * s->devices + 1) : NULL;
  const int good = whole && !link->all_gather(link->self, s->group, from, whole, (int64_t)s->runs, (int64_t)s->run) && file >= 0 &&
                   write_all(file, whole, s->bytes * s->devices);
  free(whole);
  return good;
}

// Whether all devices that share states have written theirs. One that has not says so.
static int all_wrote(int good, const char* path) {
  const $N_link* link = $N_joined();
  if (!link) return good;
  if (!good) {
    char name[256];
    $N_device_name(link->rank, name, sizeof name);
    fprintf(stderr, "$N: rank %d (%s): cannot write the checkpoint %s\n", link->rank, name, path);
  }
  for (int i = 0, last = -1; i < $U_STATES; ++i) {
    const state_row* s = &kStates[i];
    if (s->group == last || s->group < 0) continue;
    unsigned char own = (unsigned char)(good != 0), all[$U_DEVICES];
    last = s->group;
    if (link->all_gather(link->self, s->group, &own, all, 1, 1)) return 0;
    for (uint64_t d = 0; d < s->devices; ++d) good = good && all[d];
  }
  return good;
}

)";

// Values of the parts that devices have of states: none if each has all of them.
std::vector<std::pair<std::string_view, std::string>> part_values(const codegen::Package& step, bool parts) {
  const std::string state = "kStates[i].bytes";
  if (!parts)
    return {{"PART_FUNCTIONS", "static int all_wrote(int good, const char* path) { return (void)path, good; }\n\n"},
            {"PART_FIELDS", ""},
            {"NO_PART", ""},
            {"FILE_BYTES", state},
            {"READ_STATE", "read_all(file, block + kStates[i].place, kStates[i].bytes)"},
            {"WRITE_STATE", "good && write_all(file, t->block + kStates[i].place, kStates[i].bytes)"}};
  return {{"PART_FUNCTIONS", target::expand(kPartFunctions, {{"N", step.name}, {"U", upper(step.name)}})},
          {"PART_FIELDS",
           "  int group;  // of devices with a part each: `runs` runs of `run` bytes, one of every `devices`; -1: whole\n"
           "  uint64_t runs, run, devices;\n"},
          {"NO_PART", ", -1, 0, 0, 1"},
          {"FILE_BYTES", state + " * kStates[i].devices"},
          {"READ_STATE", "read_state(file, &kStates[i], block + kStates[i].place)"},
          {"WRITE_STATE", "write_state(good ? file : -1, &kStates[i], t->block + kStates[i].place) && good"}};
}

// The part of a state that a device has, as columns of its row.
std::string part_columns(const codegen::Port& port, const StateTensor& s, uint64_t bytes) {
  if (!port.part) return ", -1, 1, " + std::to_string(bytes) + "u, 1";
  uint64_t runs = static_cast<uint64_t>(port.part->blocks);
  for (int64_t axis = 0; axis < port.part->axis; ++axis) runs *= static_cast<uint64_t>(s.initial.dims[static_cast<size_t>(axis)]);
  return ", " + std::to_string(port.part->group) + ", " + std::to_string(runs) + "u, " + std::to_string(bytes / runs) + "u, " +
         std::to_string(port.part->devices);
}

}  // namespace

std::vector<TextFile> training_files(const codegen::Package& step, const TrainingProgram& t) {
  const CheckpointLayout layout = checkpoint_layout(t);
  std::string rows;
  uint64_t block = 0;
  const std::span<const codegen::Port> ports = std::span(step.inputs).last(t.states.size());
  const bool parts = has_parts(ports);
  for (size_t i = 0; i < t.states.size(); ++i) {
    const StateTensor& s = t.states[i];
    const uint64_t bytes = s.initial.size_bytes() / static_cast<uint64_t>(ports[i].part ? ports[i].part->devices : 1);
    rows += "    {" + s.name.c_string() + ", " + std::to_string(bytes) + "u, " + std::to_string(block) + "u";
    rows += (parts ? part_columns(ports[i], s, bytes) : "") + "},\n";
    block = align_up(block + bytes, kBlockUnit).value_or(block + bytes);
  }
  std::vector<std::pair<std::string_view, std::string>> values = part_values(step, parts);
  const std::pair<std::string_view, std::string> own[] = {
      {"STATE_ROWS", rows},
      {"STATES", std::to_string(t.states.size())},
      {"PARAMETERS", std::to_string(t.parameters)},
      {"STEP_INPUTS", std::to_string(t.data_inputs + (t.lr_input ? 1 : 0))},
      {"LOSS_INPUTS", std::to_string(t.data_inputs)},
      {"HEADER_TEXT", long_literal(std::string_view(layout.header).substr(kLengthBytes))},
      {"HEADER", std::to_string(layout.header.size() - kLengthBytes)},
      {"BLOCK", std::to_string(std::max(block, kBlockUnit))},
      {"REAL", t.loss == DType::F64 ? "double" : "float"},
      {"CHECKPOINT", checkpoint_file(step.name)},
      {"WEIGHTS_FILE", weights_file(step)},
      {"FU", upper(t.forward)},
      {"F", t.forward},
      {"N", step.name},
      {"U", upper(step.name)}};
  values.insert(values.end(), std::begin(own), std::end(own));
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
