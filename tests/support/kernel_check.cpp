#include "support/kernel_check.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <map>
#include <optional>

#include "backend/c/render.h"
#include "backend/gpu/gpu_backend.h"
#include "kernel/fold.h"
#include "kernel/interpret.h"
#include "kernel/simplify.h"
#include "kernel/value.h"
#include "kernel/verify.h"
#include "runtime/process.h"
#include "support/native.h"
#include "support/source_dir.h"

namespace rlxc::target {
namespace {

using namespace kernel;

// Guard bytes around each buffer detect out-of-bounds stores in native code.
constexpr size_t kGuard = 256;
constexpr unsigned char kGuardByte = 0xA5;

struct Arena {
  std::vector<std::vector<unsigned char>> bytes;
  std::vector<void*> pointers;

  explicit Arena(const std::vector<CheckBuffer>& buffers) : bytes(buffers.size()) {
    for (size_t i = 0; i < buffers.size(); ++i) {
      const CheckBuffer& b = buffers[i];
      size_t size = b.values.size() * static_cast<size_t>(rlxc::bits(b.dtype) / 8);
      bytes[i].assign(size + 2 * kGuard, kGuardByte);
      unsigned char* data = bytes[i].data() + kGuard;
      for (size_t j = 0; j < b.values.size() && !b.output; ++j)
        write_element(b.dtype, data, static_cast<int64_t>(j),
                      is_float(b.dtype) ? from_float(b.values[j]) : from_int(static_cast<int64_t>(b.values[j])));
      pointers.push_back(data);
    }
  }
};

std::string compare(const KernelCase& c, const Arena& arena, bool wgsl = false) {
  for (size_t i = 0; i < c.buffers.size(); ++i) {
    const CheckBuffer& b = c.buffers[i];
    const std::vector<unsigned char>& bytes = arena.bytes[i];
    for (size_t g = 0; g < kGuard; ++g)
      if (bytes[g] != kGuardByte || bytes[bytes.size() - 1 - g] != kGuardByte)
        return "a store out of bounds of argument " + std::to_string(i);
    if (!b.output) continue;
    const size_t checked = b.values.size() - (wgsl ? c.special : 0);
    for (size_t j = 0; j < checked; ++j) {
      Value v = read_element(b.dtype, arena.pointers[i], static_cast<int64_t>(j));
      double want = b.values[j], got = is_float(b.dtype) ? v.f : static_cast<double>(v.i);
      if (is_float(b.dtype)) want = round_to(b.dtype, want);
      double ulp = b.dtype == DType::BF16 ? 0x1p-7 : b.dtype == DType::F16 ? 0x1p-10 : 0;
      double rtol = wgsl ? std::max(c.rtol, 1e-4) : c.rtol, atol = wgsl ? std::max(c.atol, 1e-5) : c.atol;
      double slack = is_float(b.dtype) ? atol + (rtol + ulp) * std::fabs(want) : 0;
      bool same = got == want || (std::isnan(got) && std::isnan(want)) || std::fabs(got - want) <= slack;
      if (!same)
        return "argument " + std::to_string(i) + " at " + std::to_string(j) + ": " + std::to_string(got) + ", expected " +
               std::to_string(want);
    }
  }
  return "";
}

struct TestMapping {
  std::string name;
  Mapping mapping;
  std::optional<Dialect> only;  // set for kernels that use units of this dialect's target
  bool wgsl = false;
};

std::vector<TestMapping> test_mappings() {
  Mapping scalar, vectors, lanes, warps;
  scalar.vector_bytes = 1;
  lanes.workgroups = warps.workgroups = true;
  lanes.load_bytes = warps.load_bytes = 16;
  lanes.max_vector_lanes = warps.max_vector_lanes = 4;
  lanes.workgroup_size = 64, lanes.max_workgroup_size = 256, lanes.shared_bytes = 16 << 10, lanes.max_grid = {7, 7, 7};
  warps.workgroup_size = 128, warps.warp = 32;
  std::vector<TestMapping> all = {
      {"scalar", scalar, {}}, {"vectors", vectors, {}}, {"lanes", lanes, {}, true}, {"warps", warps, {}}};
  for (const auto& [backend, dialect] :
       {std::pair{&cuda_backend(), Dialect::Cuda}, {&rocm_backend(), Dialect::Hip}, {&metal_backend(), Dialect::Metal}})
    all.push_back({std::string(backend->info.name), backend->info.mapping, dialect});
  all.push_back({"wgpu", wgpu_backend().info.mapping, Dialect::Cuda, true});
  return all;
}

struct Built {
  const KernelCase* origin;
  std::string where;
  Kernel kernel;
};

std::array<int64_t, 3> extents(const Kernel& k, const std::array<ExprId, 3>& of, const std::vector<int64_t>& symbols) {
  std::array<int64_t, 3> n = {1, 1, 1};
  for (int a = 0; a < 3; ++a)
    if (of[a].valid()) n[a] = evaluate(k, of[a], symbols);
  return n;
}

bool uses_units(const Kernel& k) {
  return !k.units.empty() ||
         std::ranges::any_of(k.exprs, [](const ExprNode& e) { return e.op == ExprOp::Dot || e.op == ExprOp::WarpReduce; });
}

bool uses_f64(const Kernel& k) {
  for (const ExprNode& e : k.exprs)
    if (e.type.dtype == DType::F64) return true;
  return false;
}

void run_native(const std::vector<Built>& built, const NativeOptions& options, std::vector<std::string>* problems) {
  std::vector<const Kernel*> kernels;
  for (const Built& b : built) kernels.push_back(&b.kernel);
  std::string error;
  auto module = NativeModule::build(kernels, options, &error);
  if (!module) return problems->push_back(error);
  for (size_t i = 0; i < built.size(); ++i) {
    const KernelCase& c = *built[i].origin;
    Arena arena(c.buffers);
    Launch launch = launch_of(built[i].kernel);
    module->call(i, arena.pointers, c.symbols, extents(built[i].kernel, launch.grid, c.symbols),
                 extents(built[i].kernel, launch.threads, c.symbols));
    std::string wrong = compare(c, arena);
    constexpr const char* kDialects[] = {"C", "CUDA", "HIP", "MSL"};
    if (!wrong.empty())
      problems->push_back(built[i].where + ", as " + kDialects[static_cast<int>(options.dialect)] + ": " + wrong);
  }
}

bool fits_wgsl(const Built& b) {
  for (const CheckBuffer& c : b.origin->buffers)
    if (c.dtype == DType::F64) return false;
  return true;
}

// Runs on Dawn if RLXC_WEBGPU names a folder with the npm package `webgpu`.
void run_wgsl(std::vector<Built> built, std::vector<std::string>* problems) {
  if (built.empty() || !std::getenv("RLXC_WEBGPU")) return;
  const auto& wgpu = static_cast<const GpuBackend&>(wgpu_backend());
  WorkFolder folder;
  std::string data, jobs;
  std::vector<std::vector<size_t>> offsets(built.size());
  for (size_t i = 0; i < built.size(); ++i) {
    Built& b = built[i];
    wgpu.packaging.prepare(b.kernel, {});
    std::string refused = wgpu.packaging.refuses(b.kernel), module = "k" + std::to_string(i) + ".wgsl";
    if (!refused.empty()) problems->push_back(b.where + ", as WGSL: " + refused);
    folder.write(module, render(b.kernel, wgpu.info.language()));
    Launch launch = launch_of(b.kernel);
    jobs += module + " " + b.kernel.name;
    for (int64_t n : extents(b.kernel, launch.grid, b.origin->symbols)) jobs += " " + std::to_string(n);
    Arena arena(b.origin->buffers);
    const size_t begin = data.size();
    for (size_t j = 0; j < arena.pointers.size(); ++j) {
      size_t bytes = arena.bytes[j].size() - 2 * kGuard;
      offsets[i].push_back(data.size());
      jobs += " " + std::to_string((data.size() - begin) * 8 / static_cast<size_t>(rlxc::bits(b.origin->buffers[j].dtype)));
      data.append(static_cast<const char*>(arena.pointers[j]), bytes);
      data.resize((data.size() + 15) / 16 * 16);
    }
    for (int64_t n : b.origin->symbols) jobs += " " + std::to_string(n);
    jobs += " ; " + std::to_string(begin) + " " + std::to_string(data.size() - begin) + "\n";
  }
  folder.write("jobs", jobs);
  folder.write("data", data);
  std::string output;
  bool ran = run_command({"node", test::source_dir() + "/scripts/run-wgsl.mjs", folder.path()}, folder.path() + "/log", &output);
  if (!ran || !output.empty()) problems->push_back("WGSL: " + output.substr(0, 4000));
  data = folder.read("data");
  for (size_t i = 0; i < built.size(); ++i) {
    Arena arena(built[i].origin->buffers);
    for (size_t j = 0; j < arena.pointers.size(); ++j)
      std::memcpy(arena.pointers[j], data.data() + offsets[i][j], arena.bytes[j].size() - 2 * kGuard);
    std::string wrong = compare(*built[i].origin, arena, true);
    if (!wrong.empty()) problems->push_back(built[i].where + ", as WGSL: " + wrong);
  }
}

}  // namespace

std::vector<std::string> check_kernels(const std::vector<KernelCase>& cases) {
  std::vector<std::string> problems;
  std::vector<Built> threads, wgsl;
  std::map<Dialect, std::vector<Built>> grids;
  int number = 0;
  for (const KernelCase& c : cases)
    for (const auto& [mapping_name, mapping, only, as_wgsl] : test_mappings()) {
      if (c.fits && !c.fits(mapping)) continue;
      std::string where = c.name + " (" + mapping_name + ")";
      const VerifyLimits limits{mapping.most_shared_bytes(), mapping.max_workgroup_size};
      kernel::Builder b("k" + std::to_string(number++) + "_" + mapping_name);
      c.build(b, mapping);
      Kernel k = b.finish();
      if (only && !uses_units(k)) continue;
      for (const char* stage : {"as built", "simplified", "narrowed"}) {
        if (stage[0] == 'n' && !mapping.workgroups) continue;
        for (const std::string& wrong : verify(k, limits)) problems.push_back(where + ", " + stage + ": " + wrong);
        Arena arena(c.buffers);
        InterpretResult run = interpret(k, arena.pointers, c.symbols);
        std::string wrong = run.ok() ? compare(c, arena) : run.findings[0];
        if (!wrong.empty()) problems.push_back(where + ", interpreted " + stage + ": " + wrong);
        if (stage[0] == 'a') simplify(k);
        if (stage[0] == 's' && as_wgsl) wgsl.push_back({&c, where, k});
        if (!wgsl.empty() && !fits_wgsl(wgsl.back())) wgsl.pop_back();
        if (stage[0] == 's' && mapping.workgroups) narrow_indices(k);
      }
      if (!mapping.workgroups) {
        threads.push_back({&c, where, std::move(k)});
        continue;
      }
      for (Dialect d : {Dialect::Cuda, Dialect::Hip, Dialect::Metal})
        if (d == only.value_or(d) && !(d == Dialect::Metal && uses_f64(k))) grids[d].push_back({&c, where, k});
    }
  run_native(threads, {}, &problems);
  run_native(threads, {Dialect::C, "clang", {"-O1", "-Wall", "-Wextra"}}, &problems);
  for (const auto& [dialect, built] : grids)
    run_native(built, {dialect, dialect == Dialect::Metal ? "clang++" : "g++", {"-O1", "-w"}}, &problems);
  run_wgsl(std::move(wgsl), &problems);
  return problems;
}

std::vector<double> random_values(size_t n, DType t, double low, double high, uint64_t seed) {
  std::vector<double> v(n);
  uint64_t x = seed * 0x9E3779B97F4A7C15ull + 1;
  for (double& d : v) {
    x ^= x << 13, x ^= x >> 7, x ^= x << 17;
    double u = static_cast<double>(x >> 11) * 0x1p-53;
    d = is_float(t) ? round_to(t, low + u * (high - low)) : std::floor(low + u * (high - low + 1));
  }
  return v;
}

}  // namespace rlxc::target
