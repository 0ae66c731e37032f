#include <limits>

#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "fuse_shared_input_matmul";

// A target without cost of copies.
void free_copies(PassRun& run) {
  run.target.machine = {0, std::numeric_limits<double>::infinity(), std::numeric_limits<double>::infinity(), 1};
}

int64_t count(const Rewrite& r, OpKind op) {
  int64_t n = 0;
  for (NodeId k : r.after->main().nodes()) n += r.after->main().op(k) == op;
  return n;
}
int64_t matmuls(const Rewrite& r) { return count(r, OpKind::MatMul); }

}  // namespace

TEST_CASE("fuse_shared_input_matmul: query, key and value of different widths, with and without bias") {
  for (const int biases : {0, 2, 3})
    for (const bool trans : {false, true}) {
      const Rewrite r(
          kPass,
          [&](Builder& b) {
            const ValueId x = f32_input(b, "x", {2, 3, 8});
            std::vector<ValueId> out;
            const int64_t widths[] = {8, 4, 4};
            for (int i = 0; i < 3; ++i) {
              const std::string id = std::to_string(i);
              const int64_t n = widths[i];
              ValueId y = b.matmul(x, f32_param(b, "w" + id, trans ? std::vector<int64_t>{n, 8} : std::vector<int64_t>{8, n}),
                                   false, trans);
              if (i < biases) y = b.add(y, f32_param(b, "bias" + id, {n}));
              out.push_back(b.unary(OpKind::Tanh, y));
            }
            return out;
          },
          free_copies);
      CHECK(matmuls(r) == 1);
      CHECK(r.run.decisions.at(0).members.size() == 3);
      CHECK(r.run.decisions.at(0).launches_saved == 2);
    }
}

TEST_CASE("fuse_shared_input_matmul: symbolic rows, widths and weights that are declared late") {
  const Rewrite r(
      kPass,
      [](Builder& b) {
        const ValueId x = f32_input(b, "x", {b.dims().symbol("s"), 8});
        const ValueId first = b.unary(OpKind::Tanh, b.matmul(x, f32_param(b, "w", {8, 4})));
        return std::vector{first, b.matmul(x, b.transpose(f32_param(b, "late", {4, 8}), {1, 0}))};
      },
      free_copies);
  CHECK(matmuls(r) == 1);
}

TEST_CASE("fuse_shared_input_matmul: products that are outputs keep their values") {
  const Rewrite r(
      kPass,
      [](Builder& b) {
        const ValueId x = f32_input(b, "x", {3, 8});
        const ValueId p = b.matmul(x, f32_param(b, "p", {8, 4})), q = b.matmul(x, f32_param(b, "q", {8, 4}));
        return std::vector{p, b.add(p, f32_param(b, "bias", {4})), q};
      },
      free_copies);
  CHECK(matmuls(r) == 1);
}

TEST_CASE("fuse_shared_input_matmul: parts that would be copied stay products where copies cost more than they save") {
  for (const int copies : {0, 1, 2}) {
    const Rewrite r(kPass, [&](Builder& b) {
      const ValueId x = f32_input(b, "x", {2, 3, 8});
      const auto part = [&](const char* name, bool copied) {
        const ValueId y = b.matmul(x, f32_param(b, name, {8, 8}));
        return copied ? b.reshape(b.create(OpKind::Softmax, {b.reshape(y, {6, 8})}, AxisAttrs{1}), {2, 3, 8}) : y;
      };
      AttentionAttrs a;
      a.num_heads = a.num_kv_heads = 2, a.layout = a.out_layout = AttentionLayout::Packed;
      return std::vector{b.create(OpKind::Attention, {part("q", copies > 0), part("k", copies > 1), part("v", false)}, a)};
    });
    CHECK(matmuls(r) == (copies == 2 ? 3 : 1));
    CHECK(r.first_decline() == (copies == 2 ? "cost" : ""));
  }
}

