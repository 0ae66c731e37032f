// Each pass alone on graphs of growing size: million nodes a second (of the nodes before), and what it changed. A pass that is
// not linear shows as a falling row.
//   pass_bench [--pass NAME] [nodes ...]
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <functional>
#include <memory>
#include <string>

#include "ir/builder.h"
#include "ir/graphs.h"
#include "passes/passes.h"

using namespace rlxc;

namespace {

ValueId weight(Builder& b, size_t i, std::vector<Dim> dims) {
  return b.param("w" + std::to_string(i), tensor_type(DType::F32, std::move(dims)));
}

// A chain that nothing simplifies.
void chain(Builder& b, size_t nodes) {
  ValueId v = b.input("x", tensor_type(DType::F32, {4, 8}));
  for (size_t i = 0; i < nodes; ++i) v = b.unary(i % 2 ? OpKind::Tanh : OpKind::Sigmoid, v);
  b.graph().add_output(v, {});
}

// A chain of pairs that cancel, and of identities.
void identities(Builder& b, size_t nodes) {
  ValueId v = b.input("x", tensor_type(DType::F32, {4, 8}));
  const ValueId one = b.scalar(DType::F32, 1);
  for (size_t i = 0; i < nodes / 4; ++i) v = b.mul(b.unary(OpKind::Neg, b.unary(OpKind::Neg, b.transpose(v, {1, 0}))), one);
  b.graph().add_output(v, {});
}

// Everything is dead, or computed twice, or constant.
void dead(Builder& b, size_t nodes) {
  const ValueId x = b.input("x", tensor_type(DType::F32, {4, 8}));
  ValueId v = x;
  for (size_t i = 0; i < nodes; ++i) v = b.unary(i % 2 ? OpKind::Tanh : OpKind::Sigmoid, v);
  b.graph().add_output(x, {});
}
void twins(Builder& b, size_t nodes) {
  ValueId v = b.input("x", tensor_type(DType::F32, {4, 8}));
  for (size_t i = 0; i < nodes / 3; ++i) v = b.add(b.unary(OpKind::Tanh, v), b.unary(OpKind::Tanh, v));
  b.graph().add_output(v, {});
}
void constants(Builder& b, size_t nodes) {
  ValueId v = b.scalar(DType::I64, 1);
  for (size_t i = 0; i < nodes / 2; ++i) v = b.add(v, b.scalar(DType::I64, 1));
  b.graph().add_output(v, {});
}

// One value with all nodes as readers.
void fan(Builder& b, size_t nodes) {
  const ValueId x = b.input("x", tensor_type(DType::F32, {4, 8}));
  std::vector<ValueId> parts;
  for (size_t i = 0; i < nodes; ++i) parts.push_back(b.create(OpKind::LeakyRelu, {x}, AlphaBetaAttrs{static_cast<double>(i), 0}));
  b.graph().add_output(b.concat(parts, 0), {});
}

// Blocks of a transformer as exporters write them, 24 nodes and 8 weights each.
void blocks(Builder& b, size_t nodes) {
  const Dim seq = b.dims().symbol("seq");
  ValueId x = b.input("x", tensor_type(DType::F32, {1, seq, 64}));
  for (size_t i = 0; i < nodes / 32; ++i) {
    const auto w = [&](size_t k, std::vector<Dim> dims) { return weight(b, 8 * i + k, std::move(dims)); };
    const ValueId n = b.create(OpKind::LayerNorm, {x, w(0, {64}), w(1, {64})}, NormAttrs{2, 1e-5});
    const auto heads = [&](size_t k) {
      return b.transpose(b.reshape(b.matmul(n, w(k, {64, 64})), {Dim(1), seq, 4, 16}), {0, 2, 1, 3});
    };
    const ValueId q = heads(2), k = heads(3), v = heads(4);
    const ValueId s = b.mul(b.matmul(q, b.transpose(k, {0, 1, 3, 2})), b.scalar(DType::F32, 0.25));
    const ValueId p = b.create(OpKind::Softmax, {s}, AxisAttrs{3});
    const ValueId o = b.reshape(b.transpose(b.matmul(p, v), {0, 2, 1, 3}), {Dim(1), seq, 64});
    x = b.add(x, b.matmul(o, w(5, {64, 64})));
    const ValueId h = b.unary(OpKind::Gelu, b.matmul(b.create(OpKind::LayerNorm, {x}, NormAttrs{2, 1e-5}), w(6, {64, 128})));
    x = b.add(x, b.matmul(h, w(7, {128, 64})));
  }
  b.graph().add_output(x, {});
}

struct Shape {
  const char* name;
  void (*build)(Builder&, size_t);
};
constexpr Shape kShapes[] = {{"chain", chain},  {"identities", identities}, {"dead", dead},
                             {"twins", twins},  {"constants", constants},   {"fan", fan},
                             {"blocks", blocks}};

}  // namespace

int main(int argc, char** argv) {
  std::vector<size_t> sizes;
  std::string only;
  for (int i = 1; i < argc; ++i) {
    if (!std::strcmp(argv[i], "--pass") && i + 1 < argc) only = argv[++i];
    else sizes.push_back(static_cast<size_t>(std::atoll(argv[i])));
  }
  if (sizes.empty()) sizes = {100'000, 1'000'000};
  for (const PassInfo& pass : all_passes()) {
    if (!only.empty() && pass.name != only) continue;
    std::printf("%-34s", std::string(pass.name).c_str());
    for (const Shape& shape : kShapes)
      for (size_t n : sizes) {
        Module m;
        Builder b(m.main());
        shape.build(b, n);
        TargetTraits target;
        PassOptions options;
        options.precision = PrecisionPolicy::AutoMixed;
        Diagnostics diagnostics;
        std::vector<Decision> decisions;
        std::vector<PrecisionNote> notes;
        PassContext context{target, options, diagnostics, decisions, notes};
        m.current_pass = m.symbol(pass.name);
        const size_t nodes = live_nodes(m);
        const auto start = std::chrono::steady_clock::now();
        const PassResult r = pass.run(m, context);
        const double s = std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
        std::printf(" %s%s %.1f", n == sizes[0] ? shape.name : "", r.changed ? "*" : "", 1e-6 * static_cast<double>(nodes) / s);
        std::fflush(stdout);
      }
    std::printf("\n");
  }
}
