// Rows of a matmul that are packed for many columns: values that the sums hold exactly must be multiplied exactly, for whole and
// partial blocks of rows and any remainder of columns.
#include <doctest/doctest.h>

#include <tuple>

#include "backend/backend.h"
#include "codegen/make_package.h"
#include "driver/compile.h"
#include "ir/builder.h"
#include "runtime/interpret_package.h"
#include "runtime/run_kernels.h"
#include "support/eval.h"

using namespace rlxc;

TEST_CASE("packed rows of a matmul") {
  constexpr int64_t kColumns = 300;
  int packed = 0;
  for (const DType t : {DType::F16, DType::BF16, DType::F32})
    for (const int64_t k : {1, 7, 8, 9, 33, 1024}) {
      auto m = std::make_unique<Module>();
      Builder b(m->main());
      std::vector<eval::HostValue> inputs;
      for (const auto& [rows, columns, step] : {std::tuple{int64_t{13}, k, 5}, std::tuple{k, kColumns, 3}}) {
        std::vector<double> values;
        for (int64_t i = 0; i < rows * columns; ++i) values.push_back(static_cast<double>(i % (step + 2) * step % 7 - 3));
        inputs.push_back(test::f32({rows, columns}, values));
      }
      const ValueId x = b.cast(b.input("x", tensor_type(DType::F32, {Dim(13), Dim(k)})), t),
                    y = b.cast(b.input("y", tensor_type(DType::F32, {Dim(k), Dim(kColumns)})), t);
      m->main().add_output(b.cast(b.matmul(x, y), DType::F32), {});
      Diagnostics d;
      const auto expected = eval::evaluate(*m, inputs, d);
      REQUIRE_MESSAGE(expected.has_value(), d.text());
      LoadedModel model;
      m->name = ForeignText("rows");
      model.module = std::move(m);
      const auto compiled = compile(std::move(model), "cpu", {}, {}, d);
      REQUIRE_MESSAGE(compiled.has_value(), d.text());
      const auto package = codegen::make_package(compiled->lir, "rows", *capability(find_backend("cpu")->info), d);
      REQUIRE_MESSAGE(package.has_value(), d.text());
      for (const kernel::Kernel& kernel : package->kernels) packed += kernel.name.find("pack_rows") != std::string::npos;
      for (const auto& runner : {make_kernel_runner(compiled->lir, d), make_interpreting_runner(compiled->lir, "cpu", d)}) {
        REQUIRE_MESSAGE(runner, d.text());
        const auto actual = runner->run(inputs, d);
        REQUIRE_MESSAGE(actual.has_value(), d.text());
        const auto r = eval::compare((*actual)[0], (*expected)[0], 0, 0);
        CHECK_MESSAGE(r.pass, name(t) << " of " << k << ": " << r.message);
      }
    }
  CHECK(packed > 10);
}
