// Lowers all matmul ops through one descriptor to the gemm builder.
#include "codegen/fused_bodies.h"
#include "ir/region.h"
#include "kernel/builders/gemm.h"
#include "kernel/builders/map.h"
#include "kernel/builders/matrix_fragment.h"
#include "kernel/builders/round_rows.h"

namespace rlxc::codegen {
namespace {

using kernel::GemmSpec;

// Thresholds for packing b, and a, in a separate pass: rows, panels, and most elements.
constexpr int64_t kManyDotRows = 16;  // rows, for a dot unit
constexpr int64_t kManyRows = 384, kManyPanels = 4, kMostPacked = 1 << 24;
// Time per run lost for each element of an unpacked weight: copied into a panel, or read across rows if the left operand has one
// or two rows.
constexpr double kCopyNs = 0.4, kReadNs = 1;

DType accumulator(DType t) { return kernel::compute_dtype(t); }

// The axes of one operand of a matmul: batch axes of the result, rows (or columns), and the contracted axis.
struct Side {
  std::vector<Dim> batch;  // dims in the operand: 1 or missing where it is broadcast
  Dim free, summed;
  bool summed_last = true;  // memory order of the last two axes
};

struct Contraction {
  std::vector<Dim> batch;
  Dim m, n, k;
  size_t run = 1;  // number of result axes that form m
  Side a, b;
  bool zero_points = false;               // operands 2 and 3 are zero points
  const kernel::DotUnit* dots = nullptr;  // computed on a dot unit
  std::span<const RegionStep> steps;      // epilogue; its operands follow the zero points
  std::span<const int64_t> also;          // steps whose values are further results
  bool two_sums = false;                  // b has 2n columns, see GemmSpec
  // Operand numbers: the scale of b's columns, their bias, and a residual of the result's shape.
  std::optional<size_t> factor, bias, residual;
  std::optional<kernel::Quantized> quantized;  // b is quantized; operands 2 and 3 are scale and zero point
  bool rounded = false;                        // a is rounded to 8 bits, in the blocks of `quantized`
  std::optional<uint32_t> left;                // scratch buffer of rows that replaces operand 0
  Epilogue act;
  std::function<Expr(Expr, Expr)> gate;  // combines two sums
  DType accumulate = DType::F32;

