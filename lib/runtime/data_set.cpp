#include "runtime/data_set.h"

#include <algorithm>
#include <filesystem>

#include "eval/text_bytes.h"
#include "eval/value.h"
#include "import/onnx/tensor_file.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

// Old files store bfloat16 as uint16. An empty map takes its types from `type`. Returns nullopt if a map has a key without
// exactly one value.
std::optional<eval::HostValue> to_host(onnx_import::FileValue v, const Type& type) {
  if (v.kind == TypeKind::Map && v.items[0].tensor.elements() == 0) return eval::empty_map(type);
  if (v.kind == TypeKind::Map) return eval::map_of(v.items[0].tensor, v.items[1].tensor);
  eval::HostValue out;
  out.kind = v.kind;
  if (v.tensor.dtype == DType::U16 && type.dtype == DType::BF16) v.tensor.dtype = DType::BF16;
  out.tensor = std::move(v.tensor);
  for (onnx_import::FileValue& item : v.items) {
    auto host = to_host(std::move(item), type);
    if (!host) return std::nullopt;
    out.items.push_back(std::move(*host));
  }
  return out;
}

bool read_value(const fs::path& file, const Type& type, std::vector<eval::HostValue>* out, Diagnostics& d) {
  auto value = onnx_import::read_value_file(file.string(), type.kind, d);
  if (!value) return false;
  auto host = to_host(std::move(*value), type);
  if (!host) return d.error(Code::BadTensor, "a map needs one value for each key", "\"" + file.string() + "\""), false;
  out->push_back(std::move(*host));
  return true;
}

bool read_one(const Graph& g, const fs::path& folder, DataSet* out, Diagnostics& d) {
  std::error_code error;
  out->name = folder.filename().string();
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const fs::path file = folder / ("input_" + std::to_string(i) + ".pb");
    if (!read_value(file, g.type(g.result(g.inputs()[i])), &out->inputs, d)) return false;
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const fs::path file = folder / ("output_" + std::to_string(i) + ".pb");
    if (!fs::exists(file, error)) break;
    if (!read_value(file, g.type(g.outputs()[i]), &out->expected, d)) return false;
  }
  return true;
}

std::vector<fs::path> set_folders(const std::string& folder) {
  std::error_code error;
  std::vector<fs::path> folders;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.is_directory(error) && entry.path().filename().string().starts_with("test_data_set_"))
      folders.push_back(entry.path());
  std::sort(folders.begin(), folders.end());
  if (folders.empty()) folders.push_back(folder);
  return folders;
}

}  // namespace

std::optional<TensorData> input_contents(const std::string& folder, size_t i, TypeKind kind) {
  const auto folders = set_folders(folder);
  if (folders.size() != 1) return std::nullopt;
  Diagnostics quiet;  // an unreadable file is reported when it is read as an input
  auto value = onnx_import::read_value_file((folders[0] / ("input_" + std::to_string(i) + ".pb")).string(), kind, quiet);
  return value ? std::optional(std::move(value->tensor)) : std::nullopt;
}

std::optional<std::vector<DataSet>> read_data_sets(const Module& m, const std::string& folder, Diagnostics& d) {
  std::error_code error;
  if (!fs::is_directory(folder, error)) {
    d.error(Code::UnreadableFile, "\"" + folder + "\" is not a folder", {},
            "--data takes a folder with input_0.pb, output_0.pb, ...");
    return std::nullopt;
  }
  std::vector<DataSet> sets;
  for (const fs::path& f : set_folders(folder))
    if (!read_one(m.main(), f, &sets.emplace_back(), d)) return std::nullopt;
  return sets;
}

bool strings_to_bytes(DataSet& set, Diagnostics& d) {
  for (eval::HostValue& v : set.inputs) {
    if (v.kind != TypeKind::Tensor || v.tensor.dtype != DType::String) continue;
    auto bytes = eval::bytes_of_text(v);
    if (!bytes) {
      d.error(Code::UnsupportedOnTarget, "an input string ends with a zero byte, which the bytes of kernels cannot show",
              set.name, "run it with --engine=reference");
      return false;
    }
    v = std::move(*bytes);
  }
  return true;
}

}  // namespace rlxc
