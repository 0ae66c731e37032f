// While a package is loaded, the device holds what stays there and the weights of one step.
#include <doctest/doctest.h>

#include <fstream>

#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/emulate_package.h"
#include "runtime/process.h"
#include "support/temp_dir.h"

using namespace rlxc;

TEST_CASE("weights that only load steps read leave the device after them") {
  constexpr int64_t kWidth = 192, kLayers = 6, kWeight = kWidth * kWidth * 4;
  LoadedModel model;
  model.module = std::make_unique<Module>();
  Builder b(model.module->main());
  ValueId x = b.input("x", tensor_type(DType::F32, {16, kWidth}));
  const std::vector<float> values(static_cast<size_t>(kWidth * kWidth), 0.01F);
  for (int64_t i = 0; i < kLayers; ++i) {
    const DataId data = model.module->data.add(make_data(DType::F32, {kWidth, kWidth}, values));
    const ValueId weight = b.param("w" + std::to_string(i), tensor_type(DType::F32, {kWidth, kWidth}), data);
    x = b.unary(OpKind::Tanh, b.matmul(x, weight));
  }
  model.module->main().add_output(x, {});
  Diagnostics d;
  CompileOptions mixed;
  mixed.precision_name = "automixed";
  const auto compiled = compile(std::move(model), "cuda", mixed, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const test::TempDir folder;
  EmulationOptions options;
  options.folder = folder.path();
  REQUIRE_MESSAGE(make_emulated_runner(compiled->lir, "cuda", d, options) != nullptr, d.text());
  const std::vector<char> input(16 * kWidth * 4);
  std::ofstream(folder / "x", std::ios::binary).write(input.data(), static_cast<std::streamsize>(input.size()));
  std::string log;
  const std::string run = "cd \"$0\" && RLXC_DEVICE_MEMORY=1 ./run . x";
  REQUIRE_MESSAGE(target::run_command({"sh", "-c", run, folder.path()}, folder / "log", &log), log);
  const auto at = log.find("device memory: ");
  REQUIRE_MESSAGE(at != std::string::npos, log);
  const int64_t most = std::stoll(log.substr(at + 15));
  CHECK(most > kLayers * kWeight / 2);                                      // all of them in f16
  CHECK(most < kLayers * kWeight / 2 + 2 * kWeight + 4 * 16 * kWidth * 4);  // one in f32, what is made of it, activations
}
