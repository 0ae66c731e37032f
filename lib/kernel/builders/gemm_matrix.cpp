// A matmul of floats or 8-bit integers on a grid with matrix units. A workgroup computes a tile of the result. Each warp keeps
// some units of it in registers. Slices of a and b lie in shared memory. Where stores can be deferred, the next slices arrive
// while one is multiplied.
//
// A slice consists of planes: 64 bytes along k for each row of a and column of b. A thread reads 16 bytes of a plane at once.
// They hold elements of several units. The order of k within a plane is free, if it is the same for a and b.
//
// Warps share the tile of a small result and split k. Products of 8-bit integers use words as steps of k. A quantized b is
// decoded as its slices are stored.
#include <algorithm>

#include "kernel/builders/dot_words.h"
#include "kernel/builders/gemm_codes.h"
#include "kernel/builders/matrix_fragment.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kWide = 4;            // elements that a thread loads at once from contiguous rows
constexpr int64_t kStages = 4;          // most slices in shared memory
constexpr int64_t kCodeStages = 8;      // the same of few rows, if b is quantized, whose slices are short
constexpr int64_t kMostRows = 128;      // of a tile in shared memory
constexpr int64_t kLeastColumns = 128;  // the same, for which multiplying takes longer than reading
constexpr int64_t kGroup = 8;           // rows of tiles that workgroups of consecutive numbers share

// Whether a quantized b is read in runs, which are decoded to the type of a.
bool decodes(GemmOperands& o, const Mapping& m) {
  const GemmSpec& s = o.spec;
  if (s.dots || s.rounded || !is_float(s.a.dtype)) return false;
  const int lanes = lanes_of_read(s.a.dtype);
  return CodeRuns(o, m, lanes, lanes).size() == lanes;
}

// Returns the types of the operands as a unit sees them. Packed rows are the right operand of a dot unit.
std::pair<DType, DType> types_of_unit(const GemmSpec& s) {
  if (!s.dots) return {s.a.dtype, s.a.dtype};
  return s.rows_packed ? std::pair(s.dots->b, s.dots->a) : std::pair(s.dots->a, s.dots->b);
}

const MatrixUnit* unit_for(GemmOperands& o, const Mapping& m) {
  const GemmSpec& s = o.spec;
  if (s.quantized)
    return decodes(o, m) && gemm_fills_matrix_unit(kLarge, s.n, s.k) ? find_unit(m, s.a.dtype, s.accumulate) : nullptr;
  if (!gemm_fills_matrix_unit(s.m, s.n, s.k)) return nullptr;
  if (s.dots) {
    const auto [left, right] = types_of_unit(s);
    const MatrixUnit* u = find_unit(m, left, s.dots->accumulator);
    return u && u->of_b() == right ? u : nullptr;
  }
  if (!is_float(s.accumulate) || s.a.dtype != s.b.dtype) return nullptr;
  return find_unit(m, s.a.dtype, s.accumulate);
}

// How rows of a tile of b run, if rows of the operands are contiguous (of a along k).
std::optional<Source> tile_rows(GemmOperands& o, const Mapping& m) {
  const GemmSpec& s = o.spec;
  if (s.dots) return DotWords(o, m).reads_along_k() ? std::optional(Source::AlongK) : std::nullopt;
  const bool codes = s.quantized && decodes(o, m);
  const int lanes = lanes_of_read(s.a.dtype);
  if (!is_float(s.accumulate) || (!codes && (s.quantized || s.a.dtype != s.b.dtype))) return {};
  if (s.b_at && s.b_run % lanes != 0) return {};
  const auto whole_reads = [&](const Operand& from, size_t axis, Expr extent) {
    return contiguous_lanes(from, axis, extent, lanes) == lanes;
  };
  const size_t last = s.b.strides.size() - 1;
  if (!whole_reads(s.a, s.a.strides.size() - 1, o.k)) return {};
  if (codes || s.b_at || whole_reads(s.b, last - 1, o.k)) return Source::AlongK;
  return whole_reads(s.b, last, o.n) ? std::optional(Source::AcrossK) : std::nullopt;
}

// Returns how many units, each with a warpgroup of its own, share a tile of b. Two warpgroups decode a tile of codes.
int64_t units_down(const GemmSpec& s, const MatrixUnit& u, int64_t rows) { return s.quantized && rows > u.m ? 2 : 1; }