TEST_CASE("fuse_shared_input_matmul: what would end a product alone counts, unless another operation computes it") {
  enum End { None, Act, Sum, Moved };
  const auto products = [](std::vector<End> ends, bool read) {
    return [=](Builder& b) {
      const ValueId x = f32_input(b, "x", {4, 8});
      std::vector<ValueId> out;
      for (const End end : ends) {
        const std::string id = std::to_string(out.size());
        ValueId y = b.add(b.matmul(x, f32_param(b, "w" + id, {8, 4})), f32_param(b, "bias" + id, {4}));
        if (end == Moved) y = b.reshape(y, {2, 8});
        if (end == Sum) y = b.add(y, f32_input(b, "r" + id, {4, 4}));
        else if (end != None) y = b.unary(OpKind::Relu, y);
        out.push_back(read || end == None ? b.mul(y, f32_input(b, "by" + id, {Dim(1)})) : y);
      }
      return out;
    };
  };
  for (const End end : {Act, Sum, Moved}) {
    const Rewrite all(kPass, products({end, end}, false));
    CHECK(matmuls(all) == 2);
    CHECK(all.first_decline() == "cost");
  }
  CHECK(matmuls(Rewrite(kPass, products({None, Act, None}, false))) == 1);
  CHECK(matmuls(Rewrite(kPass, products({Act, None, Act, None, Sum}, false))) == 1);
  CHECK(matmuls(Rewrite(kPass, products({None, Act, Sum, None, Act}, true))) == 1);
  CHECK(matmuls(Rewrite(kPass, products({Act, Act}, true))) == 1);
  const Rewrite unsupported(kPass, products({Act, Act}, false),
                            [](PassRun& run) { run.target.epilogues.reset(static_cast<size_t>(OpKind::Relu)); });
  CHECK(matmuls(unsupported) == 1);
}

TEST_CASE("fuse_shared_input_matmul: weights known only at run time, of another layout, or the other operand") {
  const Rewrite runtime(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 8});
    return std::vector{b.matmul(x, f32_input(b, "u", {8, 4})), b.matmul(x, f32_param(b, "w", {8, 4}))};
  });
  CHECK_FALSE(runtime.result.changed);
  CHECK(runtime.first_decline() == "runtime_weights");
  const Rewrite layout(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 8});
    return std::vector{b.matmul(x, f32_param(b, "u", {8, 4})), b.matmul(x, f32_param(b, "w", {4, 8}), false, true)};
  });
  CHECK_FALSE(layout.result.changed);
  CHECK(layout.first_decline() == "layout_differs");
  const Rewrite pairs(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 8});
    std::vector<ValueId> out;
    for (const char* id : {"0", "1", "2", "3", "4"}) {
      const bool turned = *id % 2;
      const auto dims = turned ? std::vector<int64_t>{4, 8} : std::vector<int64_t>{8, 4};
      const ValueId y = b.matmul(x, f32_param(b, "w" + std::string(id), dims), false, turned);
      out.push_back(b.mul(y, f32_input(b, "by" + std::string(id), {Dim(1)})));
    }
    return out;
  });
  CHECK(matmuls(pairs) == 2);
  CHECK(pairs.first_decline() == "layout_differs");
  const Rewrite right(kPass, [](Builder& b) {
    const ValueId w = f32_param(b, "w", {8, 4});
    return std::vector{b.matmul(f32_input(b, "x", {3, 8}), w), b.matmul(f32_input(b, "z", {2, 8}), w)};
  });
  CHECK_FALSE(right.result.changed);
}

TEST_CASE("fuse_shared_input_matmul: weights kept as codes lie side by side with their scales and zero points") {
  for (const bool trans_b : {false, true})
    for (const bool zero : {false, true})
      for (const DType t : {DType::I4, DType::U8}) {
        const Rewrite r(
            kPass,
            [&](Builder& b) {
              const ValueId x = f32_input(b, "x", {2, 3, 8});
              std::vector<ValueId> out;
              for (const int64_t n : {8, 4, 2}) {
                ValueId y = CodesOf{.n = n, .trans_b = trans_b, .zero = zero, .codes = t}(b, x);
                if (n == 4) y = b.add(y, f32_param(b, "bias", {n}));
                out.push_back(b.unary(OpKind::Tanh, y));
              }
              return out;
            },
            free_copies);
        CHECK(count(r, OpKind::DequantMatMul) == 1);
        CHECK(r.run.decisions.at(0).members.size() == 3);
      }
}

