#include <cmath>
#include <limits>

#include "ir/builder.h"
#include "passes/passes.h"
#include "support/pass_run.h"
#include "support/random_graph.h"
#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

struct Fixture : PassFixture {
  ValueId x = b.input("x", tensor_type(DType::F32, {m.dims.symbol("batch"), 4}));
  ValueId n = b.input("n", tensor_type(DType::I64, {3, 4}));
  ValueId f(double v) { return b.scalar(DType::F32, v); }
  ValueId i(double v) { return b.scalar(DType::I64, v); }
  // The remaining live ops.
  std::string simplified(ValueId v) {
    g.add_output(v, {});
    run(m, "algebraic_simplify");
    run(m, "dead_code_elimination");
    std::string s = ops(g);
    return s.substr(std::min(s.size(), std::string("input input ").size()));
  }
};

}  // namespace

TEST_CASE("neutral elements vanish, also of the other side and of integers") {
  Fixture f;
  CHECK(f.simplified(f.b.add(f.f(0), f.b.mul(f.b.sub(f.b.div(f.x, f.f(1)), f.f(0)), f.f(1)))) == "");
  CHECK(f.g.outputs()[0] == f.x);
  Fixture h;
  CHECK(h.simplified(h.b.add(h.b.mul(h.n, h.i(1)), h.i(0))) == "");
}

TEST_CASE("a neutral element that broadcasts keeps the shape") {
  Fixture f;
  const ValueId ones = f.b.constant(make_data(DType::F32, {2, 1, 4}, std::vector<float>(8, 1.0f)));
  CHECK(f.simplified(f.b.mul(f.x, ones)) == "constant mul");
}

TEST_CASE("x*0 stays for floats, which may be infinite, and is a constant of the right type for integers") {
  Fixture f;
  CHECK(f.simplified(f.b.mul(f.x, f.f(0))) == "constant mul");
  Fixture h;
  CHECK(h.simplified(h.b.mul(h.n, h.i(0))) == "constant");
  CHECK(text(h.g.type(h.g.outputs()[0]), h.m.dims) == "i64[3,4]");
  Fixture k;
  k.run.options.fast_math = true;
  CHECK(k.simplified(k.b.mul(k.x, k.f(0))) == "constant expand");
}

TEST_CASE("zero points of 0 vanish, also of weights and behind reshapes") {
  for (const int zero : {0, 3}) {
    Fixture f;
    const ValueId x = f.b.input("q", tensor_type(DType::U8, {3, 4})), w = f.b.input("w", tensor_type(DType::I8, {4, 5}));
    const std::vector<int8_t> zeros(5, static_cast<int8_t>(zero));
    const ValueId of_w = f.b.param("z", tensor_type(DType::I8, {5}), f.m.data.add(make_data(DType::I8, {5}, zeros)));
    const ValueId y = f.b.create(OpKind::QMatMul, {x, w, f.b.scalar(DType::U8, zero), f.b.reshape(of_w, {1, 5})});
    f.simplified(y);
    const NodeId n = f.g.def(f.g.outputs()[0]);
    CHECK(f.g.operand(n, 2).valid() == (zero != 0));
    CHECK(f.g.operand(n, 3).valid() == (zero != 0));
  }
}

TEST_CASE("rounding to unsigned integers without a zero point computes a Relu before it") {
  const auto left = [](double scale, double zero, DType to) {
    Fixture f;
    const ValueId relu = f.b.unary(OpKind::Relu, f.x);
    const auto number = [&](DType t, double v) { return f.b.scalar(t, v); };
    const std::string ops =
        f.simplified(f.b.create(OpKind::Quantize, {relu, number(DType::F32, scale), number(to, zero)}, QuantAttrs{.to = to}));
    return ops.find("relu") != std::string::npos;
  };
  CHECK_FALSE(left(0.1, 0, DType::U8));
  CHECK_FALSE(left(0.1, 0, DType::U16));
  CHECK(left(0.1, 1, DType::U8));
  CHECK(left(0.1, 0, DType::I8));
  CHECK(left(-0.1, 0, DType::U8));
}

