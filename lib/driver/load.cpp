#include "driver/load.h"

#include <algorithm>
#include <filesystem>
#include <future>

#include "codegen/package.h"
#include "driver/check_options.h"
#include "driver/op_file.h"
#include "driver/training_stage.h"
#include "driver/transform_stage.h"
#include "import/gguf/import.h"
#include "import/json/import.h"
#include "import/onnx/import.h"
#include "import/onnx/printed.h"
#include "import/onnx/text_proto.h"
#include "import/stablehlo/import.h"
#include "ir/bind_dims.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/data_set.h"
#include "support/hash.h"
#include "support/inflate.h"
#include "support/mapped_file.h"
#include "support/progress.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr uint64_t kSniffed = 4096, kMaxText = uint64_t{1} << 30, kHashedWhole = 32 << 20, kHashedEnd = 1 << 20;
constexpr uint64_t kHashedBeside = 1 << 18;  // larger files are hashed by another thread while they are imported

std::string_view as_text(const MappedFile& f) { return {reinterpret_cast<const char*>(f.data()), static_cast<size_t>(f.size())}; }

// Whether a gradient is by all parameters: initializers are parameters then, however small.
bool differentiates_parameters(const std::vector<std::string>& words) {
  bool by_all = false;
  for (const std::string& w : words) {
    if (w == "wrt params" || (by_all && w.starts_with("grad "))) return true;
    if (w.starts_with("grad ")) by_all = true;
    else if (w.starts_with("wrt ") || w.starts_with("along ")) by_all = false;
  }
  return by_all;
}

// Checks that the inputs of --shape and --value are the model's. Only ONNX declares inputs without sizes, and computes sizes from
// contents.
void check_stated_inputs(const Module& m, const CompileOptions& o, bool onnx, Diagnostics& d) {
  for (const auto& [name, shape] : o.shapes) {
    if (!onnx) d.error(Code::BadBinding, "--shape is for ONNX models, whose inputs may lack sizes");
    else knows_input(m, name, "--shape", d);
  }
  for (const auto& [name, contents] : o.values) {
    if (!onnx) d.error(Code::BadBinding, "--value is for ONNX models, whose shapes may depend on the contents of inputs");
    else if (knows_input(m, name, "--value", d))
      for (NodeId n : m.main().inputs())
        if (const Type& t = m.main().type(m.main().result(n)); m.main().label(n).bytes() == name && t.ranked && t.rank() > 1)
          d.error(Code::BadFlag, "--value does not fit the input, which is " + text(t, m.dims),
                  "input " + ForeignText(name).quoted(),
                  "it takes the numbers of a scalar or a vector; --data takes whole tensors");
  }
}

// Applies --assume to a module read from text or JSON.
bool assume_equal_sizes(Module& m, const CompileOptions& o, Diagnostics& d) {
  for (const auto& [a, b] : o.assume) {
    DimTable sides;  // the module gets no new symbols
    for (const std::string& side : {a, b})
      if (const auto dim = sides.parse(side))
        for (const std::string& symbol : sides.symbols_of(*dim)) knows_symbol(m, symbol, "--assume", d);
    if (!d.ok()) return false;
    const auto x = m.dims.parse(a), y = m.dims.parse(b);
    if (!x || !y || !m.dims.assume_equal(*x, *y)) d.error(Code::BadBinding, "--assume " + a + "=" + b + " contradicts the model");
  }
  return d.ok();
}

// Binds the symbols of a module read from text or JSON. The ONNX importer binds during inference.
bool bind_symbols(Module& m, const DimBindings& bind, Diagnostics& d) {
  if (bind.empty()) return true;
  for (const auto& [symbol, size] : bind)
    if (knows_symbol(m, symbol, "--bind", d) && !m.dims.assume_equal(m.dims.symbol(symbol), Dim(size)))
      d.error(Code::BadBinding, "--bind " + symbol + "=" + std::to_string(size) + " contradicts the model");
  if (d.ok()) bind_dims(m, bind);
  return d.ok();
}

// Hashes files up to 32 MiB whole, and of larger ones the size and both ends, which avoids reading the weights.
std::string hash_of(std::span<const std::byte> file) {
  Sha256 h;
  if (file.size() <= kHashedWhole) {
    h.update(file);
  } else {
    const uint64_t size = file.size();
    h.update(std::as_bytes(std::span(&size, 1)));
    h.update(file.first(kHashedEnd));
    h.update(file.last(kHashedEnd));
  }
  return h.hex();
}