// Returns the unit for tiles, if there is one and the tiles of the result occupy a device.
const MatrixUnit* tile_unit_for(GemmOperands& o, const Mapping& m) {
  const GemmSpec& s = o.spec;
  if (m.tile_units.empty()) return nullptr;
  const auto rows_of_b = tile_rows(o, m);
  if (!rows_of_b) return nullptr;
  const auto [a, b] = types_of_unit(s);
  int64_t rows = kLarge, columns = kLarge, batches = 1;
  constant(o.m, &rows);
  constant(o.n, &columns);
  constant(o.batches(), &batches);
  // The largest tiles of which each multiprocessor has two, or the smallest.
  const MatrixUnit* found = nullptr;
  for (const MatrixUnit& u : m.tile_units) {
    if (u.operand != a || u.of_b() != b || u.accumulator != (s.dots ? s.dots->accumulator : s.accumulate) ||
        u.a_from != Source::AlongK || u.b_from != *rows_of_b || u.n < kLeastColumns)
      continue;
    const int64_t own = s.two_sums ? u.n / 2 : u.n, high = u.m * units_down(s, u, rows);
    const int64_t tiles = batches * ((rows + high - 1) / high) * ((columns + own - 1) / own);
    if (tiles < m.busy_workgroups || rows < high * 3 / 4 || columns < own * 3 / 4 || high > kMostRows) continue;
    if (tiles >= 2 * m.busy_workgroups || s.quantized) return &u;
    found = &u;
  }
  return found;
}

// Returns a layout of words of 8-bit integers along k.
FragmentLayout in_words(FragmentLayout s, int8_t Step::*k) {
  std::rotate(s.element.begin(), s.element.begin() + 2, s.element.end());
  s.element_bits -= 2;
  for (Step& step : s.lane) step.*k = static_cast<int8_t>(step.*k / kWordCodes);
  for (Step& step : s.element) step.*k = static_cast<int8_t>(step.*k / kWordCodes);
  return s;
}

// Returns the unit as tiles see it: with words as operands if it multiplies 8-bit integers.
MatrixUnit seen_by_tiles(MatrixUnit u) {
  if (rlxc::bits(u.operand) > 8) return u;
  u.k /= kWordCodes;
  u.operand = DType::I32;
  if (u.reads_tiles()) return u;
  u.a = in_words(u.a, &Step::column);
  u.b = in_words(u.b, &Step::row);
  return u;
}

// The tile of an operand. `i` is a row of a or a column of b.
struct Tile {
  const char* name;
  Buf from, shared, next;       // next: the thread's prefetched part of the next slice
  Source form = Source::Lanes;  // of units that read tiles
  int64_t size = 0, stages = 2;
  bool along_k = false;        // contiguous along k in memory; else along i
  bool deferred = false;       // `load` is a load, stored to shared memory without registers
  int64_t wide = 1, deep = 1;  // elements per load of a thread
  std::function<Expr(Expr i)> exists;
  std::function<Expr(Expr i, Expr k)> load;  // `wide` or `deep` elements, 0 beyond the operand
  // Tiles of a quantized b have codes. Each thread keeps its codes in registers, or in shared memory if stores are deferred.
  std::optional<CodeRuns> runs = {};
  Buf codes = {}, scales = {}, zeros = {};
};

// How four warps share a tile: numbers of warps along rows, columns and k, and most rows and columns of a warp.
struct Split {
  int64_t down, across, deep, rows, columns;
};

// Returns the splits to choose from, by size of the tile.
std::vector<Split> splits(int64_t w, bool few_rows) {
  if (few_rows) return {{1, 4, 1, w, w / 2}, {1, 2, 2, w, w / 2}, {1, 1, 4, w, w / 2}};
  return {{2, 2, 1, w, w}, {2, 2, 1, w, w / 2}, {2, 2, 1, w / 2, w / 2}, {2, 1, 2, w / 2, w / 2}, {1, 1, 4, w / 2, w / 2}};
}

