#include "kernel/builders/gemm_quantized.h"

#include <algorithm>

namespace rlxc::kernel {
namespace {

int64_t rows_of_word(const GemmSpec& s, const RegisterTile& t) {
  return 32 / (int64_t{s.quantized->bits} * (s.dots ? 1 : t.vectors));
}

}  // namespace

Expr panel_entry(const GemmOperands& o, const Buf& from, const Operand& at, Expr panel, Expr block, int64_t column, int lanes) {
  const Expr row = block * at.strides.end()[-2].in(o.b.kernel());
  if (is_constant(at.strides.back(), 0)) return from.load(row);
  return from.load(panel * at.strides[0].in(o.b.kernel()) + row + column, lanes);
}

QuantizedPanels::QuantizedPanels(GemmOperands& o, const RegisterTile& t)
    : o_(o),
      b_(o.b),
      quantized_(*o.spec.quantized),
      tile_(t),
      bits_(quantized_.bits),
      rows_(rows_of_word(o.spec, t)),
      words_of_rows_(o.spec.dots ? t.panel() : t.lanes) {}

Expr QuantizedPanels::word(Expr at, const std::function<Expr(Expr)>& column) const {
  const Expr row = at / int64_t{tile_.lanes} * rows_, lane = at % int64_t{tile_.lanes};
  Expr all = b_.value(DType::I32, 0);
  for (int64_t i = 0; i < rows_ * tile_.vectors; ++i) {
    const Expr k = min(row + i / tile_.vectors, o_.k - 1), place = i % tile_.vectors * tile_.lanes + lane;
    const Expr code = (cast_to(o_.code_of_b(k, column(place)), DType::I32) ^ quantized_.sign) & ((1 << bits_) - 1);
    all = all | code << i * bits_;
  }
  return all;
}

void QuantizedPanels::each_step(Expr panel, Expr k0, Expr count, const std::vector<int>& lanes,
                                const std::function<void(Expr p, const Column&)>& body) const {
  const int64_t block = quantized_.block;
  if (block == 0) return steps(panel, k0, b_.i64(0), count, b_.i64(0), lanes, body);
  if (block % kChunk == 0) return steps(panel, k0, b_.i64(0), count, b_.let("block", k0 / block), lanes, body);
  auto one = [&](Expr q, Expr n) { steps(panel, k0, q * block, n, k0 / block + q, lanes, body); };
  int64_t whole = 0;
  if (constant(count, &whole) && whole % block == 0) return b_.loop("q", count / block, [&](Expr q) { one(q, b_.i64(block)); });
  b_.loop("q", ceil_div(count, block), [&](Expr q) { one(q, b_.let("steps", min(count - q * block, block))); });
}

void QuantizedPanels::steps(Expr panel, Expr k0, Expr first, Expr count, Expr block, const std::vector<int>& lanes,
                            const std::function<void(Expr p, const Column&)>& body) const {
  // Per vector, or one for all: (value - zero) * scale = value * scale + offset.
  auto of_block = [&](const Buf& from, const Operand& at, size_t v) {
    return panel_entry(o_, from, at, panel, block, static_cast<int64_t>(v) * tile_.lanes, lanes[v]);
  };
  std::vector<Expr> scale, offset;
  for (size_t v = 0; v < lanes.size(); ++v) {
    scale.push_back(b_.let("scale", broadcast(cast_to(of_block(o_.scale, *quantized_.scale, v), o_.spec.accumulate), lanes[v])));
    if (!quantized_.zero && quantized_.sign == 0) continue;
    Expr zero = broadcast(lit(scale[v], quantized_.sign), lanes[v]);
    if (quantized_.zero) zero = zero + cast_to(of_block(o_.zero_point, *quantized_.zero, v), o_.spec.accumulate);
    offset.push_back(b_.let("offset", -(zero * scale[v])));
  }
  const bool of_columns = o_.spec.dots != nullptr;  // each word has values of one column
  auto with_words = [&](Expr at, Expr p, Expr shift_of_row) {
    body(p, [&](size_t v) {
      const int64_t vector = static_cast<int64_t>(v);
      const Expr words = o_.from_b.load(of_columns ? at + vector * tile_.lanes : at, lanes[v]);
      const Expr shift = of_columns ? shift_of_row : shift_of_row + vector * bits_;
      const Expr code = words >> cast_to(shift, DType::I32) & ((1 << bits_) - 1);
      const Expr x = cast_to(quantized_.sign ? code : quantized_.value(code), o_.spec.accumulate);
      return offset.empty() ? x * scale[v] : fma(x, scale[v], offset[v]);
    });
  };
  const Expr base = b_.let("codes_at", panel * words() + (k0 + first) / rows_ * words_of_rows_);
  b_.loop("g", count / rows_, [&](Expr g) {
    for (int64_t j = 0; j < rows_; ++j) {
      const int64_t shift = of_columns ? j % kWordCodes * 8 + j / kWordCodes * bits_ : j * tile_.vectors * bits_;
      with_words(base + g * words_of_rows_, first + g * rows_ + j, b_.i64(shift));
    }
  });
  int64_t whole = 0;
  if (rows_ == 1 || of_columns || (constant(count, &whole) && whole % rows_ == 0)) return;
  const Expr done = b_.let("done", count / rows_);
  b_.loop("t", count % rows_,
          [&](Expr t) { with_words(base + done * int64_t{tile_.lanes}, first + done * rows_ + t, t * (tile_.vectors * bits_)); });
}

int64_t gemm_code_words(const GemmSpec& s, const Mapping& m) {
  if (s.dots) return quantized_dot_words(s, m);
  const RegisterTile t = register_tile(m, s.accumulate);
  const int64_t columns = s.two_sums ? t.panel() / 2 : t.panel(), rows = rows_of_word(s, t);
  int64_t n = 0, k = 0;
  constant(s.n, &n);
  constant(s.k, &k);
  return (n + columns - 1) / columns * ((k + rows - 1) / rows) * t.lanes;
}

bool gemm_packs_codes(const GemmSpec& s, const Mapping& m) {
  const int64_t block = s.quantized->block;
  int64_t n = 0, k = 0;
  return constant(s.n, &n) && constant(s.k, &k) && n >= 16 && k >= 16 && (block <= 4 * kChunk || block % kChunk == 0) &&
         block % rows_of_word(s, register_tile(m, s.accumulate)) == 0;
}

}  // namespace rlxc::kernel