TEST_CASE("powers, divisions and signs") {
  Fixture f;
  CHECK(f.simplified(f.b.create(OpKind::Pow, {f.x, f.f(2)})) == "mul");
  Fixture h;
  CHECK(h.simplified(h.b.div(h.x, h.f(8))) == "constant mul");
  Fixture k;
  CHECK(k.simplified(k.b.div(k.x, k.f(3))) == "constant div");
  Fixture l;
  CHECK(l.simplified(l.b.unary(OpKind::Abs, l.b.unary(OpKind::Neg, l.b.unary(OpKind::Neg, l.b.mul(l.x, l.f(-1)))))) == "abs");
  Fixture r;
  CHECK(r.simplified(r.b.create(OpKind::Pow, {r.x, r.f(0.5)})) == "constant pow");
  Fixture q;
  q.run.options.fast_math = true;
  CHECK(q.simplified(q.b.create(OpKind::Pow, {q.x, q.f(-0.5)})) == "rsqrt");
}

TEST_CASE("chains of constants join for integers, and for floats under fast math only") {
  Fixture f;
  CHECK(f.simplified(f.b.add(f.i(4), f.b.add(f.n, f.i(3)))) == "constant add");
  Fixture h;
  const ValueId three = h.f(3), five = h.f(5);
  CHECK(h.simplified(h.b.mul(h.b.mul(h.x, three), five)) == "constant constant mul mul");
  Fixture k;
  k.run.options.fast_math = true;
  CHECK(k.simplified(k.b.mul(k.b.mul(k.x, k.f(3)), k.f(5))) == "constant mul");
}

TEST_CASE("casts join only where no value is lost") {
  Fixture f;
  CHECK(f.simplified(f.b.cast(f.b.cast(f.x, DType::F64), DType::F32)) == "");
  Fixture h;
  CHECK(h.simplified(h.b.cast(h.b.cast(h.x, DType::F16), DType::F32)) == "cast cast");
  Fixture k;
  CHECK(k.simplified(k.b.cast(k.b.cast(k.n, DType::F32), DType::I64)) == "cast cast");
}

TEST_CASE("comparison with itself is decided for integers, not for floats, which may be NaN") {
  Fixture f;
  CHECK(f.simplified(f.b.create(OpKind::Le, {f.n, f.n})) == "constant");
  Fixture h;
  CHECK(h.simplified(h.b.create(OpKind::Le, {h.x, h.x})) == "le");
}

TEST_CASE("a constant condition chooses, with the broadcast shape") {
  Fixture f;
  CHECK(f.simplified(f.b.create(OpKind::Where, {f.b.scalar(DType::Bool, 1), f.x, f.f(3)})) == "");
  Fixture h;
  CHECK(h.simplified(h.b.create(OpKind::Where, {h.b.scalar(DType::Bool, 0), h.x, h.f(3)})) == "constant expand");
  CHECK(text(h.g.type(h.g.outputs()[0]), h.m.dims) == "f32[batch,4]");
}

TEST_CASE("views compose and cancel") {
  Fixture f;
  const Dim batch = f.m.dims.symbol("batch");
  CHECK(f.simplified(f.b.reshape(f.b.reshape(f.b.reshape(f.x, {batch, 2, 2}), {f.m.dims.mul(batch, 4)}), {batch, 4})) == "");
  Fixture h;
  CHECK(h.simplified(h.b.transpose(h.b.transpose(h.x, {1, 0}), {1, 0})) == "");
  Fixture k;
  CHECK(k.simplified(k.b.narrow(k.b.narrow(k.x, 1, 1, 3), 1, 1, 1)) == "narrow");
  CHECK(k.g.attrs<NarrowAttrs>(k.g.def(k.g.outputs()[0])).start == Dim(2));
  Fixture l;
  const std::vector<ValueId> halves{l.b.narrow(l.x, 1, 0, 2), l.b.narrow(l.x, 1, 2, 2)};
  CHECK(l.simplified(l.b.concat(halves, 1)) == "");
  Fixture q;
  const std::vector<ValueId> swapped{q.b.narrow(q.x, 1, 2, 2), q.b.narrow(q.x, 1, 0, 2)};
  CHECK(q.simplified(q.b.concat(swapped, 1)) == "narrow narrow concat");
}