class MatrixTiles {
 public:
  MatrixTiles(GemmOperands& o, const Mapping& m, const MatrixUnit& u)
      : o_(o),
        b_(o.b),
        m_(m),
        unit_(u),
        u_(seen_by_tiles(u)),
        run_(std::min(run(u_.a, &Step::column), run(u_.b, &Step::row))),
        units_(units_of_plane(m)),
        plane_(int64_t{u_.k} * (u.reads_tiles() ? 1 : units_)),
        steps_(o.k) {
    if (o.spec.dots) steps_ = words_.emplace(o, m).steps;
    halves_ = o.spec.two_sums ? 2 : 1;
    int64_t rows = kLarge, columns = kLarge, k = 0, batches = 1;
    constant(o.m, &rows);
    constant(o.n, &columns);
    constant(steps_, &k);
    constant(o.batches(), &batches);
    a_.form = u.a_from;
    b_tile_.form = u.b_from;
    if (u.reads_tiles()) {
      split_ = {units_down(o.spec, u, rows), 1, 1, u.m, u.n};
      a_.size = split_.down * u.m;
      own_ = u.n / halves_;
    }
    for (const Split& s : u.reads_tiles() ? std::vector<Split>() : splits(m.warp_tile, rows <= 2 * u.m)) {
      if (s.deep > 1 && k < 2 * s.deep * plane_) break;
      const auto units = [](int64_t size, int64_t warps, int unit, int64_t most) {
        return std::clamp<int64_t>((size + warps * unit - 1) / (warps * unit), 1, std::max<int64_t>(most / unit, 1));
      };
      split_ = s;
      down_ = units(rows, s.down, u.m, s.rows);
      each_half_ = units(columns, s.across, u.n, s.columns / halves_);
      a_.size = s.down * down_ * u.m;
      own_ = s.across * each_half_ * u.n;
      if (batches * ((rows + a_.size - 1) / a_.size) * ((columns + own_ - 1) / own_) >= m.busy_workgroups) break;
    }
    threads_ = split_.down * split_.across * split_.deep * u.warp;
    depth_ = plane_ * split_.deep;
    b_tile_.size = halves_ * own_;
  }

  void run() {
    const Expr rows = ceil_div(o_.m, a_.size), columns = ceil_div(o_.n, own_);
    for_each_workgroup(b_, m_, "tile", o_.batches() * rows * columns, threads_, [&](Expr tile, Expr thread) {
      o_.batch = split_index(b_.let("batch", tile / (rows * columns)), o_.spec.batch);
      place_tile(b_.let("in_batch", tile % (rows * columns)), rows, columns);
      thread_ = thread;
      const Expr warp = thread / int64_t{u_.warp};
      deep_at_ = b_.let("warp_plane", warp % split_.deep);
      down_at_ = b_.let("warp_row", warp / (split_.deep * split_.across));
      across_at_ = b_.let("warp_column", warp / split_.deep % split_.across);
      in_warp_ = b_.let("in_warp", thread % int64_t{u_.warp});
      set_up();
      body();
    });
  }

 private:
  // Returns the number of a lane's elements that are contiguous along k.
  static int run(const FragmentLayout& s, int8_t Step::*k) {
    int n = 1;
    for (int bit = 0; bit < s.element_bits && s.element[static_cast<size_t>(bit)].*k == n; ++bit) n *= 2;
    return n;
  }
  int element_bytes() const { return static_cast<int>(rlxc::bits(u_.operand)) / 8; }

  // As many units as a thread reads elements of at once, if two slices of the largest tile take half of shared memory at most.
  int units_of_plane(const Mapping& m) const {
    int units = std::max(std::min(kReadBytes / element_bytes(), m.max_vector_lanes) / run_, 1);
    const int64_t unit_bytes = 2 * (4 * int64_t{m.warp_tile}) * u_.k * element_bytes();
    while (!u_.reads_tiles() && units > 1 && unit_bytes * units > m.most_shared_bytes() / 2) units /= 2;
    return units;
  }

  // Workgroups of consecutive numbers read the same rows of a and columns of b: groups of rows of tiles, column by column.
  void place_tile(Expr tile, Expr rows, Expr columns) {
    const Expr group = b_.let("group", tile / (columns * kGroup)), in_group = tile % (columns * kGroup);
    const Expr height = b_.let("height", min(rows - group * kGroup, kGroup));
    row0_ = b_.let("row0", (group * kGroup + in_group % height) * a_.size);
    column0_ = b_.let("column0", in_group / height * own_);
  }

  void set_up() {
    a_.name = "a";
    a_.from = o_.from_a;
    b_tile_.name = "b";
    b_tile_.from = o_.from_b;
    a_.exists = [&](Expr i) { return row0_ + i < o_.m; };
    auto column = [&](Expr i) { return halves_ == 1 ? column0_ + i : column0_ + i % own_; };
    b_tile_.exists = [this, column](Expr i) { return column(i) < o_.n; };
    if (words_) plan_words();
    else plan_elements();
    const int64_t partial = (split_.deep - 1) * a_.size * b_tile_.size * 4;
    const auto bytes = [&](int64_t stages) {
      const int64_t of_a = slice_elements(a_) * element_bytes(), of_b = slice_elements(b_tile_) * element_bytes();
      return stages * of_a + (b_tile_.runs ? 2 * of_b + (stages + 1) * code_bytes() : stages * of_b) + partial;
    };
    int64_t stages = b_tile_.runs && !u_.reads_tiles() ? kCodeStages : kStages;
    while (stages > 2 && bytes(stages) > m_.pipeline_bytes) --stages;
    for (Tile* t : {&a_, &b_tile_})
      if (t->deferred) stages_ = stages;
    for (Tile* t : {&a_, &b_tile_})
      if (t->deferred && !t->runs) t->stages = stages;
  }
  int64_t code_bytes() const { return loads(b_tile_) * threads_ * b_tile_.runs->bytes(); }  // of a slice
  int64_t loads(const Tile& t) const { return (blocks(t) + threads_ - 1) / threads_; }      // of a thread, for a slice