// Converts a gzip file, a zip file or a text form to the format that the importer reads. Returns null without an error if the
// file has that format already.
std::optional<MappedFile> unpacked_model(const MappedFile& file, Diagnostics& d) {
  const std::string where = quote(file.path());
  const auto damaged = [&] {
    d.error(Code::NotAModel, "it is damaged, or unpacks to much more than its size", where);
    return std::nullopt;
  };
  const size_t limit = most_unpacked(file.size());
  std::optional<std::string> bytes;
  if (is_gzip(file.bytes())) {
    bytes = gunzip(file.bytes(), limit);
    if (!bytes) return damaged();
  } else if (is_zip(file.bytes())) {
    auto entries = zip_entries(file.bytes());
    if (!entries) return damaged();
    std::erase_if(*entries, [](const ZipEntry& e) { return !e.name.ends_with(".onnx") || e.name.starts_with("__MACOSX/"); });
    if (entries->empty()) return std::nullopt;  // an archive of something else
    if (entries->size() != 1) {
      d.error(Code::NotAModel, "the archive holds " + std::to_string(entries->size()) + " files NAME.onnx", where,
              "unpack it, and name the model");
      return std::nullopt;
    }
    bytes = unzip(entries->front(), limit);
    if (!bytes) return damaged();
  } else if (as_text(file).substr(0, 8).ends_with("ORTM")) {
    d.error(Code::NotAModel, "it is a model in ONNX Runtime's own format (.ort)", where,
            "use the ONNX file that it was made from");
    return std::nullopt;
  }
  const std::string_view text = bytes ? std::string_view(*bytes) : as_text(file);
  const std::string_view head = trim(text.substr(0, kSniffed));
  if (onnx_import::looks_like_text_proto(head)) bytes = onnx_import::read_text_proto(text, d);
  else if (onnx_import::looks_printed(head)) bytes = onnx_import::read_printed(text, d);
  return bytes ? map_bytes(*bytes, file.path(), d) : std::nullopt;
}

// A format of other tools, by its first bytes or the name's ending.
struct ForeignFormat {
  std::string_view what, help;
};

ForeignFormat foreign_format(std::string_view head, std::string_view path) {
  constexpr char kOnnxStart = 8;  // the key of ModelProto.ir_version
  constexpr std::string_view kTorch = "torch.onnx.export(model, args, 'model.onnx', dynamo=True) writes ONNX";
  constexpr std::string_view kWeights =
      "it has weights and no graph: export the model with its framework, as "
      "torch.onnx.export(model, args, 'model.onnx', dynamo=True) does";
  struct Row {
    std::string_view bytes;  // at `at`; empty: any
    size_t at;
    std::string_view ending;  // of the name; empty: any
    ForeignFormat format;
  };
  static constexpr Row kRows[] = {
      {"version https://git-lfs", 0, "", {"a Git LFS pointer", "git lfs pull fetches the file itself"}},
      {"TFL3", 4, "", {"a TensorFlow Lite model", "python -m tf2onnx.convert --tflite model.tflite --output model.onnx"}},
      {"\x89HDF", 0, "", {"an HDF5 file (Keras)", "python -m tf2onnx.convert --keras model.h5 --output model.onnx"}},
      {"PK\3\4", 0, ".keras", {"a Keras archive", "python -m tf2onnx.convert --keras model.keras --output model.onnx"}},
      {"PK\3\4", 0, ".npz", {"a NumPy archive", "--data takes it; MODEL is an ONNX model"}},
      {"PK\3\4", 0, "", {"a zip archive, as PyTorch saves models and weights", kTorch}},
      {"\x80\2", 0, "", {"a Python pickle, as PyTorch saves models and weights", kTorch}},
      {"{\"__metadata__\"", 8, "", {"a safetensors file", kWeights}},
      {"", 0, ".safetensors", {"a safetensors file", kWeights}},
      {"\x93NUMPY", 0, "", {"a NumPy array", "--data takes a folder of these; MODEL is an ONNX model"}},
      {"<!DOCTYPE", 0, "", {"a web page", "download the file itself, not the page about it"}},
      {"<html", 0, "", {"a web page", "download the file itself, not the page about it"}},
      {"\x08", 0, ".mlmodel", {"a Core ML model", "export the model with its framework as ONNX"}},
      {"", 0, ".mlmodel", {"a Core ML model", "export the model with its framework as ONNX"}},
      {"", 0, ".mlpackage", {"a Core ML package", "export the model with its framework as ONNX"}},
      {"ML\xefR", 0, "", {"bytecode of MLIR", "write the module as text: print it, or str(exported.mlir_module()) of JAX"}},
      {"", 0, ".mlir", {"MLIR text of another form than StableHLO", "write StableHLO, as jax.jit(f).lower(...).as_text() does"}},
      {"", 0, ".pt", {"a PyTorch file", kTorch}},
      {"\x0a",
       0,
       ".pb",
       {"a graph of TensorFlow", "python -m tf2onnx.convert --graphdef graph.pb --inputs x:0 --outputs y:0 --output model.onnx"}},
      {"", 0, ".pth", {"a PyTorch file", kTorch}},
  };
  for (const Row& r : kRows) {
    const bool fits =
        r.bytes.empty() ? !head.starts_with(kOnnxStart) : head.size() >= r.at && head.substr(r.at).starts_with(r.bytes);
    if (fits && path.ends_with(r.ending)) return r.format;
  }
  return {};
}

