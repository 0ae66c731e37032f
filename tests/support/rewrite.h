// Tests a rewriting pass in one line: builds a graph, runs the pass, compares the remaining ops, and checks equal results on
// random inputs.
#pragma once
#include <functional>
#include <memory>

#include "eval/equivalence.h"
#include "support/pass_run.h"

namespace rlxc::testing {

struct Rewrite {
  std::unique_ptr<Module> before = std::make_unique<Module>(), after = std::make_unique<Module>();
  PassRun run;
  PassResult result;

  // `build` creates nodes in the main graph and returns the outputs. `rtol`: allowed relative difference.
  using Build = std::function<std::vector<ValueId>(Builder&)>;
  Rewrite(std::string_view pass, const Build& build, const std::function<void(PassRun&)>& configure = {}, double rtol = 1e-4) {
    for (Module* m : {before.get(), after.get()}) {
      Diagnostics d;
      Builder b(m->main(), &d);
      for (ValueId v : build(b)) m->main().add_output(v, m->symbol("y" + std::to_string(m->main().outputs().size())));
      REQUIRE_MESSAGE(verify(*m, d), d.text());
    }
    if (configure) configure(run);
    result = run(*after, pass);
    std::string why;
    CHECK_MESSAGE(eval::same_results(*before, *after, 1, rtol, rtol / 10, &why), pass << ": " << why);
    CHECK_FALSE_MESSAGE(run(*after, pass).changed, "the pass changes its own result: " << ops(after->main()));
  }

  // Returns the remaining ops, without leaves.
  std::string left() const {
    std::string s;
    for (NodeId n : after->main().nodes())
      if (!has_trait(after->main().op(n), kLeaf)) s += (s.empty() ? "" : " ") + std::string(name(after->main().op(n)));
    return s;
  }
  // Returns the first node of this kind in the result.
  NodeId find(OpKind op) const {
    for (NodeId n : after->main().nodes())
      if (after->main().op(n) == op) return n;
    return {};
  }
  std::string first_decline() const {
    for (const Decision& d : run.decisions)
      if (!d.fused) return d.reason;
    return {};
  }
};

inline ValueId f32_input(Builder& b, std::string_view name, std::vector<Dim> dims) {
  return b.input(name, tensor_type(DType::F32, std::move(dims)));
}
inline ValueId f32_param(Builder& b, std::string_view name, std::vector<int64_t> dims) {
  int64_t n = 1;
  for (int64_t d : dims) n *= d;
  std::vector<float> values(static_cast<size_t>(n));
  for (size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>((i * 37 + name.size() * 11) % 23) / 16.0F - 0.6F;
  const DataId id = b.module().data.add(make_data(DType::F32, dims, values));
  return b.param(name, tensor_type(DType::F32, {dims.begin(), dims.end()}), id);
}
// x times a quantized weight [k,n] ([n,k] if trans_b) with one scale per `block` rows and column.
struct CodesOf {
  int64_t n = 4, block = 4;
  bool trans_b = false, zero = false;
  DType codes = DType::I4;
  bool int8_x = false;

  ValueId operator()(Builder& b, ValueId x) const {
    const int64_t k = b.graph().dims(x).back().size(), blocks = block ? k / block : 1;
    const auto dims = [&](int64_t rows) { return trans_b ? std::vector{n, rows} : std::vector{rows, n}; };
    std::vector<uint8_t> bytes(static_cast<size_t>(*byte_size(codes, k * n)));
    for (size_t i = 0; i < bytes.size(); ++i) bytes[i] = static_cast<uint8_t>(i * 29 + 7);
    std::vector<float> scales(static_cast<size_t>(blocks * n));
    for (size_t i = 0; i < scales.size(); ++i) scales[i] = 0.05F + 0.01F * static_cast<float>(i % 7);
    const std::vector<uint8_t> zeros(static_cast<size_t>(*byte_size(codes, blocks * n)), 0x35);
    return b.create(OpKind::DequantMatMul,
                    {x, b.constant(make_data(codes, dims(k), bytes)), b.constant(make_data(DType::F32, dims(blocks), scales)),
                     zero ? b.constant(make_data(codes, dims(blocks), zeros)) : ValueId()},
                    DequantMatMulAttrs{.trans_b = trans_b, .block = block, .act = {}, .int8_x = int8_x});
  }
};
inline ValueId num(Builder& b, double v) { return b.scalar(DType::F32, v); }

}  // namespace rlxc::testing