  void plan_elements() {
    const GemmSpec& s = o_.spec;
    plan(&a_, s.a, s.a.strides.size() - 1, o_.k, o_.m);
    if (s.quantized) plan_runs();
    else if (s.b_at) plan_computed();
    else plan(&b_tile_, s.b, s.b.strides.size() - 2, o_.k, o_.n);
    const auto loads = [this](Tile& t, const std::function<Expr(Expr i, Expr k)>& at) {
      t.load = [this, &t, at](Expr i, Expr p) {
        const int vector = static_cast<int>(t.along_k ? t.deep : t.wide);
        return t.from.load_if(t.exists(i) && p < o_.k, at(i, p), broadcast(b_.value(u_.operand, 0), vector), vector);
      };
    };
    loads(a_, [&](Expr i, Expr k) { return o_.where_a(row0_ + i, k); });
    loads(b_tile_, [this](Expr i, Expr k) { return o_.where_b(k, column_of_b(i)); });
    for (Tile* t : {&a_, &b_tile_})
      t->deferred =
          m_.pipeline_bytes > 0 && t->deep * t->wide * element_bytes() >= 4 && (t->along_k || t->form == Source::AcrossK);
  }

  // Chooses the runs of a quantized b.
  void plan_runs() {
    const int64_t chunk = run_ * units_;
    b_tile_.along_k = true;
    b_tile_.runs.emplace(o_, m_, plane_, chunk);
    b_tile_.deep = b_tile_.runs->size();
  }
  Expr reads_run(Expr i, Expr p) const { return b_tile_.exists(i) && p < o_.k; }
  Expr column_of_b(Expr i) const { return halves_ == 1 ? column0_ + i : column0_ + i % own_ + i / own_ * o_.n; }

  // Chooses the loads of words.
  void plan_words() {
    const bool whole = is_multiple(o_.k, words_->unit.group);
    const int most = static_cast<int>(std::min<int64_t>(m_.load_lanes(4), kWide));
    const auto guarded = [this](Expr condition, const std::function<Expr()>& value) {
      Buf v = b_.variable("word", words_->none());
      b_.when(condition, [&] { v.set(value()); });
      return v.get();
    };
    const Dims& strides = o_.spec.a.strides;
    a_.along_k = is_constant(strides.back(), 1) || !is_constant(strides.end()[-2], 1);
    a_.deep = a_.along_k ? words_->most_words_of_a(most) : run_ * units_;
    a_.load = [=, this](Expr i, Expr p) {
      const Expr reads = a_.exists(i) && p < steps_, row = row0_ + i;
      if (a_.along_k && a_.deep > 1) return words_->words_of_a(row, p, static_cast<int>(a_.deep), reads);
      return guarded(reads, [&] { return words_->word_of_a(row, p, whole); });
    };
    a_.deferred = m_.pipeline_bytes > 0 && a_.along_k && a_.deep > 1 && (words_->has_rows() || o_.spec.a_shift == 0);
    const bool runs = words_->reads_runs_of_b(), by_rows = words_->reads_rows_of_b();
    b_tile_.along_k = runs || (words_->has_columns() && words_->beside > 1);
    b_tile_.deep = run_ * units_;
    b_tile_.wide = by_rows ? words_->unit.group : words_->has_columns() && !b_tile_.along_k ? most : 1;
    b_tile_.deferred = m_.pipeline_bytes > 0 && b_tile_.along_k;
    b_tile_.load = [=, this](Expr i, Expr p) {
      const Expr reads = b_tile_.exists(i) && p < steps_;
      if (runs) return words_->words_of_run(p, column_of_b(i), static_cast<int>(b_tile_.deep), reads);
      if (by_rows) return words_->words_of_columns(p, column_of_b(i), reads);
      if (words_->has_columns())
        return words_->words_of_panel(p, column_of_b(i), static_cast<int>(b_tile_.wide * b_tile_.deep), reads);
      return guarded(reads, [&] { return words_->word_of_b(p, column_of_b(i), whole); });
    };
  }