// The stem of the file name. A name that exporters give every model is replaced by that of the folder: bert/model.onnx and
// bert/onnx/model_quantized.onnx are called bert.
std::string name_of_file(const std::string& path) {
  constexpr std::string_view kOfExporters[] = {"model", "model_quantized", "model_fp16", "model_optimized", "onnx"};
  std::error_code error;
  std::filesystem::path p = std::filesystem::absolute(path, error).lexically_normal();
  const std::string own = p.stem().string();
  std::string name = own;
  while (std::ranges::count(kOfExporters, std::string_view(name)) > 0) {
    if (error || !p.has_parent_path() || p.parent_path() == p) return own;
    p = p.parent_path();
    name = p.filename().string();
  }
  return name.empty() ? own : name;
}

// Sets the requested name, or the file's name if the graph's name is an exporter's default.
bool name_module(Module& m, const CompileOptions& o, Diagnostics& d) {
  constexpr std::string_view kOfExporters[] = {"", "main", "main_graph", "torch_jit", "torch-jit-export", "tf2onnx"};
  if (!o.package_name.empty()) m.name = ForeignText(o.package_name);
  else if (std::ranges::count(kOfExporters, std::string_view(m.name.bytes())) > 0)
    m.name = ForeignText(is_standard_input(o.input) ? "model" : name_of_file(o.input));
  if (o.package_name.empty() || codegen::package_name(m) == o.package_name) return true;
  d.error(Code::BadFlag, "--name takes an identifier of C that no file or function of every package has, got " + m.name.quoted(),
          {}, "for example --name " + codegen::package_name(m));
  return false;
}

std::optional<LoadedModel> load_strictly(const CompileOptions& o, Diagnostics& d) {
  CompileOptions lenient = o;
  lenient.strict = false;
  Diagnostics own(d.file());
  auto model = load_model(lenient, own);
  for (Diagnostic i : own.items()) {
    i.severity = Severity::Error;
    d.add(std::move(i));
  }
  return d.ok() ? std::move(model) : std::nullopt;
}

}  // namespace