  // Whether rows of floats meet a quantized b on `dots`, split into digits of 8 bits (build_round_rows).
  bool is_split() const { return quantized && dots && !rounded; }
  bool splits_in_some_runs = false;  // is_split(): the number of rows, or the processor, decides in the run
  Dim digits() const { return Dim(is_split() ? kernel::kRowDigits : 1); }
};

bool has_zero(const Node& node, const Contraction& p, size_t operand) { return p.zero_points && node.has(operand + 2); }

// Returns whether the operand is not row-major.
bool is_strided(const Node& node, size_t operand) { return node.layouts.of(node.in(operand)); }

size_t operands_of_steps(const Node& node, const Contraction& p) {
  return p.steps.empty() ? 0 : node.graph.operands(node.id).size();
}

// Returns how many of the last axes before the columns can form the rows of one matmul: if b has no batch axes, those that are
// collapsible in a, the residual and the result.
size_t axes_of_rows(const Node& node, const Contraction& p, bool trans_a) {
  if (trans_a || p.a.batch != p.batch || std::ranges::any_of(p.b.batch, [](Dim d) { return d != 1; })) return 1;
  const size_t rows = node.result_dims().size() - 1;
  size_t first = 0;
  const auto follow = [&](ValueId v) {
    if (const Layout* layout = node.layouts.of(v))
      first = std::max(first, innermost_contiguous_dims(node.table(), *layout, rows).begin);
  };
  follow(node.in(0));
  for (size_t i = 0; i <= p.also.size(); ++i) follow(node.result(i));
  if (p.residual && node.has(*p.residual)) follow(node.in(*p.residual));
  if (has_zero(node, p, 0) && num_elements(node.graph.type(node.in(2))) != 1) first = rows - 1;
  // Epilogue operands must have the result's dims along all of these axes, or be constant along all of them.
  for (size_t i = kQuantOperands; i < operands_of_steps(node, p); ++i) {
    const auto own = node.dims(i), y = node.result_dims();
    const auto varies = [&](size_t axis) { return axis + own.size() >= y.size() && own[axis + own.size() - y.size()] != Dim(1); };
    for (size_t axis = rows - 1; axis > first; --axis)
      if (varies(axis - 1) != varies(axis)) first = axis;
  }
  return rows - std::min(first, rows - 1);
}

Contraction contraction_of(const Node& node, bool trans_a, bool trans_b, std::optional<size_t> bias = {},
                           std::optional<size_t> residual = {}, Contraction p = {}) {
  p.bias = bias;
  p.residual = residual;
  const auto a = node.dims(0), b = node.dims(1), y = node.result_dims();
  p.batch.assign(y.begin(), y.end() - 2);
  p.m = y[y.size() - 2];
  p.n = y.back();
  p.k = a[a.size() - (trans_a ? 2 : 1)];
  if (!p.k.is_static()) p.k = b[b.size() - (trans_b ? 1 : 2)];  // equal, and constant for a weight
  p.a = {{a.begin(), a.end() - 2}, p.m, p.k, !trans_a};
  p.b = {{b.begin(), b.end() - 2}, p.n, p.k, trans_b};
  p.accumulate = p.zero_points ? DType::I32 : accumulator(node.result_dtype());
  p.run = axes_of_rows(node, p, trans_a);
  const size_t left = y.size() - 1 - p.run;
  if (left < p.batch.size()) {
    p.m = p.a.free = node.table().product(y.subspan(left, p.run));
    p.batch.resize(left);
    p.a.batch.resize(left);
    p.b.batch.clear();
  }
  return p;
}

// Returns the strides, in matrices, of a side along the batch axes.
std::vector<Index> matrix_strides(Scope& s, const Side& side, const std::vector<Dim>& batch) {
  return kernel::broadcast_operand(s.kernel(), "", DType::I8, s.shape(side.batch), s.shape(batch)).strides;
}

// Returns the row stride of a matmul operand or result whose row axes end at `end`.
Index row_stride(const Operand& o, std::span<const Dim> dims, size_t end, size_t run) {
  size_t axis = end;
  while (axis + run > end && dims[axis - 1] == Dim(1)) --axis;
  return o.strides[axis + run > end ? axis - 1 : end - 1];
}

Operand side_operand(Node& node, Scope& s, size_t operand, const Side& side, const std::vector<Dim>& batch, bool free_first,
                     size_t run = 1) {
  Operand o = s.in(operand);
  const Expr free = s.size(side.free).in(s.kernel()), summed = s.size(side.summed).in(s.kernel());
  Index free_stride = side.summed_last ? Index(summed) : Index(1), summed_stride = side.summed_last ? Index(1) : Index(free);
  Dims strides;
  if (is_strided(node, operand)) {
    for (size_t i = 0; i < batch.size(); ++i) {
      const size_t own = i + side.batch.size() - batch.size();  // wraps if the operand lacks this axis
      const bool has = i + side.batch.size() >= batch.size() && (side.batch[own] != Dim(1) || batch[i] == Dim(1));
      strides.push_back(has ? o.strides[own] : Index(0));
    }
    free_stride = side.summed_last ? row_stride(o, node.dims(operand), node.dims(operand).size() - 1, run) : o.strides.back();
    summed_stride = o.strides.end()[side.summed_last ? -1 : -2];
  } else {
    for (const Index& stride : matrix_strides(s, side, batch)) strides.push_back(stride.in(s.kernel()) * free * summed);
  }
  strides.push_back(free_first ? free_stride : summed_stride);
  strides.push_back(free_first ? summed_stride : free_stride);
  o.strides = std::move(strides);
  return o;
}

// Returns a scratch buffer as the left operand's rows, `width` elements each.
Operand rows_in_scratch(Scope& s, const Contraction& p, uint32_t buffer, Index width) {
  Operand o = s.scratch(buffer);
  o.strides.clear();
  const Expr w = width.in(s.kernel()), m = s.size(p.m).in(s.kernel());
  for (const Index& stride : matrix_strides(s, p.a, p.batch)) o.strides.push_back(stride.in(s.kernel()) * m * w);
  o.strides.insert(o.strides.end(), {w, 1});
  return o;
}

Operand left_operand(Node& node, Scope& s, const Contraction& p) {
  if (p.left) return rows_in_scratch(s, p, *p.left, s.size(node.table().mul(p.k, p.digits())));
  return side_operand(node, s, 0, p.a, p.batch, true, p.run);
}

GemmSpec spec_of(Scope& s, const Contraction& p) {
  GemmSpec g;
  g.batch = s.shape(p.batch);
  g.m = s.size(p.m);
  g.n = s.size(p.n);
  g.k = s.size(p.k);
  g.accumulate = p.accumulate;
  g.two_sums = p.two_sums;
  return g;
}

// Returns an operand with one value per row (or column), or one for all.
Operand of_columns(Node& node, Scope& s, size_t i, size_t batch) {
  Operand o = s.in(i);
  const bool one = num_elements(node.graph.type(node.in(i))) == 1;
  o.strides.assign(batch, 0);
  o.strides.push_back(one ? 0 : 1);
  return o;
}

// Sets the dot unit, and what it adds to 8-bit operands.
void set_unit(const Node& node, const Contraction& p, GemmSpec* g) {
  g->dots = p.dots;
  if (!p.dots || !p.zero_points) return;
  g->a_shift = kernel::dot_shift(code_type(node.graph, node.id), p.dots->a);
  g->b_shift = kernel::dot_shift(node.dtype(1), p.dots->b);
}

// Packs the left operand into a scratch buffer if its rows would otherwise be copied for many panels.
std::optional<uint32_t> pack_rows(Node& node, const Contraction& p) {
  if (node.mapping().workgroups || !p.batch.empty() || p.dots) return {};
  const int64_t high = kernel::gemm_rows(node.mapping(), p.accumulate);
  {
    Scope probe(node);
    GemmSpec g = spec_of(probe, p);
    g.a = left_operand(node, probe, p);
    int64_t m = 0, n = 0, k = 0;
    if (!kernel::constant(g.m, &m) || !kernel::constant(g.n, &n) || !kernel::constant(g.k, &k) ||
        !kernel::gemm_is_tiled(g, node.mapping()) || !kernel::gemm_copies_rows(g) || m > kMostPacked / k ||
        n < kManyPanels * kernel::gemm_panel(node.mapping(), p.accumulate))
      return {};
  }
  DimTable& t = node.table();
  const uint32_t rows = node.scratch(p.accumulate, t.mul(t.mul(t.ceil_div(p.m, Dim(high)), Dim(high)), p.k));
  Scope s(node, "pack_rows");
  GemmSpec g = spec_of(s, p);
  g.a = left_operand(node, s, p);
  if (has_zero(node, p, 0)) g.a_zero = of_columns(node, s, 2, 0);
  s.bind({Binding::Kind::Scratch, rows});
  kernel::build_pack_rows(s.builder(), g, "rows", node.mapping());
  s.finish();
  return rows;
}

// Returns a residual or the result with strides over the batch axes, rows and columns of the matmul.
Operand by_rows(Operand o, const Contraction& p, std::span<const Dim> dims) {
  const size_t end = dims.size() - 1;
  const Index row = row_stride(o, dims, end, p.run), column = o.strides.back();
  o.strides.erase(o.strides.begin() + static_cast<std::ptrdiff_t>(p.batch.size()), o.strides.end());
  o.strides.insert(o.strides.end(), {row, column});
  return o;
}

// Returns the matmul for packing a right operand with k rows: the weight, or its scales or zero points by block. The rows of the
// left operand may be unknown.
Contraction of_weight(Contraction p, Dim k) {
  p.batch = p.b.batch;
  p.m = Dim(1);
  p.k = k;
  return p;
}

// Returns the elements of the right operand in panels.
Dim panel_elements(const Node& node, const Contraction& p) {
  DimTable& t = node.table();
  const Dim w(kernel::gemm_panel(node.mapping(), p.accumulate)), columns = p.two_sums ? t.floor_div(w, Dim(2)) : w;
  const Dim beside(kernel::words_beside(node.mapping()));
  const Dim words = p.dots ? t.mul(t.ceil_div(t.ceil_div(p.k, Dim(p.dots->group)), beside), beside) : p.k,
            rows = p.dots && p.zero_points ? t.add(words, Dim(1)) : words;
  return t.mul(t.product(p.b.batch), t.mul(t.ceil_div(p.n, columns), t.mul(w, rows)));
}

// Returns whether panels are worth a separate pass.
bool is_large(const GemmSpec& g) {
  int64_t n = 0, k = 0;
  return kernel::constant(g.n, &n) && n >= 16 && kernel::constant(g.k, &k) && k >= 16;
}

double saved_by(const Node& node, Dim elements, double ns) {
  return ns * static_cast<double>(node.table().constant_value(elements).value_or(0));
}

// Prepacks a weight into panels. A single row reads these contiguously, too.
std::vector<PrepackedBuffer> prepack_panels(Node& node, const Contraction& p, const std::vector<bool>& on_load) {
  const bool zero = has_zero(node, p, 1) && !p.dots;
  if (!on_load[1] || (zero && !on_load[3])) return {};
  Scope probe(node);
  const GemmSpec g = spec_of(probe, p);
  const bool tiled = kernel::gemm_is_tiled(g, node.mapping());
  if (!tiled && !is_large(g)) return {};
  if (p.dots) {
    const Dim words = panel_elements(node, p);
    return {{DType::I32, words, {1}, saved_by(node, words, 4 * kCopyNs)}};
  }
  int64_t m = 0;
  const double ns = !tiled && kernel::constant(g.m, &m) ? kReadNs * static_cast<double>(m) : kCopyNs;
  const Dim elements = panel_elements(node, p);
  return {{p.accumulate, elements, zero ? std::vector<uint32_t>{1, 3} : std::vector<uint32_t>{1}, saved_by(node, elements, ns)}};
}

bool fills_matrix_unit(const Node& node, const Contraction& p) {
  constexpr int64_t kUnknown = int64_t{1} << 31;
  const auto size = [&](Dim d) { return kernel::Index(node.table().constant_value(d).value_or(kUnknown)); };
  return kernel::gemm_fills_matrix_unit(size(p.m), size(p.n), size(p.k));
}

// Whether a grid reads a copy of the right operand that is contiguous along k, as matrix units read both operands.
bool transposes_weight(Node& node, const Contraction& p) {
  if (!node.mapping().workgroups || p.dots || p.quantized || p.zero_points || node.dtype(0) != node.dtype(1)) return false;
  if (!kernel::find_unit(node.mapping(), node.dtype(1), p.accumulate) || !fills_matrix_unit(node, p)) return false;
  Scope probe(node);
  const Operand b = side_operand(node, probe, 1, p.b, p.batch, false);
  return !kernel::is_constant(b.strides.end()[-2], 1) && kernel::is_multiple(probe.size(p.k), 16 * 8 / rlxc::bits(node.dtype(1)));
}

// Strides of a right operand over the batch axes, k, and columns, with k contiguous.
Dims transposed_strides(Scope& s, const Contraction& p) {
  const Expr columns = s.size(p.b.free).in(s.kernel()), k = s.size(p.k).in(s.kernel());
  Dims strides;
  for (const Index& stride : matrix_strides(s, p.b, p.batch)) strides.push_back(stride.in(s.kernel()) * columns * k);
  strides.insert(strides.end(), {1, k});
  return strides;
}

std::vector<PrepackedBuffer> prepack_transposed(Node& node, const Contraction& p, const std::vector<bool>& on_load) {
  if (!on_load[1] || !transposes_weight(node, p)) return {};
  DimTable& t = node.table();
  const Dim elements = t.mul(t.product(p.b.batch), t.mul(p.b.free, p.k));
  return {{node.dtype(1), elements, {1}, saved_by(node, elements, kCopyNs)}};
}

std::optional<uint32_t> transpose_weight(Node& node, const Contraction& p) {
  if (node.prepacked.empty() || !transposes_weight(node, p)) return {};
  const uint32_t transposed = *node.prepacked_operand(1);
  Scope s(node, "turn");
  Contraction own = p;
  own.batch = p.b.batch;
  Operand from = side_operand(node, s, 1, own.b, own.batch, false), to = s.scratch(transposed);
  to.strides = transposed_strides(s, own);
  Dims shape = s.shape(own.batch);
  shape.insert(shape.end(), {s.size(p.b.free), s.size(p.k)});
  for (Operand* o : {&from, &to}) std::swap(o->strides.end()[-1], o->strides.end()[-2]);
  kernel::build_map(s.builder(), {shape, {from}, {to}, [](const std::vector<Expr>& v) { return v; }}, node.mapping());
  s.finish(true);
  return transposed;
}

// Packs the right operand into panels: the prepacked buffer, or a scratch buffer that several blocks of rows read.
std::optional<uint32_t> pack_panels(Node& node, const Contraction& p) {
  const bool on_load = !node.prepacked.empty();
  if (transposes_weight(node, p)) return {};
  if (p.quantized || (node.mapping().workgroups && !on_load)) return {};
  if (!on_load) {
    Scope probe(node);
    const GemmSpec g = spec_of(probe, p);
    int64_t m = 0, n = 0, k = 0;
    if (!is_large(g) || !kernel::constant(g.m, &m) || m < (p.dots ? kManyDotRows : kManyRows) || (!p.b.batch.empty() && !p.dots))
      return {};
    kernel::constant(g.n, &n);
    kernel::constant(g.k, &k);
    if (n > kMostPacked / k) return {};
  }
  const uint32_t packed =
      on_load ? *node.prepacked_operand(1) : node.scratch(p.dots ? DType::I32 : p.accumulate, panel_elements(node, p));
  Scope s(node, "pack");
  const Contraction of_b = of_weight(p, p.k);
  GemmSpec g = spec_of(s, of_b);
  g.b = side_operand(node, s, 1, p.b, of_b.batch, false);
  set_unit(node, p, &g);
  if (has_zero(node, p, 1) && !p.dots) g.b_zero = of_columns(node, s, 3, of_b.batch.size());
  s.bind({Binding::Kind::Scratch, packed});
  (p.dots ? kernel::build_pack_dots : kernel::build_pack)(s.builder(), g, "panels", node.mapping());
  s.finish(on_load);
  return packed;
}

bool zero_is_quantized(const Node& node) { return node.dtype(3) == node.dtype(1); }

// Returns a scale or zero point of a weight, with strides by block and column.
Operand of_blocks(Node& node, Scope& s, size_t i) {
  Operand o = s.in(i);
  const auto d = node.dims(i);
  const bool trans_b = node.attrs<DequantMatMulAttrs>().trans_b;
  const Index steps[2] = {d[0] == Dim(1) ? Index(0) : s.size(d[1]), d[1] == Dim(1) ? 0 : 1};
  o.strides = {steps[trans_b], steps[!trans_b]};
  return o;
}

// Scratch buffers of a quantized weight in panels: the quantized values, and scales and zero points that differ by column.
struct PackedWeight {
  uint32_t quantized = 0;
  std::optional<uint32_t> scale, zero;
};

// Returns the spec for packing a quantized weight.
GemmSpec spec_of_codes(Scope& s, const Contraction& p) {
  GemmSpec g = spec_of(s, of_weight(p, p.k));
  g.quantized = p.quantized;
  g.dots = p.dots;
  return g;
}

// Dot units subtract zero points from the i32 sums.
DType zero_in_panels(const Contraction& p) { return p.dots ? DType::I32 : p.accumulate; }

// Scales of f16 stay f16: runs read half the bytes.
DType scale_in_panels(const Node& node, const Contraction& p) { return node.dtype(2) == DType::F16 ? DType::F16 : p.accumulate; }

std::vector<PrepackedBuffer> prepack_quantized(Node& node, const Contraction& p, const std::vector<bool>& on_load) {
  if (!p.batch.empty() || !on_load[1] || !on_load[2] || (node.has(3) && !on_load[3])) return {};
  std::vector<PrepackedBuffer> packed;
  DimTable& t = node.table();
  {
    Scope probe(node);
    const GemmSpec g = spec_of_codes(probe, p);
    if (!p.dots && !kernel::gemm_packs_codes(g, node.mapping())) return {};
    const Dim words(kernel::gemm_code_words(g, node.mapping()));
    packed.push_back({DType::I32, words, {1}, saved_by(node, words, kCopyNs * 32.0 / p.quantized->bits)});
  }
  if (node.mapping().workgroups) return packed;
  const bool trans_b = node.attrs<DequantMatMulAttrs>().trans_b;
  const auto add_blocks = [&](uint32_t operand, bool quantized) {
    const auto d = node.dims(operand);
    if (d[!trans_b] == Dim(1) && !quantized) return;
    const DType of_entries = operand == 3 ? zero_in_panels(p) : scale_in_panels(node, p);
    const Dim w(kernel::gemm_panel(node.mapping(), p.accumulate)), columns = p.two_sums ? t.floor_div(w, Dim(2)) : w;
    packed.push_back({of_entries, t.mul(t.ceil_div(p.n, columns), t.mul(w, d[trans_b])), {operand}, 0});
  };
  add_blocks(2, false);
  if (node.has(3)) add_blocks(3, zero_is_quantized(node));
  return packed;
}

std::optional<uint32_t> pack_blocks(Node& node, const Contraction& p, uint32_t operand, bool quantized) {
  const auto packed = node.prepacked_operand(operand);
  if (!packed) return {};
  Scope s(node, operand == 2 ? "pack_scales" : "pack_zeros");
  GemmSpec g = spec_of(s, of_weight(p, node.dims(operand)[node.attrs<DequantMatMulAttrs>().trans_b]));
  g.b = of_blocks(node, s, operand);
  if (operand == 3) g.accumulate = zero_in_panels(p);
  else g.stored = scale_in_panels(node, p);
  if (quantized) {
    g.quantized = p.quantized;
    g.quantized->block = 0;
  }
  s.bind({Binding::Kind::Scratch, *packed});
  kernel::build_pack(s.builder(), g, "panels", node.mapping());
  s.finish(true);
  return packed;
}

std::optional<PackedWeight> pack_quantized(Node& node, const Contraction& p) {
  if (!p.quantized || node.prepacked.empty()) return {};
  PackedWeight packed;
  packed.quantized = *node.prepacked_operand(1);
  Scope s(node, "pack");
  GemmSpec g = spec_of_codes(s, p);
  g.b = side_operand(node, s, 1, p.b, p.batch, false);
  s.bind({Binding::Kind::Scratch, packed.quantized});
  kernel::build_pack_codes(s.builder(), g, "panels", node.mapping());
  s.finish(true);
  packed.scale = pack_blocks(node, p, 2, false);
  if (node.has(3)) packed.zero = pack_blocks(node, p, 3, zero_is_quantized(node));
  return packed;
}

// Returns the scale or zero point of a matmul, from its packed panels if there are any.
Operand quantization_parameter(Node& node, Scope& s, const Contraction& p, size_t operand,
                               const std::optional<uint32_t>& packed) {
  if (!packed) return of_blocks(node, s, operand);
  Operand o = s.scratch(*packed);
  const Dim w(kernel::gemm_panel(node.mapping(), p.accumulate)),
      rows = node.dims(operand)[node.attrs<DequantMatMulAttrs>().trans_b];
  o.strides = {s.size(node.table().mul(rows, w)), rows == Dim(1) ? Index(0) : s.size(w), 1};
  return o;
}

// The epilogue without further results: the steps, or scale and bias of columns, gate or activation, and a residual.
kernel::Epilogue epilogue_of(Node& node, Scope& s, const Contraction& p) {
  kernel::Epilogue e;
  if (!p.steps.empty()) {
    for (size_t i = kQuantOperands; i < operands_of_steps(node, p); ++i)
      e.inputs.push_back(by_rows(s.in(i, node.result_dims()), p, node.result_dims()));
    e.body = results_body(p.steps, p.also);
    return e;
  }
  // Adds an operand with a value per column of b, and returns its input for each sum.
  const auto add_columns = [&](const std::optional<size_t>& operand) {
    std::vector<size_t> inputs;
    if (!operand || !node.has(*operand)) return inputs;
    Operand o = of_columns(node, s, *operand, p.batch.size() + 1);
    for (const bool second : {false, true}) {
      if (second && !p.two_sums) break;
      o.view = second;
      if (second && !kernel::is_constant(o.strides.back(), 0)) o.offset = s.size(p.n);
      inputs.push_back(e.inputs.size());
      e.inputs.push_back(o);
    }
    return inputs;
  };
  const std::vector<size_t> factor = add_columns(p.factor), bias = add_columns(p.bias);
  std::optional<size_t> residual;
  if (p.residual && node.has(*p.residual)) {
    residual = e.inputs.size();
    e.inputs.push_back(by_rows(s.in(*p.residual), p, node.dims(*p.residual)));
  }
  if (e.inputs.empty() && !p.gate && !p.act.has) return e;
  e.body = [=, gate = p.gate, act = p.act](std::span<const Expr> roots, const kernel::LoadInput& load) -> std::vector<Expr> {
    std::vector<Expr> sums(roots.begin(), roots.end());
    for (size_t i = 0; i < sums.size(); ++i) {
      if (!factor.empty()) sums[i] = sums[i] * load(factor[i]);
      if (!bias.empty()) sums[i] = sums[i] + load(bias[i]);
    }
    const Expr y = gate ? gate(sums[0], sums[1]) : sums[0];
    return {activation(act, residual ? y + load(*residual) : y)};
  };
  return e;
}

// Scratch buffers of the left operand rounded to 8 bits: floats, or i8 values with scale and sum per row and block; or split.
struct RoundedLeft {
  uint32_t values = 0, scale = 0, sums = 0, fine = 0;
};

// `of_many`: launched only in runs of several rows.
RoundedLeft round_left(Node& node, const Contraction& p, bool of_many) {
  DimTable& t = node.table();
  const auto x = node.dims(0);
  const bool one_row = p.splits_in_some_runs && kernel::splits_rows(2, node.mapping()) == false;
  const Dim rows = one_row ? Dim(1) : t.product(x.first(x.size() - 1)), k = x.back();
  const int64_t block = p.quantized->block;
  const Dim entries = block ? t.mul(rows, t.floor_div(k, Dim(block))) : rows;
  RoundedLeft r{node.scratch(p.dots ? DType::I8 : p.accumulate, t.mul(t.mul(rows, k), p.digits()))};
  if (p.dots) {
    r.scale = node.scratch(DType::F32, entries);
    r.sums = node.scratch(DType::I32, t.mul(entries, p.digits()));
  }
  if (p.is_split()) r.fine = node.scratch(DType::I32, entries);
  Scope s(node, "round_rows");
  kernel::RoundRowsSpec spec{.rows = s.shape(x.first(x.size() - 1)), .k = s.size(k), .block = block};
  spec.where_it_pays = p.splits_in_some_runs && p.is_split();
  spec.x = s.in(0);
  spec.values = s.scratch(r.values);
  if (p.dots) {
    spec.scale = s.scratch(r.scale);
    spec.sums = s.scratch(r.sums);
  }
  if (p.is_split()) spec.fine = s.scratch(r.fine);
  if (of_many) s.launch_if(p.m, false);
  kernel::build_round_rows(s.builder(), spec, node.mapping());
  s.finish();
  return r;
}

// The runs that a kernel of a matmul is for: on grids one row, as in decoding, has another form than many.
enum class Runs : uint8_t { All, OfOneRow, OfOthers };

// Returns whether the number of rows, which a run decides, selects one of two kernels.
bool has_two_forms(const Node& node, const Contraction& p) {
  constexpr int64_t kLeast = 64;  // columns and terms
  const auto least = [&](Dim d) { return node.table().constant_value(d).value_or(0) >= kLeast; };
  return node.mapping().workgroups && !p.m.is_static() && node.table().product(p.batch) == Dim(1) && !p.zero_points &&
         (!p.dots || p.quantized) && !p.is_split() && least(p.n) && least(p.k);
}

// Returns whether the matmul itself rounds its few rows.
bool rounds_rows(const Node& node, const Contraction& p, Runs runs) {
  if (!p.rounded || !p.dots) return false;
  const auto size = [&](Dim d) { return node.table().constant_value(d); };
  const auto m = runs == Runs::OfOneRow ? 1 : size(p.m), n = size(p.n), k = size(p.k),
             batch = size(node.table().product(p.batch));
  return m && n && k && batch == 1 && kernel::gemm_rounds_rows(*m, *n, *k, p.quantized->block, node.dtype(0), node.mapping());
}

// Buffers that take the places of operands.
struct Prepared {
  std::optional<uint32_t> panels, rows, transposed;
  std::optional<PackedWeight> quantized;
  std::optional<RoundedLeft> rounded;
  bool copies = false, where_copied = false;
};

void multiply(Node& node, Contraction p, const Prepared& by, Runs runs) {
  const bool in_groups = rounds_rows(node, p, runs);
  if (in_groups) p.left = {};
  Scope s(node, runs == Runs::OfOneRow ? "row" : "");
  GemmSpec g = spec_of(s, p);
  if (by.rows) {
    g.a = s.scratch(*by.rows);
    g.a.strides = {g.k, kernel::gemm_rows(node.mapping(), p.accumulate)};
    g.rows_packed = true;
  } else g.a = left_operand(node, s, p);
  if (by.panels) {
    g.b = s.scratch(*by.panels);
    g.b.strides = matrix_strides(s, p.b, p.batch);
    g.packed = true;
  } else if (by.quantized) {
    g.b = s.scratch(by.quantized->quantized);
    g.packed = true;
  } else if (by.transposed) {
    g.b = s.scratch(*by.transposed);
    g.b.strides = transposed_strides(s, p);
  } else g.b = side_operand(node, s, 1, p.b, p.batch, false);
  set_unit(node, p, &g);
  g.rounds_rows = in_groups;
  if (p.quantized) {
    g.quantized = p.quantized;
    g.quantized->scale = quantization_parameter(node, s, p, 2, by.quantized ? by.quantized->scale : std::nullopt);
    if (node.has(3)) {
      g.quantized->zero = quantization_parameter(node, s, p, 3, by.quantized ? by.quantized->zero : std::nullopt);
      g.quantized->zero_quantized = zero_is_quantized(node);
    }
  }
  if (has_zero(node, p, 0) && !by.rows) g.a_zero = of_columns(node, s, 2, p.batch.size());
  if (has_zero(node, p, 1) && (!by.panels || p.dots)) g.b_zero = of_columns(node, s, 3, p.batch.size());
  if (by.where_copied) g.prologue = quantized_operand(s.in(kQuantOperands), *g.a_zero, code_type(node.graph, node.id));
  if (by.copies && (by.where_copied || !kernel::is_constant(g.a.strides.back(), 1)))
    g.copied_rows = by.where_copied ? code_type(node.graph, node.id) : g.a.dtype;
  if (by.rounded && p.dots && !in_groups) {
    DimTable& t = node.table();
    const int64_t block = p.quantized->block;
    const Dim entries = block ? t.floor_div(p.k, Dim(block)) : Dim(1);
    g.rounded = kernel::RoundedRows{rows_in_scratch(s, p, by.rounded->scale, s.size(entries)),
                                    rows_in_scratch(s, p, by.rounded->sums, s.size(t.mul(entries, p.digits())))};
    if (p.is_split()) g.rounded->fine = rows_in_scratch(s, p, by.rounded->fine, s.size(entries));
    if (p.is_split() && p.splits_in_some_runs) g.floats = side_operand(node, s, 0, p.a, p.batch, true, p.run);
  }
  g.epilogue = epilogue_of(node, s, p);
  g.c = by_rows(s.out(), p, node.result_dims());
  for (size_t i = 1; i <= p.also.size(); ++i) g.epilogue.also.push_back(by_rows(s.out(i), p, node.result_dims()));
  if (runs != Runs::All) s.launch_if(p.m, runs == Runs::OfOneRow);
  if (runs == Runs::OfOneRow) g.m = 1;
  kernel::build_gemm(s.builder(), g, node.mapping());
  s.finish();
}

bool emit(Node& node, Contraction p) {
  Prepared by;
  by.panels = pack_panels(node, p);
  // A grid makes words of unpacked operands, too.
  if (p.quantized ? node.prepacked.empty() : !by.panels && !node.mapping().workgroups) p.dots = nullptr;
  // A task can copy rows that are not contiguous, or quantize them.
  by.copies = p.zero_points && p.dots && by.panels && p.k.is_static() && !node.mapping().workgroups;
  const bool quantizes = rounds_operand(node.graph, node.id), two_forms = has_two_forms(node, p);
  by.where_copied = quantizes && (by.copies || (node.mapping().workgroups && p.dots));
  if (quantizes && !by.where_copied) p.left = rounded_operand(node);
  if (!rounds_rows(node, p, Runs::All) && (p.rounded || p.is_split())) {
    by.rounded = round_left(node, p, two_forms && rounds_rows(node, p, Runs::OfOneRow));
    p.left = by.rounded->values;
  }
  by.rows = pack_rows(node, p);
  by.transposed = transpose_weight(node, p);
  by.quantized = pack_quantized(node, p);
  if (two_forms) multiply(node, p, by, Runs::OfOneRow);
  multiply(node, p, by, two_forms ? Runs::OfOthers : Runs::All);
  return true;
}

// Doubles the columns: `up` and `gate` are halves of b.
template <class A>
void add_gate(const Node& node, const A& a, Contraction* p) {
  p->b.free = node.table().mul(p->n, Dim(2));
  p->two_sums = true;
  p->gate = [a](Expr first, Expr second) { return gated(a.gate_first ? second : first, a.gate_first ? first : second, a.act); };
}

Contraction dequantized_contraction(const Node& node) {
  const auto& a = node.attrs<DequantMatMulAttrs>();
  const DType t = node.dtype(1);
  Contraction p = contraction_of(node, false, a.trans_b, 4, 5);
  if (a.gated) add_gate(node, a, &p);
  else p.act = a.act;
  if (is_narrow(node.dtype(0))) {
    p.factor = 2;
    p.dots = kernel::gemm_dot_unit(node.dtype(0), t, node.mapping());
    return p;
  }
  p.quantized.emplace();
  p.quantized->bits = rlxc::bits(t);
  p.quantized->block = a.block;
  p.quantized->is_integer = is_integer(t);
  if (is_integer(t) && is_signed(t)) p.quantized->sign = 1 << (p.quantized->bits - 1);
  p.quantized->value = [t](Expr code) {
    return is_narrow(t) ? narrow_value(t, cast_to(code, DType::I32)) : cast_to(code, DType::I32);
  };
  p.rounded = a.int8_x;
  const DimTable& table = node.table();
  const auto n = table.constant_value(p.b.free), k = table.constant_value(p.k);
  const auto m = table.constant_value(p.m);
  const auto splits = kernel::splits_rows(m, node.mapping());
  p.splits_in_some_runs = !a.int8_x && !splits;
  if ((a.int8_x || splits.value_or(true)) && is_integer(t) && (!node.has(3) || is_integer(node.dtype(3))) && n && k)
    p.dots = kernel::gemm_quantized_dot_unit(p.quantized->bits, a.block, *n, *k, node.mapping());
  return p;
}

// Computes a matmul of bf16 on a dot unit where the target has one.
Contraction with_halves(const Node& node, Contraction p) {
  if (p.accumulate == DType::F32) p.dots = kernel::gemm_dot_unit(node.dtype(0), node.dtype(1), node.mapping());
  return p;
}

Contraction contraction_of(const Node& node) {
  switch (node.op()) {
    case OpKind::FusedMatMulBiasAct: {
      const auto& a = node.attrs<FusedMatMulAttrs>();
      Contraction p = with_halves(node, contraction_of(node, a.trans_a, a.trans_b, 2, 3));
      p.act = a.act;
      return p;
    }
    case OpKind::FusedMatMulSwiGLU: {
      const auto& a = node.attrs<GatedMatMulAttrs>();
      Contraction p = contraction_of(node, false, a.trans_b, 2);
      add_gate(node, a, &p);
      return p;
    }
    case OpKind::QMatMul:
    case OpKind::FusedQMatMul: {
      Contraction p;
      p.zero_points = true;
      if (node.op() == OpKind::FusedQMatMul) {
        p.steps = node.attrs<FusionAttrs>().steps;
        p.also = node.attrs<FusionAttrs>().also;
        p.two_sums = has_two_sums(p.steps);
      }
      p = contraction_of(node, false, false, {}, {}, std::move(p));
      if (p.two_sums) p.b.free = node.table().mul(p.n, Dim(2));
      p.dots = kernel::gemm_dot_unit(code_type(node.graph, node.id), node.dtype(1), node.mapping(), fills_matrix_unit(node, p));
      return p;
    }
    case OpKind::DequantMatMul: return dequantized_contraction(node);
    default: return with_halves(node, contraction_of(node, node.attrs<MatMulAttrs>().trans_a, node.attrs<MatMulAttrs>().trans_b));
  }
}

}  // namespace

bool lower_matmul(Node& node) { return emit(node, contraction_of(node)); }

std::vector<PrepackedBuffer> prepack_matmul(Node& node, const std::vector<bool>& on_load) {
  const Contraction p = contraction_of(node);
  if (node.mapping().workgroups && !p.dots) return prepack_transposed(node, p, on_load);
  return p.quantized ? prepack_quantized(node, p, on_load) : prepack_panels(node, p, on_load);
}

}  // namespace rlxc::codegen