  // Chooses the load width: along k (axis `k_axis`) or along the other one of the last two axes.
  void plan(Tile* t, const Operand& from, size_t k_axis, Expr k, Expr length) {
    const size_t other = 2 * from.strides.size() - 3 - k_axis;
    const auto widest = [&](size_t axis, Expr extent, int64_t most) -> int64_t {
      return contiguous_lanes(from, axis, extent, std::min<int64_t>(most, m_.load_lanes(element_bytes())));
    };
    t->along_k = is_constant(from.strides[k_axis], 1);
    t->deep = t->along_k ? widest(k_axis, k, run_ * units_) : t->form == Source::AcrossK ? 1 : run_ * units_;
    t->wide = t->along_k ? 1 : widest(other, length, t->form == Source::AcrossK ? kReadBytes : kWide);
  }

  // The same for a computed b.
  void plan_computed() {
    const int64_t most = std::min<int64_t>(int64_t{run_} * units_, m_.load_lanes(element_bytes()));
    b_tile_.along_k = o_.spec.b_run % most == 0 && most > 1;
    b_tile_.deep = b_tile_.along_k ? most : run_ * units_;
  }

  // Returns the offset of element (i, k) of a slice in shared memory. Rows that threads store along i are swapped in pairs, which
  // spreads them over the banks.
  Expr place(const Tile& t, Expr i, Expr k) const {
    if (t.form == Source::AlongK) return tile_place(i, k, t.size, kTileBytes / element_bytes());
    if (t.form == Source::AcrossK) return tile_place(k, i, depth_, kTileBytes / element_bytes());
    const Expr row = t.along_k ? i : i / int64_t{2} * int64_t{2} + (i + i / int64_t{4}) % int64_t{2}, plane = k / plane_;
    return (plane * t.size + row) * plane_ + (t.runs ? swizzled(row, plane, k % plane_) : k % plane_);
  }
  // Permutes the chunks of a row of a plane. Threads that store one chunk of neighbouring rows or planes use different banks.
  Expr swizzled(Expr row, Expr plane, Expr k) const {
    const int64_t chunk = int64_t{run_} * units_, chunks = plane_ / chunk, rows_of_line = std::max<int64_t>(8 / chunks, 1);
    return ((k / chunk) ^ ((row / rows_of_line + plane) % chunks)) * chunk + k % chunk;
  }
  int64_t slice_elements(const Tile& t) const { return depth_ * t.size; }
  int64_t blocks(const Tile& t) const { return t.size * depth_ / (t.wide * t.deep); }
  Expr stage(const Tile& t, Expr slice) const { return slice % t.stages * slice_elements(t); }

  // Calls f(the thread's block number, first i, first k) for this thread's blocks of the slice.
  void each_block(const Tile& t, const std::function<void(Expr, Expr, Expr)>& f) {
    const int64_t all = blocks(t), deep = plane_ / t.deep, wide = t.size / t.wide;
    b_.unroll("e", (all + threads_ - 1) / threads_, [&](Expr e) {
      const Expr block = b_.let("block", e * threads_ + thread_);
      const bool by_rows = t.form == Source::AcrossK;
      const int64_t runs = depth_ / t.deep;
      const Expr k = t.runs    ? block % runs * t.deep
                     : by_rows ? block / wide
                               : block / (deep * wide) * plane_ + block % deep * t.deep;
      const Expr i = t.runs ? block / runs : (by_rows ? block % wide : block / deep % wide) * t.wide;
      auto one = [&] { f(e, b_.let("i", i), b_.let("k", k)); };
      all % threads_ == 0 ? one() : b_.when(block < all, one);
    });
  }

  void fetch(Tile& t, Expr k0) {
    each_block(t, [&](Expr e, Expr i, Expr k) {
      if (t.runs) {
        const Expr reads = reads_run(i, k0 + k);
        if (!t.deferred) t.codes.store(e * t.runs->bytes(), t.runs->codes(k0 + k, column_of_b(i), reads));
        const CodeRuns::Parameters p = t.runs->parameters(k0 + k, column_of_b(i), reads);
        t.scales.store(e, p.scale);
        return t.zeros.store(e, p.zero);
      }
      if (t.along_k) return t.next.store(e * t.deep, t.load(i, k0 + k));
      for (int64_t p = 0; p < t.deep; ++p) {
        const Expr v = b_.let("v", t.load(i, k0 + k + p));
        for (int64_t j = 0; j < t.wide; ++j)
          t.next.store((e * t.wide + j) * t.deep + p, rlxc::kernel::lane(v, static_cast<int>(j)));
      }
    });
  }

  // Returns where the codes of a thread's run lie.
  Expr place_of_codes(const Tile& t, Expr slice, Expr e) const {
    const int64_t bytes = t.runs->bytes();
    return t.deferred ? slice % (stages_ + 1) * code_bytes() + (e * threads_ + thread_) * bytes : e * bytes;
  }