TEST_CASE("slices that take the same steps before they are put together again are steps of the whole") {
  // Slices along axis 1: halves or quarters, with a shared operand, in any order, or with a different op on one of them.
  struct Form {
    std::vector<int64_t> starts{0, 2};
    bool other_step = false, other_operand = false, read = false;
  };
  const auto left = [](const Form& form) {
    Fixture f;
    const ValueId row = f.b.input("row", tensor_type(DType::F32, {1})), wide = f.b.input("wide", tensor_type(DType::F32, {4}));
    const int64_t len = 4 / static_cast<int64_t>(form.starts.size());
    std::vector<ValueId> parts;
    for (int64_t start : form.starts) {
      const ValueId part = f.b.narrow(f.x, 1, start, len);
      const bool last = start == form.starts.back();
      const ValueId by = form.other_operand ? f.b.narrow(wide, 0, last ? 0 : 2, len) : row;
      parts.push_back(
          f.b.unary(form.other_step && last ? OpKind::Relu : OpKind::Tanh, f.b.mul(f.b.unary(OpKind::Exp, part), by)));
    }
    if (form.read) f.g.add_output(parts[0], {});
    const std::string s = f.simplified(f.b.concat(parts, 1));
    return s.substr(std::min(s.size(), std::string("input input ").size()));
  };
  CHECK(left({}) == "exp mul tanh");
  CHECK(left({.starts = {0, 1, 2, 3}}) == "exp mul tanh");
  for (const Form& form : {Form{.starts = {2, 0}}, Form{.other_step = true}, Form{.other_operand = true}, Form{.read = true}})
    CHECK(left(form).find("concat") != std::string::npos);
  const Rewrite r("algebraic_simplify", [](Builder& b) {
    const ValueId x = f32_input(b, "x", {6, 3}), c = f32_input(b, "c", {1, 3}), z = f32_input(b, "z", {2, 3});
    std::vector<ValueId> parts;
    for (int64_t start : {2, 3, 5}) parts.push_back(b.sub(c, b.unary(OpKind::Sin, b.narrow(x, 0, start, start == 3 ? 2 : 1))));
    parts.insert(parts.begin(), b.sub(c, z));
    return std::vector{b.concat(parts, 0)};
  });
  CHECK(r.left() == "sub narrow sin sub concat");
}

TEST_CASE("views around an elementwise operation meet") {
  Fixture f;
  const ValueId t = f.b.unary(OpKind::Tanh, f.b.transpose(f.x, {1, 0}));
  CHECK(f.simplified(f.b.transpose(f.b.mul(t, f.f(3)), {1, 0})) == "tanh constant mul");
}

TEST_CASE("a broadcast that the operation does itself is dropped") {
  Fixture f;
  const Dim batch = f.m.dims.symbol("batch");
  const ValueId w = f.b.param("w", tensor_type(DType::F32, {4}));
  CHECK(f.simplified(f.b.add(f.x, f.b.expand(f.b.reshape(w, {1, 4}), {batch, 4}))) == "param add");
  Fixture h;
  const ValueId v = h.b.param("v", tensor_type(DType::F32, {4}));
  CHECK(h.simplified(h.b.add(h.b.expand(v, {3, 4}), v)) == "param add expand");
}

// Operand lists share a pool that grows with new nodes: each count of nodes tests one position of growth.
TEST_CASE("a transposed sum of a row and a column is one of reshaped operands, wherever the pool of operands ends") {
  for (int nodes = 0; nodes < 40; ++nodes) {
    Fixture f;
    for (int k = 0; k < nodes; ++k) f.b.unary(OpKind::Neg, f.x);
    const ValueId row = f.b.input("row", tensor_type(DType::F32, {1, 8})),
                  column = f.b.input("column", tensor_type(DType::F32, {8, 1}));
    CHECK(f.simplified(f.b.transpose(f.b.add(row, column), {1, 0})) == "input input reshape reshape add");
    const NodeId add = f.g.def(f.g.outputs()[0]);
    CHECK(f.g.operand(f.g.def(f.g.operand(add, 0)), 0) == row);
    CHECK(f.g.operand(f.g.def(f.g.operand(add, 1)), 0) == column);
  }
}

TEST_CASE("a transposed operand becomes a flag of the product") {
  Fixture f;
  const ValueId w = f.b.param("w", tensor_type(DType::F32, {8, 4}));
  CHECK(f.simplified(f.b.matmul(f.x, f.b.transpose(w, {1, 0}))) == "param matmul");
  CHECK(f.g.attrs<MatMulAttrs>(f.g.def(f.g.outputs()[0])).trans_b);
}

