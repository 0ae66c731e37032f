#include "kernel/fuse_kernels.h"

#include <doctest/doctest.h>

#include <functional>
#include <numeric>

#include "kernel/builder.h"
#include "kernel/interpret.h"
#include "kernel/simplify.h"
#include "kernel/verify.h"

using namespace rlxc;
using namespace rlxc::kernel;

namespace {

constexpr int64_t kElements = 40;

Mapping lanes_of(int64_t shared_bytes = 1 << 10) {
  Mapping m;
  m.workgroups = true, m.shared_bytes = shared_bytes, m.max_workgroup_size = 32;
  return m;
}

// y[i] = f(x[i]) in workgroups of 8 threads.
Kernel each(const std::function<Expr(Expr)>& f) {
  kernel::Builder b("each");
  const Buf x = b.input("x", DType::F32, kElements), y = b.output("y", DType::F32, kElements);
  const Expr i = b.grid("g", 0, kElements / 8) * 8 + b.threads("l", 0, 8);
  y.store(i, f(x[i]));
  return b.finish();
}

// Workgroups of `lanes` threads on a two-axis grid reverse their elements, `rounds` times.
Kernel reversed(int64_t lanes, int64_t rounds) {
  kernel::Builder b("reversed");
  const Buf x = b.input("x", DType::F32, kElements), y = b.output("y", DType::F32, kElements);
  const Expr row = b.grid("row", 1, kElements / lanes / 2), half = b.grid("half", 0, 2), l = b.threads("l", 0, lanes);
  const Buf s = b.shared("s", DType::F32, lanes);
  const Expr base = (row * 2 + half) * lanes;
  const Buf at = b.variable("at", x[base + l]);
  b.loop("round", rounds, [&](Expr) {
    s.store(l, at.get());
    b.barrier();
    at.set(s[lanes - 1 - l]);
    b.barrier();
  });
  y.store(base + l, at.get());
  return b.finish();
}

struct Joined {
  std::optional<Kernel> kernel;
  std::string why;

  Joined(std::vector<Kernel> kernels, const Mapping& m = lanes_of()) : parts(std::move(kernels)) {
    std::vector<const Kernel*> list;
    for (Kernel& k : parts) simplify(k), list.push_back(&k);
    kernel = fuse_kernels("all", list, m, &why);
  }
  // Each part reads the previous part's output. The fused kernel must compute the same as the separate ones.
  void check() {
    REQUIRE_MESSAGE(kernel.has_value(), why);
    simplify(*kernel);
    for (Buffer& b : kernel->buffers) b.may_alias = b.space == Space::Global;
    for (const std::string& s : verify(*kernel, {})) FAIL_CHECK(s);
    std::vector<std::vector<float>> apart(parts.size() + 1, std::vector<float>(kElements)), together = apart;
    std::iota(apart[0].begin(), apart[0].end(), 1.0F), together[0] = apart[0];
    std::vector<void*> arguments;
    for (size_t i = 0; i < parts.size(); ++i) {
      std::vector<void*> own = {apart[i].data(), apart[i + 1].data()};
      REQUIRE(interpret(parts[i], own, {}).ok());
      arguments.insert(arguments.end(), {together[i].data(), together[i + 1].data()});
    }
    for (const std::string& s : interpret(*kernel, arguments, {}).findings) FAIL_CHECK(s);
    CHECK(together == apart);
  }

  std::vector<Kernel> parts;
};

}  // namespace

TEST_CASE("kernels that are joined compute what they compute apart") {
  const Kernel twice = each([](Expr x) { return x * 2; }), more = each([](Expr x) { return x + 1; });
  Joined({twice, more}).check();
  Joined({twice, reversed(4, 1), more}).check();                           // 10 workgroups, two at a time
  Joined({reversed(20, 1), twice, reversed(4, 3)}).check();                // 20 threads: five of four, some of eight unused
  Joined({reversed(4, 1), reversed(20, 1), twice}, lanes_of(96)).check();  // shared memory for one workgroup at a time
}

TEST_CASE("groups take turns side by side while lanes and shared memory last") {
  const auto turns = [](int64_t shared_bytes) {
    const Joined j({reversed(20, 1), reversed(2, 1)}, lanes_of(shared_bytes));
    REQUIRE(j.kernel.has_value());
    std::vector<int64_t> found;
    std::function<void(const std::vector<Stmt>&)> look = [&](const std::vector<Stmt>& body) {
      for (const Stmt& s : body) {
        int64_t n = 0;
        if (s.kind == StmtKind::For && s.loop == LoopKind::Serial && j.kernel->var(s.var).name.starts_with("turn") &&
            j.kernel->constant_int(s.index, &n))
          found.push_back(n);
        look(s.body);
      }
    };
    look(j.kernel->body);
    return found;
  };
  CHECK(turns(1 << 10) == std::vector<int64_t>{2, 2});
  CHECK(turns(80) == std::vector<int64_t>{2, 4});
}

TEST_CASE("a barrier for all memory stands between parts, and its lack is found") {
  Joined j({each([](Expr x) { return x * 2; }), reversed(4, 1)});
  REQUIRE(j.kernel.has_value());
  int barriers = 0;
  std::function<void(std::vector<Stmt>&)> drop = [&](std::vector<Stmt>& body) {
    for (Stmt& s : body) {
      if (s.kind == StmtKind::Barrier && s.global) ++barriers, s.global = false;
      drop(s.body);
    }
  };
  drop(j.kernel->body);
  CHECK(barriers == 1);
  std::vector<float> x(kElements), y(kElements), z(kElements);
  std::vector<void*> arguments = {x.data(), y.data(), y.data(), z.data()};
  CHECK_FALSE(interpret(*j.kernel, arguments, {}).ok());
}

TEST_CASE("kernels that no group has room for are not joined") {
  CHECK(Joined({reversed(4, 1), reversed(20, 1)}, lanes_of(64)).why == "more shared memory than a group can have");
  Mapping few = lanes_of();
  few.max_workgroup_size = 16;
  CHECK(Joined({reversed(4, 1), reversed(20, 1)}, few).why == "more threads than a workgroup can have");
}