  void store_later(const Tile& t, Expr slice) {
    if (t.runs)
      return each_block(t, [&](Expr e, Expr i, Expr k) {
        const Expr p = slice * depth_ + k;
        t.codes.store_later(place_of_codes(t, slice, e), t.runs->codes(p, column_of_b(i), reads_run(i, p)));
      });
    const Expr base = b_.let("later", stage(t, slice)), k0 = slice * depth_;
    each_block(t, [&](Expr, Expr i, Expr k) { t.shared.store_later(base + place(t, i, k), t.load(i, k0 + k)); });
  }

  void put(const Tile& t, Expr slice) {
    const Expr base = stage(t, slice);
    each_block(t, [&](Expr e, Expr i, Expr k) {
      if (t.runs) {
        const Expr scale = t.scales.load(e);
        const Expr codes = t.codes.load(place_of_codes(t, slice, e), static_cast<int>(t.runs->bytes()));
        return t.runs->each(codes, t.zeros.load(e), [&](int64_t first, Expr values) {
          t.shared.store(base + place(t, i, k + first), cast_to(values * broadcast(scale, values.lanes()), u_.operand));
        });
      }
      for (int64_t j = 0; j < t.wide; ++j)
        t.shared.store(base + place(t, i + j, k), t.next.load((e * t.wide + j) * t.deep, static_cast<int>(t.deep)));
    });
  }

  Expr along(const FragmentLayout& s, int8_t Step::*axis) const { return lane_start(b_, u_, s, axis, in_warp_); }

  // Returns a thread's vectors for the units of a plane, at row (column) i. `c`: the start of the lane along k in a unit.
  std::vector<Expr> parts(const Tile& t, const FragmentLayout& s, int8_t Step::*of_i, int8_t Step::*of_k, Expr base, Expr i,
                          Expr c) {
    const int elements = s.elements(), wide = run_ * units_, runs = elements / run_;
    const Buf read = b_.registers((std::string("read_") + t.name).c_str(), u_.operand, int64_t{runs} * wide);
    for (int r = 0; r < runs; ++r) {
      const Step at = s.of_element(r * run_);
      const Expr k = (c + int64_t{at.*of_k}) * int64_t{units_};
      read.store(r * wide, t.shared.load(base + place(t, i + int64_t{at.*of_i}, t.runs ? deep_at_ * plane_ + k : k), wide));
    }
    std::vector<Expr> of_units;
    for (int u = 0; u < units_; ++u) {
      if (runs == 1) of_units.push_back(read.load(u * run_, run_));
      else {
        const Buf part = b_.registers((std::string("part_") + t.name).c_str(), u_.operand, elements);
        for (int r = 0; r < runs; ++r) part.store(r * run_, read.load(r * wide + u * run_, run_));
        of_units.push_back(part.load(0, elements));
      }
    }
    return of_units;
  }

  int64_t units_of_warp() const { return u_.reads_tiles() ? 1 : down_ * halves_ * each_half_; }

  // Returns where the sums of a unit's element begin. With `pair`, those of the second half are of the unit v + each_half_, or of
  // the same unit of tiles.
  int64_t place_of_sum(int64_t u, int64_t v, int e) const {
    if (!u_.reads_tiles()) return (u * halves_ * each_half_ + v) * u_.c.elements() + e;
    for (int bit = 0; v > 0 && bit < u_.c.element_bits; ++bit)
      if (u_.c.element[static_cast<size_t>(bit)].column == own_) e |= 1 << bit;
    return e;
  }

  // Returns the first column of a warp's unit v in the tile of b.
  Expr unit_column(int64_t v) const { return across_at_ * (each_half_ * u_.n) + v / each_half_ * own_ + v % each_half_ * u_.n; }
  Expr unit_row(int64_t u) const { return down_at_ * (down_ * u_.m) + u * u_.m; }