TEST_CASE("a product of one term with a weight is a multiplication, whose axes move with its operands") {
  Fixture f;
  const Dim seq = f.m.dims.symbol("seq");
  const ValueId w = f.b.param("w", tensor_type(DType::F32, {1, 4, 1}));
  const ValueId at = f.b.input("at", tensor_type(DType::F32, {1, 1, seq}));
  CHECK(f.simplified(f.b.transpose(f.b.matmul(w, at), {0, 2, 1})) == "param input reshape reshape mul");
  Fixture h;
  const ValueId q = h.b.input("q", tensor_type(DType::F32, {3, 1})), k = h.b.input("k", tensor_type(DType::F32, {1, 3}));
  CHECK(h.simplified(h.b.matmul(q, k)) == "input input matmul");
}

TEST_CASE("rows that were flattened for a product meet the reshape behind it") {
  Fixture f;
  const ValueId x = f.b.input("x3", tensor_type(DType::F32, {2, f.m.dims.symbol("s"), 4}));
  const ValueId w = f.b.input("w", tensor_type(DType::F32, {4, 6})), row = f.b.input("row", tensor_type(DType::F32, {6}));
  const Dim rows = f.m.dims.mul(2, f.m.dims.symbol("s"));
  const ValueId y = f.b.add(f.b.matmul(f.b.reshape(x, {rows, 4}), w), row);
  CHECK(f.simplified(f.b.reshape(y, {2, f.m.dims.symbol("s"), 6})) == "input input input matmul add");
}

TEST_CASE("rows that were flattened to be rounded meet the reshape behind the product") {
  const auto simplified = [](std::vector<Dim> flat, std::vector<Dim> scales) {
    Fixture f;
    const ValueId x = f.b.input("x3", tensor_type(DType::F32, {2, 5, 4})), w = f.b.input("w", tensor_type(DType::F32, {4, 6}));
    const ValueId s = f.b.input("s", tensor_type(DType::F32, std::move(scales)));
    const ValueId codes = f.b.create(OpKind::Quantize, {f.b.reshape(x, flat), s}, QuantAttrs{1, 0, DType::U8});
    const ValueId rounded = f.b.create(OpKind::Dequantize, {codes, s}, QuantAttrs{1, 0, DType::F32});
    return f.simplified(f.b.reshape(flat.size() == 2 ? f.b.matmul(rounded, w) : rounded, {2, 5, flat.size() == 2 ? 6 : 4}));
  };
  CHECK(simplified({10, 4}, {}) == "input input input quantize dequantize matmul");
  // A scale per column belongs to an axis.
  CHECK(simplified({10, 4}, {4}) == "input input input reshape quantize dequantize matmul reshape");
}

TEST_CASE("a part along the major axis of a split axis is a part of that axis") {
  Fixture f;
  const ValueId x = f.b.input("x3", tensor_type(DType::F32, {2, f.m.dims.symbol("s"), 24}));
  const ValueId split = f.b.reshape(x, {2, f.m.dims.symbol("s"), 3, 2, 4});
  CHECK(f.simplified(f.b.narrow(split, 2, 1, 2)) == "input narrow reshape");
  Fixture h;  // the minor axis cannot be merged
  const ValueId y = h.b.input("x3", tensor_type(DType::F32, {2, 5, 24}));
  CHECK(h.simplified(h.b.narrow(h.b.reshape(y, {2, 5, 3, 8}), 3, 0, 4)) == "input reshape narrow");
}

TEST_CASE("taking one position is a view; an index out of range is left to run time") {
  Fixture f;
  CHECK(f.simplified(f.b.create(OpKind::Gather, {f.x, f.i(-1)}, AxisAttrs{1})) == "narrow reshape");
  Fixture h;
  CHECK(h.simplified(h.b.create(OpKind::Gather, {h.x, h.i(7)}, AxisAttrs{1})) == "constant gather");
}

