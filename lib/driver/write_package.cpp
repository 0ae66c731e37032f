#include "driver/write_package.h"

#include <filesystem>
#include <memory>

#include "driver/device_package.h"
#include "driver/graph_package.h"
#include "driver/weight_files.h"
#include "support/output_file.h"

namespace rlxc {
namespace {

using codegen::Package;
using Files = std::vector<PackageFile>;

Files with_weights(std::vector<TextFile> texts, std::shared_ptr<const Package> p) {
  Files files;
  for (TextFile& t : texts)
    files.push_back({t.name, [content = std::move(t.content)](OutputFile& f) { return f.write(content); }});
  if (locate_weights(*p, false).packed_bytes > 0)
    files.push_back({"weights.bin", [p](OutputFile& f) { return write_weights(*p, false, [&](std::span<const std::byte> b) { return f.write(b); }); }});
  return files;
}

std::optional<Files> kernel_package(const LirModule& lir, std::string_view target, Diagnostics& d) {
  auto p = codegen::make_package(lir, c_identifier(lir.module->name), *capability(target), d);
  if (!p) return std::nullopt;
  if (!is_device_target(target)) {
    auto texts = write_cpu_package(*p, CpuPackageOptions());
    return with_weights(std::move(texts), std::make_shared<Package>(std::move(*p)));
  }
  auto adapted = adapt_package(*p, target, d);
  if (!adapted) return std::nullopt;
  auto texts = write_device_package(*adapted, target);
  return with_weights(std::move(texts), std::make_shared<Package>(std::move(*adapted)));
}

std::optional<Files> graph_package(const LirModule& lir, std::string_view target, Diagnostics& d) {
  auto p = std::make_shared<Package>(graph_only_package(lir, d));
  auto texts = d.ok() ? (target == "mlx" ? write_mlx_package : write_tpu_package)(*p, false, d) : std::nullopt;
  if (!texts) return std::nullopt;
  return with_weights(std::move(*texts), std::move(p));
}

struct Row {
  std::string_view target;
  std::optional<Files> (*make)(const LirModule&, std::string_view, Diagnostics&);
};
constexpr Row kRows[] = {{"cpu", kernel_package}, {"metal", kernel_package}, {"wgpu", kernel_package}, {"cuda", kernel_package}, {"rocm", kernel_package},
                          {"mlx", graph_package},   {"tpu", graph_package}};

}  // namespace

std::optional<Files> package_files(const LirModule& lir, std::string_view target, Diagnostics& d) {
  for (const Row& r : kRows)
    if (r.target == target) return r.make(lir, target, d);
  d.error(Code::UnsupportedOnTarget, "no kernels are written for the target " + std::string(target));
  return std::nullopt;
}

bool write_package(const LirModule& lir, std::string_view target, const std::string& folder, Diagnostics& d) {
  const auto files = package_files(lir, target, d);
  if (!files) return false;
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) d.error(Code::NotWritable, "cannot make the folder \"" + folder + "\": " + error.message());
  for (const PackageFile& file : *files) {
    auto f = d.ok() ? OutputFile::create(folder + "/" + file.name, d) : std::nullopt;
    if (f && file.write(*f)) f->commit();
  }
  return d.ok();
}

}  // namespace rlxc