  void multiply(Expr slice) {
    if (u_.reads_tiles()) {
      const int64_t row = kTileBytes / element_bytes();
      const Expr a = b_.tile(a_.shared, stage(a_, slice) + down_at_ * (u_.m * row)),
                 b = b_.tile(b_tile_.shared, stage(b_tile_, slice));
      return sums_.store(0, b_.matrix_multiply(unit_, a, b, sums_.load(0, u_.c.elements())));
    }
    const Expr a_row = b_.let("a_row", along(u_.a, &Step::row)), a_step = b_.let("a_step", along(u_.a, &Step::column));
    const Expr b_column = b_.let("b_column", along(u_.b, &Step::column)), b_step = b_.let("b_step", along(u_.b, &Step::row));
    const auto base = [&](const Tile& t) {
      return b_.let("base", t.runs ? stage(t, slice) : stage(t, slice) + deep_at_ * (t.size * plane_));
    };
    const Expr a_base = base(a_), b_base = base(b_tile_);
    const auto operand = [&](Expr v, DType t, const FragmentLayout& s) {
      return words_ ? bitcast_to(v, Type(t, s.elements())) : v;
    };
    std::vector<std::vector<Expr>> left;
    for (int64_t u = 0; u < down_; ++u)
      left.push_back(parts(a_, u_.a, &Step::row, &Step::column, a_base, unit_row(u) + a_row, a_step));
    for (int64_t v = 0; v < halves_ * each_half_; ++v) {
      const std::vector<Expr> right = parts(b_tile_, u_.b, &Step::column, &Step::row, b_base, unit_column(v) + b_column, b_step);
      for (int k = 0; k < units_; ++k)
        for (int64_t u = 0; u < down_; ++u) {
          const int64_t at = (u * halves_ * each_half_ + v) * u_.c.elements();
          const Expr a = operand(left[static_cast<size_t>(u)][static_cast<size_t>(k)], unit_.operand, unit_.a);
          const Expr b = operand(right[static_cast<size_t>(k)], unit_.of_b(), unit_.b);
          sums_.store(at, b_.matrix_multiply(unit_, a, b, sums_.load(at, u_.c.elements())));
        }
    }
  }

  void body() {
    const int64_t units = units_of_warp();
    for (Tile* t : {&a_, &b_tile_}) {
      t->shared = b_.shared(std::string("tile_") + t->name, u_.operand, t->stages * slice_elements(*t));
      if (t->runs) {
        const DType code = t->from.type().dtype;
        t->codes = t->deferred ? b_.shared("codes", code, (stages_ + 1) * code_bytes())
                               : b_.registers("codes", code, loads(*t) * t->runs->bytes());
        t->scales = b_.registers("scales", DType::F32, loads(*t));
        t->zeros = b_.registers("zeros", DType::F32, loads(*t));
      } else if (!t->deferred) {
        t->next = b_.registers(std::string("next_") + t->name, u_.operand, loads(*t) * t->wide * t->deep);
      }
    }
    sums_ = b_.registers("sum", unit_.accumulator, units * u_.c.elements());
    for (int64_t u = 0; u < units; ++u) sums_.store(u * u_.c.elements(), o_.zero(u_.c.elements()));
    if (words_ && words_->needs_rows() && !words_->has_rows()) of_rows_.emplace(b_, "row_sums", a_.size, thread_, threads_);
    if (words_ && words_->needs_columns() && !words_->has_columns())
      of_columns_.emplace(b_, "column_sums", b_tile_.size, thread_, threads_);
    const auto by_registers = [&](Expr slice, bool get) {
      for (Tile* t : {&a_, &b_tile_})
        if (!t->deferred || t->runs) get ? fetch(*t, slice * depth_) : put(*t, slice);
    };
    int64_t slices = INT64_MAX;
    constant(ceil_div(steps_, depth_), &slices);
    // Codes are decoded a slice earlier than it is multiplied.
    const auto later = [&](Expr slice) {
      for (Tile* t : {&a_, &b_tile_})
        if (t->deferred) store_later(*t, t->runs ? slice + 1 : slice);
    };
    const bool defers = a_.deferred || b_tile_.deferred, decodes = b_tile_.runs && b_tile_.deferred;
    if (decodes) store_later(b_tile_, b_.i64(0));
    for (int64_t s = 0; defers && s + 1 < stages_; ++s) {
      if (s < slices) later(b_.i64(s));
      b_.await(static_cast<int>(stages_ - 2));
    }
    by_registers(b_.i64(0), true);
    by_registers(b_.i64(0), false);
    if (decodes) b_.await(static_cast<int>(stages_ - 2));
    b_.loop("slice", ceil_div(steps_, depth_), [&](Expr slice) {
      b_.barrier();
      const Expr next = b_.let("next", slice + 1);
      if (defers && slices >= stages_) later(b_.let("last", slice + (stages_ - 1)));
      by_registers(next, true);
      multiply(slice);
      const auto word_of = [&](const Tile& t) {
        return [&, slice](Expr p, Expr i) { return t.shared.load(stage(t, slice) + place(t, i, p)); };
      };
      if (of_rows_) of_rows_->add(depth_, word_of(a_), [&](Expr word, Expr sum) { return words_->add_a(word, sum); });
      if (of_columns_) of_columns_->add(depth_, word_of(b_tile_), [&](Expr word, Expr sum) { return words_->add_b(word, sum); });
      by_registers(next, false);
      if (unit_.later) b_.settle(sums_);
      if (defers) b_.await(static_cast<int>(stages_ - 2));
    });
    if (of_rows_ || of_columns_) b_.barrier();
    if (split_.deep == 1) return write();
    add_planes();
    b_.when(deep_at_ == 0, [&] { write(); });
  }