TEST_CASE("all rows in their order are a view; rows at repeated indices are repeated by what reads them") {
  const auto all_rows = [](bool swapped, int64_t step) {
    Fixture f;
    const Dim b = f.m.dims.symbol("b"), s = f.m.dims.symbol("s");
    const ValueId mask = f.b.input("mask", tensor_type(DType::F32, {b, s}));
    const auto range = [&](Dim n, std::vector<Dim> dims) {
      return f.b.reshape(f.b.create(OpKind::Range, {f.i(0), f.i(step)}, DimsAttrs{{n}, false}), std::move(dims));
    };
    const ValueId columns = f.b.create(OpKind::DimValue, {}, DimsAttrs{{s}, false});
    const ValueId i = range(b, {b, 1, 1, 1}), j = range(s, {s});
    const ValueId at = swapped ? f.b.add(f.b.mul(j, columns), i) : f.b.add(j, f.b.mul(i, columns));
    return f.simplified(f.b.create(OpKind::Gather, {f.b.reshape(mask, {f.m.dims.mul(b, s), 1}), at}, AxisAttrs{0}));
  };
  CHECK(all_rows(false, 1).find("gather") == std::string::npos);
  CHECK(all_rows(true, 1).find("gather") != std::string::npos);
  CHECK(all_rows(false, 2).find("gather") != std::string::npos);
  // One index per axis, as exporters write mask[rows, columns] with broadcast ranges.
  const auto elements = [](bool swapped, bool more) {
    Fixture f;
    const Dim b = f.m.dims.symbol("b"), s = f.m.dims.symbol("s"), c = more ? f.m.dims.symbol("c") : b;
    const ValueId mask = f.b.input("mask", tensor_type(DType::F32, {c, s}));
    const auto range = [&](Dim n, std::vector<Dim> dims) {
      const ValueId all = f.b.reshape(f.b.create(OpKind::Range, {f.i(0), f.i(1)}, DimsAttrs{{n}, false}), std::move(dims));
      return f.b.reshape(f.b.expand(all, {b, 1, 1, s}), {b, 1, 1, s, 1});
    };
    ValueId at[] = {range(b, {b, 1, 1, 1}), range(s, {1, 1, 1, s})};
    if (swapped) std::swap(at[0], at[1]);
    return f.simplified(f.b.create(OpKind::GatherNd, {mask, f.b.concat(at, 4)}, BatchDimsAttrs{0}));
  };
  CHECK(elements(false, false) == "input reshape");
  CHECK(elements(false, true) == "input constant constant range gather reshape");
  CHECK(elements(true, false).find("gather_nd") != std::string::npos);
  Fixture h;
  const Dim n = h.m.dims.symbol("n");
  const ValueId table = h.b.input("table", tensor_type(DType::F32, {9, 4})),
                ids = h.b.input("ids", tensor_type(DType::I64, {1, 3}));
  const ValueId rows = h.b.create(OpKind::Gather, {table, h.b.expand(ids, {n, 3})}, AxisAttrs{0});
  CHECK(h.simplified(h.b.add(rows, h.b.input("z", tensor_type(DType::F32, {n, 3, 4})))) == "input input gather input add");
  Fixture u;
  const ValueId zeros = u.b.constant(make_splat(DType::F32, {2, 5}, element_bytes(DType::F32, 3)));
  const ValueId at = u.b.input("at", tensor_type(DType::I64, {2, 3}));
  CHECK(u.simplified(u.b.create(OpKind::GatherElements, {zeros, at}, AxisAttrs{1})).find("gather") == std::string::npos);
}

