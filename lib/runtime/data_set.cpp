#include "runtime/data_set.h"

#include <algorithm>
#include <filesystem>

#include "eval/text_bytes.h"
#include "eval/value.h"
#include "import/onnx/tensor_file.h"
#include "runtime/npy.h"
#include "support/text.h"

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

// Where the value of an input or output is: a file, or an array of an archive.
struct ValueSource {
  std::string where;
  fs::path file;
  const TensorData* array = nullptr;
};

// The names that may stand for a value, in the order in which they are tried.
std::vector<std::string> names_of(std::string_view role, size_t i, const std::string& name) {
  std::vector<std::string> names{std::string(role) + "_" + std::to_string(i)};
  if (!name.empty() && name.find('/') == name.npos && name.find('\0') == name.npos && name.front() != '.') names.push_back(name);
  return names;
}

std::optional<ValueSource> find_file(const fs::path& folder, const std::vector<std::string>& names) {
  std::error_code error;
  for (const std::string& name : names)
    for (const char* extension : {".pb", ".npy"})
      if (const fs::path file = folder / (name + extension); fs::exists(file, error))
        return ValueSource{quote(file.string()), file, nullptr};
  return std::nullopt;
}

std::optional<ValueSource> find_array(const NamedArrays& arrays, const std::string& archive,
                                      const std::vector<std::string>& names) {
  for (const std::string& name : names)
    for (const auto& [array_name, data] : arrays)
      if (array_name == name) return ValueSource{quote(archive) + ", array " + quote(name), {}, &data};
  return std::nullopt;
}

// Does a tensor have the type that the model declares, as far as it is known?
bool fits(const TensorData& t, const Type& type) {
  if (type.kind != TypeKind::Tensor || !type.ranked) return true;
  bool same = t.dtype == type.dtype && t.dims.size() == type.dims.size();
  for (size_t i = 0; same && i < t.dims.size(); ++i) same = !type.dims[i].is_static() || type.dims[i] == t.dims[i];
  return same;
}

// An empty `reader` stands for a value that nothing reads, or that is compared: it may have another type.
bool read_value(const ValueSource& source, const Module& m, const Type& type, const std::string& reader,
                std::vector<eval::HostValue>* out, Diagnostics& d) {
  std::optional<eval::HostValue> host;
  if (source.array || source.file.extension() == ".npy") {
    std::optional<TensorData> t;
    if (source.array) t = *source.array;
    else t = read_npy(source.file.string(), d);
    if (!t) return false;
    host = to_host({TypeKind::Tensor, std::move(*t), {}}, type);
  } else {
    auto value = onnx_import::read_value_file(source.file.string(), type.kind, d);
    if (!value) return false;
    host = to_host(std::move(*value), type);
    if (!host) {
      d.error(Code::BadTensor, "a map needs one value for each key", source.where);
      return false;
    }
  }
  if (!reader.empty() && host->kind == TypeKind::Tensor && !fits(host->tensor, type)) {
    const TensorData& t = host->tensor;
    const std::vector<Dim> dims(t.dims.begin(), t.dims.end());
    d.error(t.dtype == type.dtype ? Code::BadShape : Code::BadType,
            source.where + " holds " + text(tensor_type(t.dtype, dims), m.dims) + ", " + reader + " takes " + text(type, m.dims));
    return false;
  }
  out->push_back(std::move(*host));
  return true;
}

// `find` returns the source of a value with one of these names.
template <class Find>
bool read_one(const Module& m, const std::string& where, Find find, DataSet* out, Diagnostics& d) {
  const Graph& g = m.main();
  for (size_t i = 0; i < g.inputs().size(); ++i) {
    const ValueId v = g.result(g.inputs()[i]);
    const std::string name(m.bytes(g.value_name(v)));
    const auto source = find(names_of("input", i, name));
    if (!source) {
      d.error(Code::UnreadableFile, "there is no data for input " + quote(name), quote(where),
              "input_" + std::to_string(i) + ".pb, input_" + std::to_string(i) + ".npy or an array of its name");
      return false;
    }
    if (!read_value(*source, m, g.type(v), g.use_count(v) > 0 ? "input " + quote(name) : "", &out->inputs, d)) return false;
  }
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    const std::string name(m.bytes(g.output_name(i)));
    const auto source = find(names_of("output", i, name));
    if (!source) {
      out->missing.push_back(i);
      out->expected.emplace_back();
    } else if (!read_value(*source, m, g.type(g.outputs()[i]), "", &out->expected, d)) {
      return false;
    }
  }
  if (out->missing.size() == g.outputs().size()) {
    out->missing.clear();
    out->expected.clear();
  }
  return true;
}

bool is_value_file(const fs::path& file) { return file.extension() == ".npy" || file.extension() == ".pb"; }

