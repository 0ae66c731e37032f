// Mixtures of experts as exported loops over experts: each expert finds its rows with NonZero, and its results are added by
// ScatterElements (traced modules) or ScatterND (exported programs). Compares kernels with a plain loop over rows.
#include <algorithm>
#include <cmath>
#include <numeric>

#include "codegen/make_package.h"
#include "driver/compile.h"
#include "runtime/run_package.h"
#include "support/onnx_model.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

using Reals = std::vector<double>;
using Ints = std::vector<int64_t>;

constexpr size_t kHidden = 4, kExperts = 5, kChosen = 2;

const Reals router = some(kHidden * kExperts, 1);
Reals expert(size_t e) { return some(kHidden * kHidden, 2 + static_cast<uint32_t>(e)); }

class Export {
 public:
  explicit Export(bool traced) {
    m_.raw_graph(field(11, value_info("x", DType::F32, {-1, kHidden})));
    const std::string logits = op("MatMul", {"x", matrix(router, kExperts)}), p = op("Softmax", {logits}, {attribute("axis", 1)});
    const auto best = ops("TopK", {p, ints({kChosen})}, 2);
    const std::string share = op("Div", {best[0], op("ReduceSum", {best[0], ints({1})})});
    const std::string hot =
        traced ? op("OneHot", {best[1], ints({kExperts}), ints({0, 1})})
               : cast(op("Equal", {unsqueeze(best[1], -1), op("Range", {number(0), number(kExperts), number(1)})}), DType::I64);
    const std::string mask = op("Transpose", {hot}, {attribute("perm", Ints{2, 1, 0})});
    std::string sum = traced ? op("ConstantOfShape", {op("Shape", {"x"})}) : op("Expand", {real(0), op("Shape", {"x"})});
    for (size_t e = 0; e < kExperts; ++e) {
      const std::string chosen = cast(op("Gather", {mask, number(static_cast<int64_t>(e))}), DType::Bool),
                        places = op("Transpose", {op("NonZero", {chosen})}, {attribute("perm", Ints{1, 0})});
      std::vector<std::string> column;
      if (traced) column = ops("Split", {places, ints({1, 1})}, 2, {attribute("axis", 1)});
      else
        for (int64_t i : {0, 1}) column.push_back(op("Slice", {places, ints({i}), ints({i + 1}), ints({1})}));
      const std::string choice = op("Squeeze", {column[0], ints({1})}), row = op("Squeeze", {column[1], ints({1})});
      const std::string rows =
          op("Reshape", {op("Gather", {unsqueeze("x", 0), row}, {attribute("axis", 1)}), ints({-1, kHidden})});
      const std::string y = op("Relu", {op("MatMul", {rows, matrix(expert(e), kHidden)})});
      if (traced) {
        const std::string flat = op("Add", {op("Mul", {row, number(kChosen)}), choice}),
                          part = unsqueeze(op("Gather", {op("Reshape", {share, ints({-1})}), flat}), 1),
                          scaled = op("Mul", {y, part}), index = op("Expand", {unsqueeze(row, 1), op("Shape", {scaled})});
        sum = op("ScatterElements", {sum, index, scaled}, {attribute("axis", 0), attribute("reduction", "add")});
      } else {
        const std::string index = op("Concat", {unsqueeze(row, -1), unsqueeze(choice, -1)}, {attribute("axis", -1)}),
                          part = unsqueeze(op("GatherND", {share, index}), 1);
        sum = op("ScatterND", {sum, unsqueeze(row, -1), op("Mul", {y, part})}, {attribute("reduction", "add")});
      }
    }
    m_.output(sum);
  }
  const OnnxModel& model() const { return m_; }

 private:
  std::vector<std::string> ops(std::string_view type, const std::vector<std::string>& inputs, size_t results,
                               const std::vector<std::string>& attributes = {}) {
    std::vector<std::string> names;
    for (size_t i = 0; i < results; ++i) names.push_back("v" + std::to_string(count_++));
    m_.add(node(type, inputs, names, attributes));
    return names;
  }
  std::string op(std::string_view type, const std::vector<std::string>& inputs, const std::vector<std::string>& attributes = {}) {
    return ops(type, inputs, 1, attributes)[0];
  }
  std::string ints(const Ints& v) { return op("Constant", {}, {attribute("value_ints", v)}); }
  std::string number(int64_t v) { return op("Constant", {}, {attribute("value_int", v)}); }
  std::string real(double v) { return op("Constant", {}, {attribute("value_float", v)}); }
  std::string matrix(const Reals& v, int64_t columns) {
    return op("Reshape", {op("Constant", {}, {attribute("value_floats", v)}), ints({-1, columns})});
  }
  std::string unsqueeze(const std::string& x, int64_t axis) { return op("Unsqueeze", {x, ints({axis})}); }
  std::string cast(const std::string& x, DType t) {
    return op("Cast", {x}, {attribute("to", static_cast<int64_t>(onnx_dtype(t)))});
  }

  OnnxModel m_{18};
  int count_ = 0;
};

Reals times(const double* row, const Reals& w, size_t columns) {
  Reals y(columns);
  for (size_t k = 0; k < kHidden; ++k)
    for (size_t j = 0; j < columns; ++j) y[j] += row[k] * w[k * columns + j];
  return y;
}

Reals mixture(const Reals& x) {
  Reals out;
  for (size_t at = 0; at < x.size(); at += kHidden) {
    const Reals logits = times(&x[at], router, kExperts);
    std::vector<size_t> order(kExperts);
    std::iota(order.begin(), order.end(), size_t{0});
    std::ranges::stable_sort(order, [&](size_t a, size_t b) { return logits[a] > logits[b]; });
    double total = 0;
    for (size_t i = 0; i < kChosen; ++i) total += std::exp(logits[order[i]]);
    Reals sum(kHidden);
    for (size_t i = 0; i < kChosen; ++i) {
      const Reals y = times(&x[at], expert(order[i]), kHidden);
      for (size_t j = 0; j < kHidden; ++j) sum[j] += std::max(y[j], 0.0) * std::exp(logits[order[i]]) / total;
    }
    out.insert(out.end(), sum.begin(), sum.end());
  }
  return out;
}

}  // namespace

TEST_CASE("mixtures of experts as exporters write them") {
  for (bool traced : {true, false}) {
    CAPTURE(traced);
    Diagnostics d;
    LoadedModel model;
    model.module = Export(traced).model().load(d);
    REQUIRE_MESSAGE(model.module, d.text());
    const auto reference = Export(traced).model().load(d);
    const auto compiled = compile(std::move(model), "cpu", {}, {}, d);
    REQUIRE_MESSAGE(compiled, d.text());
    const auto package = codegen::make_package(compiled->lir, "experts", {}, d);
    REQUIRE_MESSAGE(package, d.text());
    const auto loaded = LoadedPackage::build(*package, {}, d);
    REQUIRE_MESSAGE(loaded, d.text());
    for (int64_t rows : {1, 2, 17}) {  // with one row, some experts have none
      const Reals x = some(static_cast<size_t>(rows) * kHidden, 40 + static_cast<uint32_t>(rows)), want = mixture(x);
      const std::vector<eval::HostValue> inputs = {eval::tensor_of(DType::F32, {rows, kHidden}, x)};
      for (const auto& got : {eval::evaluate(*reference, inputs, d), loaded->run(inputs, d)}) {
        REQUIRE_MESSAGE(got, d.text());
        check_close(eval::numbers((*got)[0]), want, 1e-4);
      }
    }
  }
}
