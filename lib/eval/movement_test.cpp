#include "support/eval.h"

using namespace rlxc;
using namespace rlxc::test;
using enum OpKind;

TEST_CASE("movement: views, slices, transposes") {
  const auto x = f32({2, 3}, {1, 2, 3, 4, 5, 6});
  check_values(run1(Reshape, DimsAttrs{{Dim(3), Dim(2)}, false}, {x}), {1, 2, 3, 4, 5, 6});
  check_values(run1(Transpose, PermAttrs{{1, 0}}, {x}), {1, 4, 2, 5, 3, 6});
  check_values(run1(Narrow, NarrowAttrs{1, Dim(1), Dim(2)}, {x}), {2, 3, 5, 6});
  check_values(run1(Slice, SliceAttrs{1, Dim(2), Dim(2), -2}, {x}), {3, 1, 6, 4});
  check_values(run1(Reverse, AxesAttrs{{0, 1}}, {x}), {6, 5, 4, 3, 2, 1});
  check_values(run1(Tile, DimsAttrs{{Dim(2), Dim(2)}, false}, {f32({1, 2}, {1, 2})}), {1, 2, 1, 2, 1, 2, 1, 2});
  check_values(run1(Expand, DimsAttrs{{Dim(2), Dim(2), Dim(2)}, false}, {f32({2, 1}, {1, 2})}), {1, 1, 2, 2, 1, 1, 2, 2});
  check_values(run1(Concat, AxisAttrs{1}, {x, f32({2, 1}, {7, 8})}), {1, 2, 3, 7, 4, 5, 6, 8});
  check_values(run1(Transpose, PermAttrs{{1, 0}}, {tensor_of(DType::I4, {2, 2}, {-8, 1, 2, 7})}), {-8, 2, 1, 7});
  CHECK(run1(Concat, AxisAttrs{0}, {eval::strings_of({1}, {"a"}), eval::strings_of({2}, {"b", "c"})}).tensor.strings ==
        std::vector<std::string>{"a", "b", "c"});
  check_values(run1(Reshape, DimsAttrs{{Dim(0), Dim(5)}, false}, {f32({0}, {})}), {});
}

TEST_CASE("movement: pads of every mode") {
  const auto x = f32({4}, {1, 2, 3, 4});
  auto pad = [&](PadMode mode, int64_t before, int64_t after) {
    return run1(Pad, PadAttrs{{Dim(before)}, {Dim(after)}, mode}, {x});
  };
  check_values(pad(PadMode::Constant, 1, 2), {0, 1, 2, 3, 4, 0, 0});
  check_values(pad(PadMode::Reflect, 5, 4), {2, 3, 4, 3, 2, 1, 2, 3, 4, 3, 2, 1, 2});
  check_values(pad(PadMode::Edge, 1, 2), {1, 1, 2, 3, 4, 4, 4});
  check_values(pad(PadMode::Wrap, 2, 5), {3, 4, 1, 2, 3, 4, 1, 2, 3, 4, 1});
  check_values(run1(Pad, PadAttrs{{Dim(1)}, {Dim(0)}, PadMode::Constant}, {x, f32({}, {9})}), {9, 1, 2, 3, 4});
}

TEST_CASE("movement: gathers and scatters") {
  const auto x = f32({3, 2}, {1, 2, 3, 4, 5, 6});
  check_values(run1(Gather, AxisAttrs{0}, {x, i64({2}, {2, -3})}), {5, 6, 1, 2});
  check_values(run1(Gather, AxisAttrs{1}, {x, i64({}, {1})}), {2, 4, 6});
  std::string message;
  run_op(Gather, AxisAttrs{0}, {x, i64({1}, {3})}, &message);
  CHECK(message.find("outside an axis of size 3") != std::string::npos);
  check_values(run1(GatherElements, AxisAttrs{0}, {x, i64({1, 2}, {2, 0})}), {5, 2});
  check_values(run1(GatherNd, BatchDimsAttrs{0}, {x, i64({2, 2}, {0, 1, -1, 0})}), {2, 5});
  check_values(run1(GatherNd, BatchDimsAttrs{1}, {f32({2, 2, 2}, {0, 1, 2, 3, 4, 5, 6, 7}), i64({2, 1}, {1, 0})}), {2, 3, 4, 5});
  check_values(run1(ScatterElements, ScatterAttrs{1, Reduction::None}, {x, i64({3, 1}, {1, 0, 1}), f32({3, 1}, {7, 8, 9})}),
               {1, 7, 8, 4, 5, 9});
  check_values(
      run1(ScatterElements, ScatterAttrs{0, Reduction::Add}, {f32({2}, {1, 1}), i64({3}, {0, 0, 1}), f32({3}, {5, 6, 7})}),
      {12, 8});
  check_values(run1(ScatterNd, ScatterAttrs{0, Reduction::Max}, {x, i64({2, 1}, {0, 0}), f32({2, 2}, {0, 9, 4, 4})}),
               {4, 9, 3, 4, 5, 6});
}

