#include "kernel/builders/map.h"

#include <doctest/doctest.h>

#include <cmath>

#include "support/kernel_check.h"

using namespace rlxc;
using namespace rlxc::kernel;
using namespace rlxc::target;

namespace {

Dims to_dims(const std::vector<int64_t>& v) {
  Dims d;
  for (int64_t n : v) d.push_back(n);
  return d;
}

// y = a * b + |a|, with NumPy broadcast of a and b.
KernelCase multiply(std::vector<int64_t> a, std::vector<int64_t> b, std::vector<int64_t> shape, DType t = DType::F32) {
  auto count = [](const std::vector<int64_t>& s) {
    int64_t n = 1;
    for (int64_t d : s) n *= d;
    return n;
  };
  KernelCase c;
  for (int64_t d : shape) c.name += std::to_string(d) + " ";
  c.build = [=](kernel::Builder& builder, const Mapping& m) {
    Kernel* k = builder.kernel();
    MapSpec spec;
    spec.shape = to_dims(shape);
    spec.inputs = {broadcast_operand(k, "a", t, to_dims(a), spec.shape), broadcast_operand(k, "b", t, to_dims(b), spec.shape)};
    spec.outputs = {dense(k, "y", t, spec.shape)};
    spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0] * v[1] + abs(v[0])}; };
    build_map(builder, spec, m);
  };
  auto at = [&](const std::vector<int64_t>& own, size_t linear) {
    size_t offset = 0, stride = 1;
    for (size_t back = 1; back <= shape.size(); ++back) {
      size_t i = linear % shape[shape.size() - back];
      linear /= shape[shape.size() - back];
      if (back > own.size()) continue;
      if (own[own.size() - back] != 1) offset += i * stride;
      stride *= own[own.size() - back];
    }
    return offset;
  };
  CheckBuffer x{t, random_values(count(a), t, -9, 9, 1)}, y{t, random_values(count(b), t, -9, 9, 2)}, z{t, {}, true};
  for (int64_t i = 0; i < count(shape); ++i) {
    double u = x.values[at(a, i)], v = y.values[at(b, i)];
    z.values.push_back(u * v + std::fabs(u));
  }
  c.buffers = {x, y, z};
  return c;
}

// Columns 1..4 of rows of 6: every row is misaligned for vectors.
KernelCase columns() {
  KernelCase c;
  c.name = "columns 1..4 of 6";
  c.build = [](kernel::Builder& builder, const Mapping& m) {
    Kernel* k = builder.kernel();
    MapSpec spec;
    spec.shape = {5, 4};
    Operand x = dense(k, "x", DType::F32, {5, 6});
    x.offset = 1;
    spec.inputs = {x};
    spec.outputs = {dense(k, "y", DType::F32, spec.shape)};
    spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0]}; };
    build_map(builder, spec, m);
  };
  CheckBuffer x{DType::F32, random_values(30, DType::F32, -9, 9, 3)}, y{DType::F32, {}, true};
  for (size_t i = 0; i < 20; ++i) y.values.push_back(x.values[i / 4 * 6 + 1 + i % 4]);
  c.buffers = {x, y};
  return c;
}

// y = (a transposed) * b + c for matrices of `rows` x `columns`, where c has a value per row.
KernelCase turned(int64_t rows, int64_t columns, DType t) {
  KernelCase k;
  k.name = "turned " + std::to_string(rows) + " x " + std::to_string(columns) + " " + std::string(name(t));
  k.build = [=](kernel::Builder& builder, const Mapping& m) {
    MapSpec spec;
    spec.shape = {rows, columns};
    Operand a = dense(builder.kernel(), "a", t, {columns, rows}), c = dense(builder.kernel(), "c", t, {rows, 1});
    a.strides = {1, rows};
    c.strides = {1, 0};
    spec.inputs = {a, dense(builder.kernel(), "b", t, spec.shape), c};
    spec.outputs = {dense(builder.kernel(), "y", t, spec.shape)};
    spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0] * v[1] + v[2]}; };
    build_map(builder, spec, m);
  };
  CheckBuffer a{t, random_values(rows * columns, t, -5, 5, 4)}, b{t, random_values(rows * columns, t, -5, 5, 5)},
      c{t, random_values(rows, t, -5, 5, 6)}, y{t, {}, true};
  for (size_t i = 0; i < static_cast<size_t>(rows * columns); ++i) {
    const size_t row = i / static_cast<size_t>(columns), column = i % static_cast<size_t>(columns);
    y.values.push_back(a.values[column * static_cast<size_t>(rows) + row] * b.values[i] + c.values[row]);
  }
  k.buffers = {a, b, c, y};
  return k;
}

