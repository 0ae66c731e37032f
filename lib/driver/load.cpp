#include "driver/load.h"

#include <algorithm>
#include <filesystem>

#include "codegen/package.h"
#include "driver/transform_stage.h"
#include "import/json/import.h"
#include "import/onnx/import.h"
#include "ir/bind_dims.h"
#include "ir/text.h"
#include "ir/verify.h"
#include "runtime/data_set.h"
#include "support/hash.h"
#include "support/mapped_file.h"
#include "support/progress.h"
#include "support/text.h"

namespace rlxc {
namespace {

constexpr uint64_t kSniffed = 4096, kMaxText = uint64_t{1} << 30, kHashedWhole = 32 << 20, kHashedEnd = 1 << 20;

std::string_view as_text(const MappedFile& f) { return {reinterpret_cast<const char*>(f.data()), static_cast<size_t>(f.size())}; }

// Checks that a symbol named by a flag is one of the model's.
bool knows_symbol(const Module& m, const std::string& symbol, const std::string& flag, Diagnostics& d) {
  if (m.dims.has_symbol(symbol)) return true;
  const std::vector<std::string_view> names(m.dims.symbol_names().begin(), m.dims.symbol_names().end());
  const auto close = closest(symbol, names);
  d.error(Code::BadBinding, flag + " names \"" + symbol + "\", which the model does not have", {},
          close ? "did you mean " + std::string(*close) + "?" : "");
  return false;
}

// Applies --assume to a module read from text or JSON.
bool assume_equal_sizes(Module& m, const CompileOptions& o, Diagnostics& d) {
  for (const auto& [a, b] : o.assume) {
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
std::string hash_of(const MappedFile& f) {
  Sha256 h;
  if (f.size() <= kHashedWhole) {
    h.update(f.bytes());
  } else {
    const uint64_t size = f.size();
    h.update(std::as_bytes(std::span(&size, 1)));
    h.update(f.bytes().first(kHashedEnd));
    h.update(f.bytes().last(kHashedEnd));
  }
  return h.hex();
}

// Sets the requested name, or the file's name if the graph's name is an exporter's default.
bool name_module(Module& m, const CompileOptions& o, Diagnostics& d) {
  constexpr std::string_view kOfExporters[] = {"", "main", "main_graph", "torch_jit", "torch-jit-export", "tf2onnx"};
  if (!o.package_name.empty()) m.name = ForeignText(o.package_name);
  else if (std::ranges::count(kOfExporters, std::string_view(m.name.bytes())) > 0)
    m.name = ForeignText(std::filesystem::path(o.input).stem().string());
  if (o.package_name.empty() || codegen::package_name(m) == o.package_name) return true;
  return d.error(Code::BadFlag,
                 "--name takes an identifier of C that no file or function of every package has, got " + m.name.quoted(), {},
                 "for example --name " + codegen::package_name(m)),
         false;
}

}  // namespace

std::optional<LoadedModel> load_model(const CompileOptions& o, Diagnostics& d) {
  note_stage("import");
  const auto file = open_model_file(o.input, d);
  if (!file) return std::nullopt;
  if (file->size() == 0) return d.error(Code::NotAModel, "the file is empty"), std::nullopt;
  LoadedModel out;
  out.file_size = file->size();
  out.content_hash = hash_of(*file);
  out.hash_sampled = file->size() > kHashedWhole;
  const std::string_view head = trim(as_text(*file).substr(0, kSniffed));
  if (head.starts_with("module \"") || head.starts_with("//")) {
    out.format = "text";
    if (file->size() > kMaxText) return d.error(Code::TooLarge, "IR text beyond 1 GiB"), std::nullopt;
    out.module = parse_text(as_text(*file), d);
  } else if (head.starts_with('{') || o.input.ends_with(".json")) {
    out.format = "json";
    import_json::ImportOptions options;
    options.max_nodes = o.max_nodes;
    options.places_only = o.plan_only;
    options.allow_missing_weights = o.allow_missing_weights && !o.need_weights;
    out.module = import_json::import_json(o.input, options, d);
  } else {
    out.format = "onnx";
    onnx_import::ImportOptions options;
    options.bind = o.bind;
    options.assume = o.assume;
    options.max_nodes = o.max_nodes;
    options.max_expansion = o.max_nodes / 10;
    options.max_operations = o.max_operations;
    using onnx_import::MissingWeights;
    options.missing_weights = o.need_weights            ? MissingWeights::Refuse
                              : o.allow_missing_weights ? MissingWeights::Allow
                                                        : MissingWeights::AllowSome;
    if (!o.input_data.empty()) options.contents = [&o](size_t i, TypeKind kind) { return input_contents(o.input_data, i, kind); };
    out.module = onnx_import::import_onnx(o.input, options, d);
  }
  if (!out.module) return std::nullopt;
  if (out.format == "onnx"
          ? !verify_sizes(*out.module, d)
          : !assume_equal_sizes(*out.module, o, d) || !bind_symbols(*out.module, o.bind, d) || !verify(*out.module, d))
    return std::nullopt;
  if (!transform_module(*out.module, o, &out.transforms, d)) return std::nullopt;
  if (const DimBindings sizes = determined_sizes(*out.module); !sizes.empty()) bind_dims(*out.module, sizes);
  for (const auto& [symbol, range] : o.ranges) knows_symbol(*out.module, symbol, "--range", d);
  if (!d.ok()) return std::nullopt;
  out.module->dims.complete();
  if (!name_module(*out.module, o, d)) return std::nullopt;
  return out;
}

}  // namespace rlxc