TEST_CASE("elements at indices that repeat for leading axes are elements of one axis, and turned by their indices") {
  enum class Form { Expanded, Constant, Varied, Negative, OtherAxis };
  const auto picked = [](Form form, bool turned) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const bool other = form == Form::OtherAxis, constant = form == Form::Constant || form == Form::Varied;
      const ValueId x = f32_input(b, "x", {2, 3, 5, other ? 5 : 8});
      ValueId at;
      if (constant) {
        std::vector<int64_t> v;
        for (int64_t i = 0; i < 2 * 3 * 5 * 5; ++i) v.push_back((i % 25 * 3 + (form == Form::Varied ? i / 25 : 0)) % 8);
        at = b.constant(make_data(DType::I64, {2, 3, 5, 5}, v));
      } else {
        at = b.input("at", tensor_type(DType::I64, {1, 5, 5}));
        const ValueId limit = b.scalar(DType::I64, other ? 4 : 7), zero = b.scalar(DType::I64, form == Form::Negative ? -1 : 0);
        at = b.create(OpKind::Min, {b.create(OpKind::Max, {at, zero}), limit});
        at = b.expand(at, {2, 3, 5, 5});
      }
      const ValueId y = b.create(OpKind::GatherElements, {x, at}, AxisAttrs{other ? 2 : 3});
      return {turned ? b.transpose(y, {0, 1, 3, 2}) : y};
    };
  };
  const auto left = [&](Form form, bool turned) { return Rewrite("algebraic_simplify", picked(form, turned)).left(); };
  for (const Form form : {Form::Expanded, Form::Constant}) {
    CHECK(left(form, false).find("gather_elements") == std::string::npos);
    CHECK(left(form, true).ends_with("transpose gather"));
  }
  CHECK(left(Form::Negative, false) == "max min expand gather_elements");
  CHECK(left(Form::OtherAxis, false) == "max min expand gather_elements");
  CHECK(left(Form::Varied, false) == "gather_elements");
  // The value of the index is unknown, only its range.
  Fixture f;
  const ValueId x = f.b.input("wide", tensor_type(DType::F32, {2, 5, 8})), at = f.b.input("at", tensor_type(DType::I64, {5, 5}));
  CHECK(f.simplified(f.b.create(OpKind::GatherElements, {x, f.b.expand(at, {2, 5, 5})}, AxisAttrs{2}))
            .ends_with("gather_elements"));
}

TEST_CASE("only axes that the index of a gather brought are turned in the index") {
  const auto turned = [](std::vector<int64_t> perm, bool read_twice) {
    return Rewrite("algebraic_simplify",
                   [=](Builder& b) -> std::vector<ValueId> {
                     const ValueId x = f32_input(b, "x", {2, 9, 4});
                     const ValueId at = b.constant(make_data(DType::I64, {3, 2}, std::vector<int64_t>{8, 1, 2, 3, 0, 5}));
                     const ValueId y = b.create(OpKind::Gather, {x, at}, AxisAttrs{1});
                     std::vector<ValueId> out{b.transpose(y, perm)};
                     if (read_twice) out.push_back(y);
                     return out;
                   })
        .left();
  };
  CHECK(turned({0, 2, 1, 3}, false) == "transpose gather");
  CHECK(turned({0, 2, 1, 3}, true) == "gather transpose");
  CHECK(turned({0, 1, 3, 2}, false) == "gather transpose");
  CHECK(turned({3, 2, 1, 0}, false) == "gather transpose");
}

TEST_CASE("matrices that are repeated for a product broadcast") {
  const auto product = [](size_t side, std::vector<Dim> times) {
    return Rewrite("algebraic_simplify",
                   [=](Builder& b) -> std::vector<ValueId> {
                     const ValueId once = f32_input(b, "once", {3, 4, 4}), other = f32_input(b, "other", {6, 4, 8});
                     const ValueId tiled = b.create(OpKind::Tile, {once}, DimsAttrs{times, false});
                     return {side ? b.matmul(other, tiled, true, true) : b.matmul(tiled, other)};
                   })
        .left();
  };
  CHECK(product(0, {2, 1, 1}) == "reshape matmul reshape");
  CHECK(product(1, {2, 1, 1}) == "reshape matmul reshape");
  CHECK(product(0, {2, 2, 1}) == "tile matmul");
}

TEST_CASE("a pool pads what it reads, where its windows make the same of that") {
  const double nothing = -std::numeric_limits<double>::infinity();
  const auto pooled = [](ReduceOp op, double value, std::vector<int64_t> own = {0, 0}, int64_t by = 1, bool ceil = false) {
    Fixture f;
    const ValueId x = f.b.input("image", tensor_type(DType::F32, {1, 2, 6, 6}));
    const ValueId padded =
        f.b.create(OpKind::Pad, {x, f.f(value)}, PadAttrs{{0, 0, 1, 0}, {0, 0, f.m.dims.sub(Dim(by + 2), Dim(2)), 1}});
    const ValueId y = f.b.create(OpKind::Pool, {padded}, PoolAttrs{op, {3, 3}, {2, 2}, own, own, {1, 1}, ceil});
    return f.simplified(y);
  };
  CHECK(pooled(ReduceOp::Max, nothing) == "input pool");
  CHECK(pooled(ReduceOp::Max, nothing, {1, 1}) == "input pool");
  CHECK(pooled(ReduceOp::Mean, 0) == "input pool");
  CHECK(pooled(ReduceOp::Max, 0) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Max, nothing, {0, 0}, 3) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Max, nothing, {0, 0}, -1) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Max, nothing, {0, 0}, 1, true) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Mean, 1) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Mean, 0, {1, 1}) == "input constant pad pool");
  CHECK(pooled(ReduceOp::Sum, 0) == "input constant pad pool");
}