// y[i][c][w] = a[i][w][c] * b for a number b: the planes of a are interleaved.
KernelCase interleaved_planes(int64_t width, int64_t columns, DType t) {
  constexpr int64_t kImages = 3;
  KernelCase k;
  k.name = std::to_string(width) + " planes of " + std::to_string(columns) + " " + std::string(name(t));
  k.build = [=](kernel::Builder& builder, const Mapping& m) {
    MapSpec spec;
    spec.shape = {kImages, columns, width};
    Operand a = dense(builder.kernel(), "a", t, {kImages, width, columns}), b = dense(builder.kernel(), "b", t, {1, 1, 1});
    a.strides = {width * columns, 1, columns};
    b.strides = {0, 0, 0};
    spec.inputs = {a, b};
    spec.outputs = {dense(builder.kernel(), "y", t, spec.shape)};
    spec.body = [](const std::vector<Expr>& v) { return std::vector<Expr>{v[0] * v[1]}; };
    build_map(builder, spec, m);
  };
  const auto plane = static_cast<size_t>(width * columns), across = static_cast<size_t>(columns),
             deep = static_cast<size_t>(width);
  CheckBuffer a{t, random_values(kImages * plane, t, -5, 5, 7)}, b{t, {2}}, y{t, {}, true};
  for (size_t i = 0; i < a.values.size(); ++i)
    y.values.push_back(2 * a.values[i / plane * plane + i % deep * across + i % plane / deep]);
  k.buffers = {a, b, y};
  return k;
}

}  // namespace

TEST_CASE("elementwise kernels: awkward shapes and broadcasts") {
  std::vector<KernelCase> cases;
  for (int64_t n : {0, 1, 2, 3, 5, 7, 16, 17, 31, 64, 97, 1000}) cases.push_back(multiply({n}, {n}, {n}));
  cases.push_back(multiply({}, {}, {}));
  cases.push_back(multiply({3, 1, 5}, {3, 4, 5}, {3, 4, 5}));
  cases.push_back(multiply({1, 64}, {13, 1}, {13, 64}));
  cases.push_back(multiply({64}, {2, 3, 64}, {2, 3, 64}));
  cases.push_back(multiply({2, 3, 1}, {64}, {2, 3, 64}));
  cases.push_back(multiply({2, 1, 3, 1}, {1, 5, 1, 7}, {2, 5, 3, 7}));
  cases.push_back(multiply({2, 0, 3}, {3}, {2, 0, 3}));
  cases.push_back(multiply({4, 33}, {33}, {4, 33}));
  for (int64_t n : {24, 31}) cases.push_back(multiply({4, n}, {4, 1}, {4, n}));
  cases.push_back(columns());
  for (DType t : {DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8})
    for (int64_t n : {1, 7, 130}) cases.push_back(multiply({3, n}, {n}, {3, n}, t));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("elementwise kernels: a transposed operand, in squares and at their edges") {
  std::vector<KernelCase> cases;
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8})
    for (const auto& [rows, columns] : {std::pair{16, 16}, {32, 48}, {37, 50}, {8, 40}, {5, 40}, {40, 3}})
      cases.push_back(turned(rows, columns, t));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}

TEST_CASE("elementwise kernels: interleaved planes") {
  std::vector<KernelCase> cases;
  for (DType t : {DType::F32, DType::F64, DType::F16, DType::BF16, DType::I64, DType::I32, DType::I16, DType::I8})
    for (const auto& [width, columns] : {std::pair{2, 16}, {2, 33}, {4, 50}, {8, 40}, {3, 40}, {2, 5}})
      cases.push_back(interleaved_planes(width, columns, t));
  for (const std::string& p : check_kernels(cases)) FAIL_CHECK(p);
}