TEST_CASE("movement: triangles, ranges, one-hot") {
  check_values(run1(Trilu, TriluAttrs{true, 1}, {f32({2, 2}, {1, 2, 3, 4})}), {0, 2, 0, 0});
  check_values(run1(Trilu, TriluAttrs{false, 0}, {f32({2, 2}, {1, 2, 3, 4})}), {1, 0, 3, 4});
  check_values(run1(Trilu, TriluAttrs{false, 0}, {f32({2, 2}, {1, 2, 3, 4}), i64({}, {1})}), {1, 2, 3, 4});
  check_values(run1(Range, DimsAttrs{{Dim(4)}, false}, {i64({}, {3}), i64({}, {-2})}), {3, 1, -1, -3});
  check_values(run1(OneHot, OneHotAttrs{1, Dim(3)}, {i64({2}, {1, -1}), f32({2}, {0, 5})}), {0, 5, 0, 0, 0, 5});
}

TEST_CASE("evaluation: symbols, equalities, budgets") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const Dim n = m.dims.symbol("n");
  const ValueId x = b.input("x", tensor_type(DType::F32, {n, Dim(2)})), y = b.input("y", tensor_type(DType::F32, {n}));
  const ValueId flat = b.reshape(x, {m.dims.mul(n, Dim(2))});
  const ValueId size = b.create(DimValue, {}, DimsAttrs{{n, m.dims.constant(-1)}, false});
  m.main().add_output(flat, m.symbol("flat"));
  m.main().add_output(size, m.symbol("size"));
  m.main().add_output(y, m.symbol("y"));
  const std::vector<HostValue> good{f32({3, 2}, {1, 2, 3, 4, 5, 6}), f32({3}, {1, 2, 3})};
  const auto r = eval::evaluate(m, good, d);
  REQUIRE_MESSAGE(r, d.text());
  CHECK((*r)[0].tensor.dims == std::vector<int64_t>{6});
  check_values((*r)[1], {3, -1});
  const std::vector<HostValue> bad{good[0], f32({2}, {1, 2})};
  CHECK(!eval::evaluate(m, bad, d));
  CHECK(d.text().find("input \"y\"") != std::string::npos);
  eval::Options small;
  small.max_bytes = 8;
  Diagnostics limited;
  CHECK(!eval::evaluate(m, good, limited, small));
  CHECK(limited.exit() == ExitCode::Limit);
}

TEST_CASE("the memory that evaluating a node takes is asked for before it is taken") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F32, {m.dims.symbol("n"), Dim(1)}));
  m.main().add_output(b.matmul(x, b.input("w", tensor_type(DType::F32, {Dim(1), m.dims.symbol("n")}))), m.symbol("product"));
  const std::vector<HostValue> inputs{f32({4, 1}, {1, 2, 3, 4}), f32({1, 4}, {1, 2, 3, 4})};
  eval::Options limits;
  limits.max_bytes = 8 * (4 + 16) + 4 * 16;  // numbers of operand 0 and of the result, and the result
  CHECK(eval::evaluate(m, inputs, d, limits));
  --limits.max_bytes;
  Diagnostics limited;
  CHECK(!eval::evaluate(m, inputs, limited, limits));
  CHECK(limited.exit() == ExitCode::Limit);
  CHECK_MESSAGE(limited.text().find("(matmul)") != std::string::npos, limited.text());
  // Live tensors of another evaluation count until they are freed.
  limits.memory = std::make_shared<eval::MemoryMeter>(limits.max_bytes + 1 + 4 * 16 - 1);
  auto first = eval::evaluate(m, inputs, d, limits);
  REQUIRE(first);
  CHECK(!eval::evaluate(m, inputs, limited, limits));
  first.reset();
  CHECK(eval::evaluate(m, inputs, d, limits));
  const auto held = eval::MemoryMeter::hold(limits.memory, 64);
  CHECK(held);
  CHECK(!eval::evaluate(m, inputs, limited, limits));
  CHECK(!eval::MemoryMeter::hold(limits.memory, limits.memory->limit()));
}

TEST_CASE("sizes that a node refuses are reported with the node") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  const ValueId x = b.input("x", tensor_type(DType::F32, {Dim(1), m.dims.symbol("n")}));
  const ValueId w = b.input("w", tensor_type(DType::F32, {m.dims.symbol("k"), Dim(1)}));
  m.main().add_output(b.matmul(x, w), m.symbol("product"));
  const std::vector<HostValue> inputs{f32({1, 2}, {1, 2}), f32({3, 1}, {1, 2, 3})};
  CHECK(!eval::evaluate(m, inputs, d));
  CHECK_MESSAGE(d.text().find("(matmul)") != std::string::npos, d.text());
}

TEST_CASE("axes longer than the memory limit are refused before anything is made for them") {
  Module m;
  Diagnostics d;
  Builder b(m.main(), &d);
  PadAttrs pad;
  pad.before = {Dim(0), Dim(0)}, pad.after = {Dim(int64_t{1} << 40), Dim(0)};
  m.main().add_output(b.create(OpKind::Pad, {b.input("x", tensor_type(DType::F32, {2, 0}))}, pad), m.symbol("y"));
  const std::vector<HostValue> empty{f32({2, 0}, {})};
  CHECK(!eval::evaluate(m, empty, d));
  CHECK(d.exit() == ExitCode::Limit);
}