  // Adds the sums of the warps that share a tile to those of the first of them.
  void add_planes() {
    const int64_t vector = u_.c.elements(), units = units_of_warp(), tiles = split_.down * split_.across;
    const Buf partial = b_.shared("partial", unit_.accumulator, (split_.deep - 1) * tiles * units * vector * u_.warp);
    const Expr tile = down_at_ * split_.across + across_at_;
    const auto place = [&](Expr plane, int64_t u) {
      return (((plane * tiles + tile) * units + u) * int64_t{u_.warp} + in_warp_) * vector;
    };
    b_.when(deep_at_ > 0, [&] {
      for (int64_t u = 0; u < units; ++u) partial.store(place(deep_at_ - 1, u), sums_.load(u * vector, static_cast<int>(vector)));
    });
    b_.barrier();
    b_.when(deep_at_ == 0, [&] {
      for (int64_t plane = 0; plane + 1 < split_.deep; ++plane)
        for (int64_t u = 0; u < units; ++u)
          sums_.add(u * vector, partial.load(place(b_.i64(plane), u), static_cast<int>(vector)));
    });
  }

  void write() {
    const Expr row_part = b_.let("row_part", row0_ + along(u_.c, &Step::row)),
               column_part = b_.let("column_part", column0_ + along(u_.c, &Step::column));
    const bool in_pairs = u_.c.element[0].column == 1 && (!words_ || words_->writes_pairs());
    const int wide = in_pairs ? static_cast<int>(o_.lanes_of_writes(2)) : 1;
    for (int64_t u = 0; u < down_; ++u)
      for (int e = 0; e < u_.c.elements(); e += wide) {
        const Step at = u_.c.of_element(e);
        if (u_.reads_tiles() && at.column >= own_) continue;
        const Expr row = b_.let("row", row_part + unit_row(u) + int64_t{at.row});
        b_.when(row < o_.m, [&] {
          for (int64_t v = 0; v < each_half_; ++v) {
            const Expr column = b_.let("column", column_part + unit_column(v) + int64_t{at.column});
            auto sum = [&](int64_t i) {
              const Expr all = sums_.load(place_of_sum(u, i, e), wide);
              return words_ ? without_zeros(all, row, column, i >= each_half_) : all;
            };
            b_.when(column < o_.n,
                    [&] { o_.write(row, column, sum(v), o_.spec.two_sums ? std::optional(sum(v + each_half_)) : std::nullopt); });
          }
        });
      }
  }

  // `second`: the sum of column n + column.
  Expr without_zeros(Expr sum, Expr row, Expr column, bool second) const {
    const Expr of_b = second ? column + o_.n : column, in_tile = column - column0_ + (second ? own_ : 0);
    return words_->without_zeros(
        sum, row, of_b, [&] { return of_rows_ ? of_rows_->of(row - row0_) : words_->sum_of_row(row); },
        [&] { return of_columns_ ? of_columns_->of(in_tile, sum.lanes()) : words_->sum_of_column(of_b, sum.lanes()); });
  }

  GemmOperands& o_;
  Builder& b_;
  const Mapping& m_;
  const MatrixUnit& unit_;
  const MatrixUnit u_;     // as tiles see it
  const int run_, units_;  // elements of a lane that are contiguous along k, and units whose elements it reads at once
  const int64_t plane_;    // steps of k
  Expr steps_;             // of k
  std::optional<DotWords> words_;
  std::optional<TileTotals> of_rows_, of_columns_;
  Split split_{};
  int64_t threads_ = 1, depth_ = 1, stages_ = 2;   // depth: steps of k in a slice
  int64_t down_ = 1, each_half_ = 1, halves_ = 1;  // units per warp: rows, columns per half of b, halves (2 with `pair`)
  int64_t own_ = 1;                                // columns of the result in the tile
  Tile a_, b_tile_;
  Buf sums_;
  Expr thread_, in_warp_, deep_at_, down_at_, across_at_, row0_, column0_;
};

}  // namespace

bool gemm_on_matrix_units(GemmOperands& o, const Mapping& m) {
  const MatrixUnit* unit = tile_unit_for(o, m);
  if (!unit) unit = unit_for(o, m);
  if (unit) MatrixTiles(o, m, *unit).run();
  return unit != nullptr;
}

}  // namespace rlxc::kernel
