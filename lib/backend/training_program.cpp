#include "backend/training_program.h"

#include <algorithm>

#include "support/checked.h"
#include "support/json_writer.h"

namespace rlxc {
namespace {

// States are floats and counters.
std::string_view type_name(DType t) {
  switch (t) {
    case DType::F64: return "F64";
    case DType::I64: return "I64";
    default: return "F32";
  }
}

std::string header_json(const TrainingProgram& p) {
  std::string s;
  JsonWriter w(s);
  w.begin_object(JsonLayout::Line).key("__metadata__").begin_object(JsonLayout::Line);
  w.key("format").string("rlxc checkpoint 1").end_object();
  uint64_t at = 0;
  for (const StateTensor& state : p.states) {
    const uint64_t bytes = state.initial.size_bytes();
    w.key(state.name.bytes()).begin_object(JsonLayout::Line).key("dtype").string(type_name(state.initial.dtype));
    w.key("shape").begin_array(JsonLayout::Line);
    for (int64_t n : state.initial.dims) w.integer(n);
    w.end_array().key("data_offsets").begin_array(JsonLayout::Line).unsigned_integer(at).unsigned_integer(at + bytes);
    w.end_array().end_object();
    at += bytes;
  }
  w.end_object().flush();
  return s;
}

}  // namespace

CheckpointLayout checkpoint_layout(const TrainingProgram& p) {
  constexpr size_t kLength = 8, kUnit = 64;
  std::string json = header_json(p);
  json.resize(align_up(kLength + json.size(), kUnit).value_or(0) - kLength, ' ');
  CheckpointLayout layout;
  for (size_t i = 0; i < kLength; ++i) layout.header += static_cast<char>(json.size() >> (8 * i) & 255);
  layout.header += json;
  layout.bytes = layout.header.size();
  for (const StateTensor& state : p.states) {
    layout.states.push_back({layout.bytes, state.initial.size_bytes()});
    layout.bytes += state.initial.size_bytes();
  }
  return layout;
}

std::string checkpoint_file(const std::string& package) { return package + ".safetensors"; }

bool write_checkpoint(const TrainingProgram& p, const std::function<bool(std::span<const std::byte>)>& write) {
  constexpr uint64_t kBlock = 1 << 20;
  const std::string header = checkpoint_layout(p).header;
  if (!write(std::as_bytes(std::span(header)))) return false;
  for (const StateTensor& state : p.states) {
    const TensorData& d = state.initial;
    if (d.bytes.empty() && d.size_bytes() > 0) return false;
    if (!d.splat) {
      if (!write(d.bytes)) return false;
      continue;
    }
    std::vector<std::byte> block;
    for (uint64_t left = d.size_bytes(); left > 0; left -= block.size()) {
      block.resize(std::min(left, kBlock));
      for (size_t i = 0; i < block.size(); ++i) block[i] = d.bytes[i % d.bytes.size()];
      if (!write(block)) return false;
    }
  }
  return true;
}

}  // namespace rlxc