TEST_CASE("fuse_shared_input_matmul: codes of other types, blocks and layouts, and numbers beside codes stay apart") {
  const auto beside = [](CodesOf other) {
    return Rewrite(kPass, [other](Builder& b) {
      const ValueId x = f32_input(b, "x", {3, 8});
      return std::vector{CodesOf{}(b, x), other(b, x)};
    });
  };
  CHECK(beside({.codes = DType::U4}).first_decline() == "quantization_differs");
  CHECK(beside({.block = 2}).first_decline() == "quantization_differs");
  CHECK(beside({.zero = true}).first_decline() == "quantization_differs");
  CHECK(beside({.trans_b = true}).first_decline() == "layout_differs");
  const Rewrite plain(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {3, 8});
    return std::vector{CodesOf{}(b, x), b.matmul(x, f32_param(b, "w", {8, 4}))};
  });
  CHECK(plain.first_decline() == "quantization_differs");
}

TEST_CASE("fuse_shared_input_matmul: weights that a long chain decodes at load time") {
  const Rewrite r(kPass, [](Builder& b) {
    const ValueId x = f32_input(b, "x", {1, 8});
    const auto decoded = [&](std::string_view name) {
      ValueId w = f32_param(b, name, {4, 8});
      for (int i = 0; i < 12; ++i) w = b.unary(OpKind::Neg, w);
      return w;
    };
    return std::vector{b.matmul(x, decoded("u"), false, true), b.matmul(x, decoded("w"), false, true)};
  });
  CHECK(matmuls(r) == 1);
}

TEST_CASE("fuse_shared_input_matmul: 20,000 far readers of one value in n log n") {
  Module m;
  Builder b(m.main());
  const ValueId x = f32_input(b, "x", {2, 2}), w = f32_param(b, "w", {2, 2});
  ValueId y = x;
  for (int i = 0; i < 20000; ++i) {
    for (int k = 0; k < 100; ++k) y = b.unary(OpKind::Tanh, y);
    if (i % 10 == 0) y = b.add(y, b.matmul(x, w));
  }
  m.main().add_output(y, {});
  PassRun run;
  CHECK_FALSE(run(m, kPass).changed);
}

TEST_CASE("fuse_shared_input_matmul: no more weights side by side than there is room for") {
  const auto products = [](Builder& b) {
    std::vector<ValueId> out;
    for (int layer = 0; layer < 2; ++layer) {
      const ValueId x = f32_input(b, "x" + std::to_string(layer), {2, 8});
      for (int i = 0; i < 2; ++i)
        out.push_back(b.unary(OpKind::Tanh, b.matmul(x, f32_param(b, "w" + std::to_string(2 * layer + i), {8, 4}))));
    }
    return out;
  };
  const auto limit = [](uint64_t bytes) { return [bytes](PassRun& run) { free_copies(run), run.options.max_packed = bytes; }; };
  CHECK(matmuls(Rewrite(kPass, products, free_copies)) == 2);
  CHECK(matmuls(Rewrite(kPass, products, limit(512))) == 2);
  const Rewrite one(kPass, products, limit(511));
  CHECK(matmuls(one) == 3);
  CHECK(one.run.decisions.back().reason == "packed_limit");
  CHECK(one.run.decisions.back().detail == "the weights side by side take 256 bytes, 255 of --max-packed are left");
  CHECK(matmuls(Rewrite(kPass, products, limit(0))) == 4);
}

TEST_CASE("fuse_shared_input_matmul: products of weights alone are made before the first run, and stay apart without a word") {
  const Rewrite r(
      kPass,
      [](Builder& b) {
        const ValueId x = f32_input(b, "x", {3, 4}), table = f32_param(b, "table", {3, 8});
        std::vector<ValueId> out;
        for (const char* w : {"w0", "w1"}) out.push_back(b.add(x, b.matmul(table, f32_param(b, w, {8, 4}))));
        return out;
      },
      free_copies);
  CHECK(matmuls(r) == 2);
  CHECK(r.run.decisions.empty());
}