TEST_CASE("names and provenance survive") {
  Fixture f;
  const ValueId y = f.b.create(OpKind::Pow, {f.x, f.f(2)});
  f.g.set_node_name(f.g.def(y), f.m.symbol("/square"));
  f.simplified(y);
  const NodeId made = f.g.def(f.g.outputs()[0]);
  CHECK(f.g.label(made) == "/square");
  CHECK(f.m.text(f.m.origin(f.g.origin(made)).passes.at(0)) == "algebraic_simplify");
}

TEST_CASE("a Range compared with numbers it cannot reach") {
  const auto simplified = [](OpKind op, double c, bool first) {
    Fixture f;
    const ValueId range = f.b.create(OpKind::Range, {f.i(2), f.i(1)}, DimsAttrs{{f.m.dims.symbol("batch")}, false});
    const ValueId turned = f.b.reshape(range, {f.m.dims.symbol("batch"), 1});
    return f.simplified(first ? f.b.create(op, {turned, f.i(c)}) : f.b.create(op, {f.i(c), turned}));
  };
  for (const auto& [op, c, first] : {std::tuple{OpKind::Ge, 2, true},
                                     {OpKind::Gt, 1, true},
                                     {OpKind::Le, 2, false},
                                     {OpKind::Lt, 1, false},
                                     {OpKind::Lt, 2, true},
                                     {OpKind::Le, 1, true},
                                     {OpKind::Gt, 2, false},
                                     {OpKind::Ge, 1, false}})
    CHECK(simplified(op, c, first) == "constant expand");
  for (const auto& [op, c, first] :
       {std::tuple{OpKind::Ge, 3, true}, {OpKind::Gt, 2, true}, {OpKind::Lt, 3, true}, {OpKind::Eq, 0, true}})
    CHECK(simplified(op, c, first) != "constant expand");
}

TEST_CASE("masks are computed before they are expanded") {
  Fixture f;
  const Dim batch = f.m.dims.symbol("batch");
  const ValueId seen = f.b.input("seen", tensor_type(DType::Bool, {batch, 1, 4}));
  const ValueId all = f.b.expand(seen, {batch, 4, 4});
  const ValueId mask = f.b.create(OpKind::Where, {all, f.f(0), f.f(-5)});
  const ValueId scores = f.b.input("scores", tensor_type(DType::F32, {batch, 4, 4}));
  CHECK(f.simplified(f.b.add(scores, mask)) == "input constant constant where input add");
  // A reader that is not elementwise needs the expanded value.
  Fixture h;
  const ValueId wide = h.b.expand(h.b.input("v", tensor_type(DType::F32, {1, 4})), {3, 4});
  h.g.add_output(h.b.matmul(wide, wide, false, true), {});
  CHECK(h.simplified(h.b.mul(wide, h.f(2))) == "input expand matmul constant mul");
}

TEST_CASE("a second run changes nothing, on random graphs") {
  for (uint64_t seed = 1; seed <= 150; ++seed) {
    const auto m = random_graph({.seed = seed, .symbolic = seed % 2 == 0});
    PassRun run;
    run.options.fast_math = seed % 3 == 0;
    run(*m, "algebraic_simplify");
    const PassResult again = run(*m, "algebraic_simplify");
    CHECK_MESSAGE(!again.changed, "seed " << seed << ": " << (again.counts.empty() ? "" : again.counts[0].first));
  }
}

TEST_CASE("rewrites of a long chain are linear in its length") {
  Fixture f;
  ValueId v = f.x;
  for (int i = 0; i < 50000; ++i) v = f.b.transpose(f.b.unary(OpKind::Tanh, v), {1, 0});
  f.g.add_output(v, {});
  const PassResult r = f.run(f.m, "algebraic_simplify");
  int64_t total = 0;
  for (const auto& c : r.counts) total += c.second;
  CHECK(total < 200000);
  CHECK(f.g.live_nodes() == 2 + 50000);
}
