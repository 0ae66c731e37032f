#include "driver/kernel_folder.h"

#include "driver/cpu_package.h"

namespace rlxc {
namespace {

void write_cpu(const LirModule& lir, const MakeFile& make_file, Diagnostics& d) {
  const auto package = codegen::make_package(lir, c_identifier(lir.module->name), codegen::CapabilityRow{}, d);
  if (!package) return;
  const CpuPackageOptions options;
  for (const TextFile& f : write_cpu_package(*package, options))
    make_file(f.name, [&](OutputFile& out) { out.write(f.content); });
  make_file(weights_file(*package), [&](OutputFile& out) {
    write_weights(*package, options, [&](std::span<const std::byte> bytes) { return out.write(bytes); });
  });
}

struct Row {
  std::string_view target;
  void (*write)(const LirModule&, const MakeFile&, Diagnostics&);
};
constexpr Row kRows[] = {{"cpu", write_cpu}};

const Row* find(const std::string& target) {
  for (const Row& row : kRows)
    if (row.target == target) return &row;
  return nullptr;
}

}  // namespace

bool has_kernel_folder(const std::string& target) { return find(target); }

void write_kernel_folder(const LirModule& lir, const std::string& target, const MakeFile& make_file, Diagnostics& d) {
  if (const Row* row = find(target)) row->write(lir, make_file, d);
}

}  // namespace rlxc
