#include "report/lir_json.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <limits>

#include "ir/builder.h"
#include "ir/text.h"
#include "report/fingerprint.h"
#include "support/bump_plan.h"
#include "support/example_module.h"
#include "support/golden.h"
#include "support/schema.h"

using namespace rlxc;
using namespace rlxc::test;

namespace {

const report::ReportContext kContext{"example.onnx", std::string(64, 'a'), false, "cpu", "0.1.0"};

std::string lir_text(const LirModule& lir) {
  std::string s;
  JsonWriter out(s);
  report::write_lir(lir, out, kContext);
  return s;
}

LirModule lir_of(std::unique_ptr<Module> m) {
  LirModule lir = bump_lir(std::move(m));
  lir.fingerprint = report::fingerprint(lir);
  return lir;
}

size_t lines_with(std::string_view text, std::string_view part) {
  const auto lines = lines_of(text);
  return static_cast<size_t>(
      std::count_if(lines.begin(), lines.end(), [&](std::string_view l) { return l.find(part) != l.npos; }));
}

}  // namespace

TEST_CASE("lir.json of a static and of a symbolic module") {
  for (const bool symbolic : {false, true}) {
    const std::string text = lir_text(lir_of(example_module(symbolic)));
    check_schema("lir", text);
    check_golden(symbolic ? "report/lir_symbolic.json" : "report/lir.json", text);
    CHECK(lines_with(text, "\"op\": ") == 9);      // one node per line
    CHECK(lines_with(text, "\"region\": ") == 9);  // one buffer per line
  }
}

TEST_CASE("lir.json and the text form have the layout of a value that is not row-major") {
  auto m = std::make_unique<Module>("layouts");
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(2), Dim(5), Dim(24)}));
  m->main().add_output(b.unary(OpKind::Relu, b.narrow(x, 1, Dim(1), Dim(3))), {});
  const LirModule lir = lir_of(std::move(m));
  const std::string text = lir_text(lir), printed = print(*lir.module, {.lir = &lir});
  check_schema("lir", text);
  CHECK(printed.find("// view of %0 at byte 96, layout [2@120][3@24][24@1]\n") != std::string::npos);
  CHECK(lines_with(printed, "//") == 1);
  CHECK(lines_with(text, "\"layout\": [[[2, 120]], [[3, 24]], [[24, 1]]]") == 1);
  CHECK(lines_with(text, "\"layout\"") == 1);
}

TEST_CASE("lir.json of control flow and of constants of every kind") {
  auto m = std::make_unique<Module>("kinds");
  Builder b(m->main());
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(1)}));
  const auto keep = [&](TensorData d) { m->main().add_output(b.constant(std::move(d)), {}); };
  const float inf = std::numeric_limits<float>::infinity();
  keep(make_data<float>(DType::F32, {4}, {-0.0f, inf, -inf, 0.1f}));
  keep(make_data<float>(DType::F32, {1}, {std::numeric_limits<float>::quiet_NaN()}));
  keep(make_data<int64_t>(DType::I64, {2}, {-3, int64_t{1} << 60}));
  keep(make_data<int64_t>(DType::I64, {2}, {-3, 1 << 30}));
  keep(make_splat(DType::F32, {1000}, element_bytes(DType::F32, 0.5)));
  keep(make_data(DType::F32, {100}, std::vector<float>(100, 2)));
  TensorData file;
  file.dtype = DType::F32, file.dims = {1000000}, file.file = "weights.bin", file.offset = 4096;
  keep(std::move(file));
  m->main().add_output(x, {});
  const std::string text = lir_text(lir_of(std::move(m)));
  check_schema("lir", text);
  CHECK(lines_with(text, R"("values": [-0.0, "inf", "-inf", 0.1])") == 1);
  CHECK(lines_with(text, R"("base64": "AADAfw==")") == 1);
  CHECK(lines_with(text, R"("values": [-3, 1073741824])") == 1);
  CHECK(lines_with(text, R"("base64": "/f////////8AAAAAAAAAEA==")") == 1);
  CHECK(lines_with(text, R"("splat": 0.5)") == 1);
  CHECK(lines_with(text, R"("file": "weights.bin", "offset": 4096, "bytes": 4000000)") == 1);
}

TEST_CASE("the fingerprint changes with the meaning and not with names or numbering") {
  const auto print = [](auto change) {
    LirModule lir = bump_lir(example_module());
    change(lir);
    return report::fingerprint(lir);
  };
  const Digest128 same = print([](LirModule&) {});
  CHECK(same == print([](LirModule& l) { l.module->main().set_node_name(l.module->main().first(), l.module->symbol("other")); }));
  CHECK(same == print([](LirModule& l) {
          Graph& g = l.module->main();
          g.erase(Builder(g, nullptr, g.first()).graph().def(Builder(g, nullptr, g.first()).scalar(DType::F32, 7)));
          g.compact();
          l = bump_lir(std::move(l.module));
        }));
  const auto node = [](LirModule& l, OpKind op) {
    for (NodeId n : l.module->main().nodes())
      if (l.module->main().op(n) == op) return n;
    return NodeId();
  };
  CHECK(same != print([&](LirModule& l) {
          Graph& g = l.module->main();
          FusedMatMulAttrs a = g.attrs<FusedMatMulAttrs>(node(l, OpKind::FusedMatMulBiasAct));
          a.act.op = OpKind::Tanh;
          g.set_attrs(node(l, OpKind::FusedMatMulBiasAct), l.module->attrs.intern(a));
        }));
  CHECK(same != print([&](LirModule& l) {
          const std::vector<float> other = {0, 0.5, -1, 2, 0, 0, 0, 2};
          l.module->main().set_attrs(node(l, OpKind::Constant),
                                     l.module->attrs.intern(DataAttrs{l.module->data.add(make_data(DType::F32, {8}, other))}));
        }));
  CHECK(same != print([&](LirModule& l) { l.plans[0].slot[4].offset = Dim(640); }));
  CHECK(same != print([&](LirModule& l) { std::swap(l.plans[0].step[2], l.plans[0].step[3]); }));
  CHECK(same != print([&](LirModule& l) {
          Graph& g = l.module->main();
          const NodeId add = node(l, OpKind::Add);
          const ValueId swapped[] = {g.operand(add, 1), g.operand(add, 0)};
          g.set_operands(add, swapped);
        }));
}
