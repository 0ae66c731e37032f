// The C++ API of device packages: programs that share a device, memory of the application on the device, and recordings.
#include <doctest/doctest.h>

#include <fstream>

#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/emulate_package.h"
#include "runtime/process.h"
#include "support/source_dir.h"
#include "support/temp_dir.h"

using namespace rlxc;

TEST_CASE("programs share a device and run on memory of the application") {
  constexpr int64_t kWidth = 32;
  LoadedModel model;
  model.module = std::make_unique<Module>();
  Builder b(model.module->main());
  const Dim rows = model.module->dims.symbol("rows");
  const ValueId x = b.input("x", tensor_type(DType::F32, {rows, Dim(kWidth)}));
  std::vector<float> values(static_cast<size_t>(kWidth * kWidth));
  for (size_t i = 0; i < values.size(); ++i) values[i] = 0.02F * static_cast<float>(i % 13) - 0.1F;
  const DataId data = model.module->data.add(make_data(DType::F32, {kWidth, kWidth}, values));
  const ValueId weight = b.param("w", tensor_type(DType::F32, {kWidth, kWidth}), data);
  model.module->main().add_output(b.unary(OpKind::Tanh, b.matmul(x, weight)), {});
  Diagnostics d;
  const auto compiled = compile(std::move(model), "cuda", {}, {}, d);
  REQUIRE_MESSAGE(compiled.has_value(), d.text());
  const test::TempDir folder;
  EmulationOptions options;
  options.folder = folder.path();
  REQUIRE_MESSAGE(make_emulated_runner(compiled->lir, "cuda", d, options) != nullptr, d.text());
  // The call that the README shows.
  std::ifstream readme(folder / "README.md");
  std::ofstream example(folder / "example.cpp");
  bool inside = false;
  for (std::string line; std::getline(readme, line);) {
    if (line.starts_with("```")) inside = line == "```cpp";
    else if (inside && line.starts_with("#")) example << line << "\nint main() {\n";
    else if (inside) example << line << "\n";
  }
  example << "return program.output_shape(0).size() == 2 && program.output_bytes(0) > 0 ? 0 : 1;\n}\n";
  example.close();
  std::string log;
  const std::string shown = "cd \"$0\" && g++ -std=c++17 -O1 -Wall -Wextra -Werror example.cpp -ldl -o example && ./example";
  CHECK_MESSAGE(target::run_command({"sh", "-c", shown, folder.path()}, folder / "log", &log), log);
  const std::string run = "cd \"$0\" && g++ -std=c++17 -O1 -Wall -Wextra -Werror -fsanitize=leak -I. \"$1\" -ldl -o app && ./app";
  CHECK_MESSAGE(target::run_command({"sh", "-c", run, folder.path(), test::source_dir() + "/tests/support/device/programs.cpp"},
                                    folder / "log", &log),
                log);
  CHECK(log == "done\n");
}