// Files of a folder that are a data set each: archives, or values of the only input. None where a file has the name of an input
// or output.
std::vector<fs::path> set_files(const Module& m, const fs::path& folder) {
  const Graph& g = m.main();
  for (size_t i = 0; i < g.inputs().size(); ++i)
    if (find_file(folder, names_of("input", i, std::string(m.bytes(g.value_name(g.result(g.inputs()[i]))))))) return {};
  for (size_t i = 0; i < g.outputs().size(); ++i)
    if (find_file(folder, names_of("output", i, std::string(m.bytes(g.output_name(i)))))) return {};
  std::error_code error;
  std::vector<fs::path> files;
  for (const auto& entry : fs::directory_iterator(folder, error))
    if (entry.path().extension() == ".npz" || (g.inputs().size() == 1 && is_value_file(entry.path())))
      files.push_back(entry.path());
  std::sort(files.begin(), files.end());
  return files;
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

std::optional<TensorData> input_contents(const std::string& path, size_t i, TypeKind kind) {
  const std::vector<std::string> names{"input_" + std::to_string(i)};
  Diagnostics quiet;  // an unreadable file is reported when it is read as an input
  if (path.ends_with(".npz")) {
    const auto arrays = read_npz(path, quiet);
    const auto source = arrays ? find_array(*arrays, path, names) : std::nullopt;
    return source ? std::optional(*source->array) : std::nullopt;
  }
  const auto folders = set_folders(path);
  const auto source = folders.size() == 1 ? find_file(folders[0], names) : std::nullopt;
  if (!source) return std::nullopt;
  if (source->file.extension() == ".npy") return read_npy(source->file.string(), quiet);
  auto value = onnx_import::read_value_file(source->file.string(), kind, quiet);
  return value ? std::optional(std::move(value->tensor)) : std::nullopt;
}

namespace {

// Reads an archive, or a file of the only input.
bool read_set_file(const Module& m, const std::string& path, DataSet* out, Diagnostics& d) {
  out->name = fs::path(path).filename().string();
  if (path.ends_with(".npz")) {
    const auto arrays = read_npz(path, d);
    return arrays && read_one(
                         m, path, [&](const auto& names) { return find_array(*arrays, path, names); }, out, d);
  }
  if (const size_t inputs = m.main().inputs().size(); inputs != 1) {
    d.error(Code::UnreadableFile, quote(path) + " holds one value, and the model has " + std::to_string(inputs) + " inputs", {},
            "a folder with a file of each input, or a file NAME.npz with an array of each");
    return false;
  }
  const auto find = [&](const auto& names) {
    return names[0].starts_with("input_") ? std::optional(ValueSource{quote(path), path, nullptr}) : std::nullopt;
  };
  return read_one(m, path, find, out, d);
}

// Returns the slices of an array along its first axis, if they have elements and fit the type. The type has 1 as its first axis
// or lacks it. Returns none otherwise.
std::vector<TensorData> stacked_samples(const TensorData& all, const Type& type) {
  if (type.kind != TypeKind::Tensor || !type.ranked || all.dims.empty() || all.dtype == DType::String || fits(all, type))
    return {};
  TensorData sample = all;
  if (all.dims.size() > type.dims.size()) sample.dims.erase(sample.dims.begin());
  else if (type.dims[0] == Dim(1)) sample.dims[0] = 1;
  if (!fits(sample, type) || sample.size_bytes() == 0) return {};
  std::vector<TensorData> samples(static_cast<size_t>(all.dims[0]), sample);
  const size_t size = sample.size_bytes();
  for (size_t i = 0; i < samples.size(); ++i) samples[i].bytes = all.bytes.subspan(i * size, size);
  return samples;
}

// Reads a file of one data set or, if `stacked`, of as many as an array has samples.
bool read_file_sets(const Module& m, const std::string& path, bool stacked, std::vector<DataSet>* sets, Diagnostics& d) {
  const Graph& g = m.main();
  if (stacked && path.ends_with(".npy") && g.inputs().size() == 1) {
    const Type& type = g.type(g.result(g.inputs()[0]));
    auto array = read_npy(path, d);
    if (!array) return false;
    const auto all = to_host({TypeKind::Tensor, std::move(*array), {}}, type);
    auto samples = stacked_samples(all->tensor, type);
    for (size_t i = 0; i < samples.size(); ++i) {
      sets->push_back({fs::path(path).filename().string() + "[" + std::to_string(i) + "]", {}, {}});
      sets->back().inputs.emplace_back().tensor = std::move(samples[i]);
    }
    if (!samples.empty()) return true;
  }
  return read_set_file(m, path, &sets->emplace_back(), d);
}

}  // namespace

std::optional<std::vector<DataSet>> read_data_sets(const Module& m, const std::string& path, Diagnostics& d, bool stacked) {
  std::error_code error;
  std::vector<DataSet> sets;
  if (!fs::is_directory(path, error)) {
    if (fs::exists(path, error) && (path.ends_with(".npz") || is_value_file(path)))
      return read_file_sets(m, path, stacked, &sets, d) ? std::optional(std::move(sets)) : std::nullopt;
    d.error(Code::UnreadableFile, quote(path) + (fs::exists(path, error) ? " holds no data that is known" : " does not exist"),
            {}, "--data takes a folder with input_0.pb (.npy), output_0.pb, ..., a file NAME.npz, or a file of the only input");
    return std::nullopt;
  }
  if (const auto folders = set_folders(path); folders.size() == 1 && folders[0] == path) {
    for (const fs::path& file : set_files(m, path))
      if (!read_file_sets(m, file.string(), stacked, &sets, d)) return std::nullopt;
    if (!sets.empty()) return sets;
  }
  for (const fs::path& folder : set_folders(path)) {
    sets.emplace_back().name = folder.filename().string();
    if (!read_one(
            m, folder.string(), [&](const auto& names) { return find_file(folder, names); }, &sets.back(), d))
      return std::nullopt;
  }
  return sets;
}

bool strings_to_bytes(DataSet& set, const std::vector<bool>& which, Diagnostics& d) {
  for (size_t i = 0; i < set.inputs.size(); ++i) {
    if (i >= which.size() || !which[i]) continue;
    eval::HostValue& v = set.inputs[i];
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
