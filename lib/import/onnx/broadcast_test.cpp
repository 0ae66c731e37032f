// Broadcasts of data-dependent dims: equal, or one of them 1.
#include "import/onnx/broadcast.h"

#include "eval/eval.h"
#include "eval/value.h"
#include "ir/dim_postfix.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Shape = std::vector<int64_t>;

// Two inputs, `op`, one output.
std::unique_ptr<Module> load(const std::string& op, const Shape& a, const Shape& b, Diagnostics& d,
                             const onnx_import::ImportOptions& options = {}) {
  OnnxModel m(17);
  m.raw_graph(field(11, value_info("a", DType::F32, a)));
  m.raw_graph(field(11, value_info("b", DType::F32, b)));
  m.add(node(op, {"a", "b"}, {"y"}));
  m.output("y");
  return m.load(d, options);
}

eval::HostValue ramp(const Shape& dims) {
  std::vector<float> v;
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  for (int64_t i = 0; i < n; ++i) v.push_back(static_cast<float>(i + 1));
  eval::HostValue out;
  out.tensor = make_data(DType::F32, dims, v);
  return out;
}

std::optional<std::vector<double>> run(const Module& m, const Shape& a, const Shape& b, Diagnostics& d) {
  const std::vector<eval::HostValue> inputs{ramp(a), ramp(b)};
  const auto out = eval::evaluate(m, inputs, d);
  if (!out) return std::nullopt;
  std::vector<double> values;
  for (int64_t i = 0; i < (*out)[0].tensor.elements(); ++i) values.push_back(element_as_double((*out)[0].tensor, i));
  return values;
}

}  // namespace

TEST_CASE("two symbols that meet are equal, or one of them is 1") {
  Diagnostics d;
  const auto m = load("Add", {-1}, {-1}, d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(run(*m, {3}, {3}, d) == std::vector<double>{2, 4, 6});
  CHECK(run(*m, {1}, {3}, d) == std::vector<double>{2, 3, 4});
  CHECK(run(*m, {3}, {1}, d) == std::vector<double>{2, 3, 4});
  CHECK(run(*m, {1}, {1}, d) == std::vector<double>{2});
  CHECK_FALSE(run(*m, {2}, {3}, d));
  CHECK_FALSE(d.ok());
}

TEST_CASE("a data-dependent dim that meets another dim is equal to it, or one of them is 1") {
  // The elements of `a` above 1, and `b` or the elements of `b` above 1.
  for (const bool both : {false, true}) {
    OnnxModel m(17);
    m.raw_graph(field(11, value_info("a", DType::F32, {-1})));
    m.raw_graph(field(11, value_info("b", DType::F32, {both ? -1 : 3})));
    m.add(node("Constant", {}, {"one"}, {attribute("value_float", 1.0)}));
    m.add(node("Greater", {"a", "one"}, {"some"}));
    m.add(node("Compress", {"a", "some"}, {"p"}));
    m.add(node("Greater", {"b", "one"}, {"others"}));
    m.add(node("Compress", {"b", "others"}, {"q"}));
    m.add(node("Add", {"p", both ? "q" : "b"}, {"y"}));
    m.output("y");
    Diagnostics d;
    const auto module = m.load(d);
    REQUIRE_MESSAGE(module, d.text());
    if (!both) {
      CHECK(run(*module, {4}, {3}, d) == std::vector<double>{3, 5, 7});
      CHECK(run(*module, {2}, {3}, d) == std::vector<double>{3, 4, 5});
      CHECK_FALSE(run(*module, {3}, {3}, d));
      continue;
    }
    CHECK(run(*module, {3}, {3}, d) == std::vector<double>{4, 6});
    CHECK(run(*module, {2}, {4}, d) == std::vector<double>{4, 5, 6});
    CHECK(run(*module, {4}, {2}, d) == std::vector<double>{4, 5, 6});
    CHECK_FALSE(run(*module, {3}, {4}, d));
  }
}

TEST_CASE("a symbol that meets a constant is equal to it, or 1") {
  for (const bool swapped : {false, true}) {
    Diagnostics d;
    const Shape open{-1}, three{3};
    const auto m = swapped ? load("Mul", three, open, d) : load("Mul", open, three, d);
    REQUIRE_MESSAGE(m, d.text());
    CHECK(m->main().dims(m->main().outputs()[0])[0] == 3);
    const auto at = [&](int64_t n) { return swapped ? run(*m, three, {n}, d) : run(*m, {n}, three, d); };
    CHECK(at(1) == std::vector<double>{1, 2, 3});
    CHECK(at(3) == std::vector<double>{1, 4, 9});
    CHECK_FALSE(at(2));
  }
}

TEST_CASE("a size that is known only at run time and meets 0 is 0 or 1, and the result empty") {
  for (const bool swapped : {false, true}) {
    Diagnostics d;
    OnnxModel m(17);
    m.raw_graph(field(11, value_info("a", DType::F32, {-1})));
    m.raw_graph(field(11, value_info("b", DType::F32, {0, 1})));
    m.add(node("NonZero", {"a"}, {"where"}));  // [1, n0]
    m.add(node("Cast", {"where"}, {"real"}, {attribute("to", 1)}));
    m.add(node("Transpose", {"real"}, {"column"}));  // [n0, 1]
    m.add(node("Less", swapped ? std::vector<std::string>{"b", "column"} : std::vector<std::string>{"column", "b"}, {"y"}));
    m.output("y");
    const auto loaded = m.load(d);
    REQUIRE_MESSAGE(loaded, d.text());
    CHECK(loaded->main().dims(loaded->main().outputs()[0])[0] == 0);
    for (const double value : {0.0, 1.0}) {
      const std::vector<eval::HostValue> inputs{eval::tensor_of(DType::F32, {1}, {value}),
                                                eval::tensor_of(DType::F32, {0, 1}, {})};
      const auto out = eval::evaluate(*loaded, inputs, d);
      REQUIRE_MESSAGE(out, d.text());
      CHECK((*out)[0].tensor.elements() == 0);
    }
  }
  Diagnostics d;
  CHECK(load("Add", {0}, {-1}, d));
  CHECK_FALSE(load("Add", {0}, {5}, d));
}

TEST_CASE("batches of a product broadcast, its contracted sizes are equal") {
  Diagnostics d;
  const auto m = load("MatMul", {-1, 1, -1}, {-1, -1, 1}, d);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(run(*m, {1, 1, 2}, {2, 2, 1}, d) == std::vector<double>{5, 11});
  CHECK(run(*m, {2, 1, 2}, {1, 2, 1}, d) == std::vector<double>{5, 11});
  CHECK_FALSE(run(*m, {1, 1, 1}, {1, 2, 1}, d));
}

TEST_CASE("sizes that are given as equal need no broadcast") {
  Diagnostics d;
  onnx_import::ImportOptions options;
  options.assume = {{"dim0", "dim1"}};
  const auto m = load("Add", {-1}, {-1}, d, options);
  REQUIRE_MESSAGE(m, d.text());
  CHECK(symbol_name(m->dims, m->main().dims(m->main().outputs()[0])[0]) == "dim0");
  CHECK(run(*m, {3}, {3}, d) == std::vector<double>{2, 4, 6});
  CHECK_FALSE(run(*m, {1}, {3}, d));
  options.assume = {{"dim0", "dim7"}};
  Diagnostics unknown;
  CHECK(load("Add", {-1}, {-1}, unknown, options) == nullptr);
  CHECK_MESSAGE(unknown.text().find("no dimension \"dim7\"") != std::string::npos, unknown.text());
}