std::optional<LoadedModel> load_model(const CompileOptions& o, Diagnostics& d) {
  if (o.strict) return load_strictly(o, d);
  note_stage("import");
  for (const auto& [symbol, size] : o.bind)
    if (size == 0) d.error(Code::BadBinding, "--bind " + ForeignText(symbol).line() + "=0: sizes of symbols are 1 or more");
  if (!d.ok()) return std::nullopt;
  if (const size_t colon = o.input.find("://"); colon != o.input.npos && colon > 0 && colon < 8) {
    d.error(Code::UnreadableFile, "rlxc reads files, and nothing from a network", {}, "download " + ForeignText(o.input).line());
    return std::nullopt;
  }
  auto file = open_model_file(o.input, d);
  if (!file) return std::nullopt;
  if (file->size() == 0) {
    d.error(Code::NotAModel, "the file is empty");
    return std::nullopt;
  }
  LoadedModel out;
  out.file_size = file->size();
  // Declared behind the file, which it reads until it is destroyed.
  std::future<std::string> hash =
      std::async(file->size() < kHashedBeside ? std::launch::deferred : std::launch::async | std::launch::deferred,
                 [bytes = file->bytes()] { return hash_of(bytes); });
  out.hash_sampled = file->size() > kHashedWhole;
  const std::string_view head = trim(as_text(*file).substr(0, kSniffed));
  if (stablehlo_import::looks_like_mlir(head)) {
    out.format = "stablehlo";
    if (file->size() > kMaxText) {
      d.error(Code::TooLarge, "StableHLO text beyond 1 GiB");
      return std::nullopt;
    }
    out.module = stablehlo_import::import_stablehlo(as_text(*file), {.max_nodes = o.max_nodes}, d);
  } else if (head.starts_with("module \"") || head.starts_with("//")) {
    out.format = "text";
    if (file->size() > kMaxText) {
      d.error(Code::TooLarge, "IR text beyond 1 GiB");
      return std::nullopt;
    }
    out.module = parse_text(as_text(*file), d, std::filesystem::path(o.input).parent_path().string());
  } else if (head.starts_with('{') || o.input.ends_with(".json")) {
    out.format = "json";
    import_json::ImportOptions options;
    options.max_nodes = o.max_nodes;
    options.places_only = o.plan_only;
    options.allow_missing_weights = !o.need_weights;
    out.module = import_json::import_json(o.input, options, d);
  } else if (as_text(*file).starts_with("GGUF")) {
    out.format = "gguf";
    hash.wait();
    out.gguf = gguf_import::File::read(std::make_shared<const MappedFile>(std::move(*file)), d);
    const gguf_import::ImportOptions options{o.kv_cache, dtype_from_name(o.kv_type).value_or(DType::F32), o.last_logits};
    if (out.gguf)
      out.module = gguf_import::import_gguf(*out.gguf, std::filesystem::path(o.input).filename().string(), options, d);
  } else {
    out.format = "onnx";
    onnx_import::ImportOptions options;
    options.bind = o.bind;
    options.assume = o.assume;
    options.shapes = o.shapes;
    options.values = o.values;
    options.max_nodes = o.max_nodes;
    options.max_expansion = o.max_nodes / 10;
    options.max_operations = o.max_operations;
    options.float_initializers = &out.float_initializers;
    options.trainable = o.train || o.parameters_only || differentiates_parameters(o.transforms);
    using onnx_import::MissingWeights;
    options.missing_weights = o.need_weights            ? MissingWeights::Refuse
                              : o.allow_missing_weights ? MissingWeights::Allow
                                                        : MissingWeights::AllowSome;
    const size_t errors = d.errors();
    auto unpacked = unpacked_model(*file, d);
    if (d.errors() != errors) return std::nullopt;
    if (const ForeignFormat foreign = foreign_format(head, o.input); !unpacked && !foreign.what.empty()) {
      d.error(Code::NotAModel, "it is " + std::string(foreign.what) + ", not an ONNX model", {}, std::string(foreign.help));
      return std::nullopt;
    }
    std::vector<OpDefinition> operations;
    if (!o.op_file.empty() && !read_operations(o.op_file, &operations, d)) return std::nullopt;
    options.operations = &operations;
    if (!o.input_data.empty()) options.contents = [&o](size_t i, TypeKind kind) { return input_contents(o.input_data, i, kind); };
    out.module = unpacked ? onnx_import::import_onnx(std::make_shared<const MappedFile>(std::move(*unpacked)), options, d)
                          : onnx_import::import_onnx(o.input, options, d);
  }
  if (!out.module) return std::nullopt;
  if (o.kv_cache > 0 && out.format != "gguf")
    d.error(Code::BadFlag, "--kv-cache is for GGUF models", {}, "--state names the inputs and outputs of a cache");
  if (o.kv_type != "f32" && out.format != "gguf") d.error(Code::BadFlag, "--kv-type is for GGUF models");
  if (o.last_logits && out.format != "gguf") d.error(Code::BadFlag, "--last-logits is for GGUF models");
  if (!d.ok()) return std::nullopt;
  out.content_hash = hash.get();
  check_stated_inputs(*out.module, o, out.format == "onnx", d);
  if (out.format == "onnx"
          ? !verify_sizes(*out.module, d)
          : !assume_equal_sizes(*out.module, o, d) || !bind_symbols(*out.module, o.bind, d) || !verify(*out.module, d))
    return std::nullopt;
  if (!transform_module(*out.module, o, &out.transforms, d) ||
      !training_module(*out.module, o, out.float_initializers, &out.training, &out.precision, d))
    return std::nullopt;
  const DimBindings sizes = determined_sizes(*out.module);
  if (!sizes.empty()) bind_dims(*out.module, sizes);
  for (const auto& [symbol, range] : o.ranges) {
    const auto size = sizes.find(symbol);
    if (size != sizes.end() && (size->second < range.low->size() || size->second > range.high->size()))
      d.error(Code::BadBinding, "--range of " + ForeignText(symbol).quoted() + " contradicts the model, which needs " +
                                    std::to_string(size->second));
    else if (o.bind.contains(symbol)) d.error(Code::BadBinding, "--bind and --range both give " + ForeignText(symbol).quoted());
    else knows_symbol(*out.module, symbol, "--range", d);
  }
  if (!d.ok()) return std::nullopt;
  out.module->dims.complete();
  if (!name_module(*out.module, o, d)) return std::nullopt;
  return out;
}

}  // namespace rlxc
