// MT19937 (Matsumoto and Nishimura 1998) with the conversions of NumPy's RandomState. Draws are sequential and use a single
// thread. A uniform number takes 53 bits of two draws. Normal numbers come in pairs from Marsaglia's polar method (Marsaglia and
// Bray 1964), the second number of a pair first.
#include "codegen/lowerings.h"
#include "kernel/builders/common.h"

namespace rlxc::codegen {
namespace {

constexpr int64_t kWords = 624, kMiddle = 397;
constexpr int64_t kAttempts = 64;  // each fails with probability 1 - pi/4: all of them once in 1e42

class Twister {
 public:
  Twister(kernel::Builder& b, uint32_t seed)
      : b_(b),
        state_(b.registers("state", {DType::U32}, kWords)),
        raw_(b.registers("raw", {DType::U32}, 4)),
        at_(b.variable("at", b.i64(kWords))) {
    state_.store(0, kernel::constant_int(b.kernel(), DType::U32, seed));
    b.loop("i", kWords - 1, [&](Expr i) {
      const Expr last = b.let("last", state_[i]);
      state_.store(i + 1, (last ^ (last >> 30)) * 1812433253 + cast_to(i + 1, DType::U32));
    });
  }

  // Returns two numbers in [0, 1).
  std::pair<Expr, Expr> pair() {
    b_.loop("k", 4, [&](Expr k) {
      b_.when(at_.get() == kWords, [&] { twist(), at_.set(b_.i64(0)); });
      Expr y = b_.let("y", state_[at_.get()]);
      y = b_.let("y", y ^ (y >> 11));
      y = b_.let("y", y ^ ((y << 7) & 0x9D2C5680));
      y = b_.let("y", y ^ ((y << 15) & 0xEFC60000));
      raw_.store(k, y ^ (y >> 18));
      at_.set(at_.get() + 1);
    });
    const auto uniform = [&](int64_t i) {
      const Expr high = cast_to(raw_[i] >> 5, DType::F64), low = cast_to(raw_[i + 1] >> 6, DType::F64);
      return b_.let("u", (high * 67108864.0 + low) / 9007199254740992.0);
    };
    const Expr first = uniform(0);
    return {first, uniform(2)};
  }

 private:
  void twist() {
    b_.loop("i", kWords, [&](Expr i) {
      const Expr y = b_.let("y", (state_[i] & 0x80000000) | (state_[(i + 1) % kWords] & 0x7FFFFFFF));
      const Expr odd = (y & 1) * 0x9908B0DF;
      state_.store(i, state_[(i + kMiddle) % kWords] ^ (y >> 1) ^ odd);
    });
  }

  kernel::Builder& b_;
  Buf state_, raw_, at_;
};

}  // namespace

bool lower_random(Node& node) {
  const auto& a = node.attrs<RandomAttrs>();
  Scope s(node);
  auto& b = s.builder();
  const Expr n = s.size(node.table().product(node.result_dims())).in(s.kernel());
  Buf y = s.out_buf();
  kernel::for_each(b, node.mapping(), "once", 1, 1 << 16, [&](Expr) {
    Twister draws(b, static_cast<uint32_t>(a.seed));
    const auto store = [&](Expr i, Expr v, double scale) { y.store(i, cast_to(v * scale + a.a, node.result_dtype())); };
    const auto store_pair = [&](Expr i, Expr first, Expr second, double scale) {
      store(i, first, scale);
      b.when(i + 1 < n, [&] { store(i + 1, second, scale); });
    };
    b.loop("pair", (n + 1) / 2, [&](Expr pair) {
      const Expr i = b.let("i", pair * 2);
      if (!a.normal) {
        const auto [first, second] = draws.pair();
        return store_pair(i, first, second, a.b - a.a);
      }
      Buf open = b.variable("open", b.i64(1));
      b.loop("attempt", kAttempts, [&](Expr) {
        b.when(open.get() == 1, [&] {
          const auto [u, v] = draws.pair();
          const Expr p = b.let("p", u * 2.0 - 1.0), q = b.let("q", v * 2.0 - 1.0), r = b.let("r", p * p + q * q);
          b.when(r < 1.0 && r > 0.0, [&] {
            const Expr f = b.let("f", sqrt(log(r) * -2.0 / r));
            store_pair(i, f * q, f * p, a.b);
            open.set(b.i64(0));
          });
        });
      });
    });
  });
  return s.finish(), true;
}

}  // namespace rlxc::codegen
