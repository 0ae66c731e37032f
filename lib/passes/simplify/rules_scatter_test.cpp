#include "support/rewrite.h"

using namespace rlxc;
using namespace rlxc::testing;

namespace {

constexpr std::string_view kPass = "algebraic_simplify";

struct Size {
  bool open = false;
  Dim operator()(Builder& b, std::string_view name, int64_t known) const {
    return open ? b.module().dims.symbol(name) : Dim(known);
  }
};

// start, start + step, .. (n elements), reshaped to `dims`.
ValueId count(Builder& b, Dim n, std::vector<Dim> dims, int64_t start = 0, int64_t step = 1) {
  const ValueId v =
      b.create(OpKind::Range, {b.scalar(DType::I64, static_cast<double>(start)), b.scalar(DType::I64, static_cast<double>(step))},
               DimsAttrs{{n}, false});
  return b.reshape(v, std::move(dims));
}

// x[:, :, :] = updates with an index for every element, with one deviation.
struct Grid {
  Size size = {};
  bool swapped = false;                      // swaps the first two components of the index
  bool repeated = false;                     // the second component is constant
  int64_t start = 0, step = 1, shorter = 0;  // for the last axis
  Reduction reduction = Reduction::None;

  std::vector<ValueId> operator()(Builder& b) const {
    const Dim n = size(b, "n", 3), h = swapped ? n : size(b, "h", 4), s = size(b, "s", 5);
    const Dim written(size.open ? s : Dim(5 - shorter));
    const ValueId x = f32_input(b, "x", {n, h, s}), updates = f32_input(b, "updates", {n, h, written});
    std::vector<ValueId> at{count(b, n, {n, 1, 1}), count(b, h, {h, 1}), count(b, written, {written}, start, step)};
    if (repeated) at[1] = b.reshape(b.scalar(DType::I64, 0), {1});
    if (swapped) std::swap(at[0], at[1]);
    for (ValueId& v : at) v = b.reshape(b.expand(v, {n, h, written}), {n, h, written, 1});
    return {b.create(OpKind::ScatterNd, {x, b.concat(at, 3), updates}, ScatterAttrs{0, reduction})};
  }
};

std::string left_of(const Rewrite::Build& build) { return Rewrite(kPass, build).left(); }
bool stays(const Rewrite::Build& build) { return left_of(build).find("scatter") != std::string::npos; }

}  // namespace

TEST_CASE("a scatter over all elements in their order is its updates") {
  for (const bool open : {false, true}) CHECK(left_of(Grid{.size = {open}}) == "");
  CHECK(stays(Grid{.swapped = true}));
  CHECK(stays(Grid{.repeated = true}));
  CHECK(stays(Grid{.shorter = 1}));
  CHECK(stays(Grid{.start = 1, .shorter = 1}));
  CHECK(stays(Grid{.start = -2, .shorter = 1}));
  CHECK(stays(Grid{.step = 0}));
  CHECK(stays(Grid{.reduction = Reduction::Add}));
}

TEST_CASE("constant indices that name every element or row in order") {
  const auto elements = [](bool whole) {
    return [whole](Builder& b) -> std::vector<ValueId> {
      std::vector<int64_t> at;
      for (int64_t i = 0; i < 6; ++i) at.insert(at.end(), {i / 3, !whole && i == 4 ? 0 : i % 3});
      const ValueId x = f32_input(b, "x", {2, 3, 4}), updates = f32_input(b, "updates", {2, 3, 4});
      return {b.create(OpKind::ScatterNd, {x, b.constant(make_data(DType::I64, {2, 3, 2}, at)), updates}, ScatterAttrs{})};
    };
  };
  CHECK(left_of(elements(true)) == "");
  CHECK(stays(elements(false)));
}

TEST_CASE("rows and elements along an axis, all of them") {
  for (const bool open : {false, true})
    for (const OpKind op : {OpKind::ScatterNd, OpKind::ScatterElements}) {
      const auto written = [&](bool along_other) {
        return [=](Builder& b) -> std::vector<ValueId> {
          const Dim n = Size{open}(b, "n", 4), m = along_other ? n : Dim(3);
          const ValueId x = f32_input(b, "x", {n, m}), updates = f32_input(b, "updates", {n, m});
          const ValueId at = op == OpKind::ScatterNd ? count(b, n, {n, 1})
                             : along_other           ? b.expand(count(b, n, {1, n}), {n, n})
                                                     : b.expand(count(b, n, {n, 1}), {n, m});
          return {b.create(op, {x, at, updates}, ScatterAttrs{0, Reduction::None})};
        };
      };
      CHECK(left_of(written(false)) == "");
      if (op == OpKind::ScatterElements) CHECK(stays(written(true)));
    }
}

TEST_CASE("a part that lies in what is written is one of the updates, one outside is one of what was there") {
  const auto part = [](int64_t start, int64_t len, int64_t rows = 3) {
    return [=](Builder& b) -> std::vector<ValueId> {
      const ValueId x = f32_input(b, "x", {3, 9}), updates = f32_input(b, "updates", {Dim(rows), 4});
      const ValueId at = b.expand(count(b, 4, {1, 4}, 2), {Dim(rows), 4});  // columns 2 to 5
      return {b.narrow(b.create(OpKind::ScatterElements, {x, at, updates}, ScatterAttrs{1, Reduction::None}), 1, Dim(start),
                       Dim(len))};
    };
  };
  for (const auto& [start, len] : {std::pair(2, 4), std::pair(3, 2)}) CHECK_FALSE(stays(part(start, len)));
  for (const auto& [start, len] : {std::pair(0, 2), std::pair(6, 3)}) CHECK(left_of(part(start, len)) == "narrow");
  for (const auto& [start, len] : {std::pair(1, 4), std::pair(4, 3), std::pair(0, 9)}) CHECK(stays(part(start, len)));
  CHECK(left_of(part(7, 1, 2)) == "narrow");
  CHECK(stays(part(2, 4, 2)));
}
