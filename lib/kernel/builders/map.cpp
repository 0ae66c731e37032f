#include "kernel/builders/map.h"

#include <algorithm>
#include <optional>

#include "kernel/builders/turn.h"

namespace rlxc::kernel {
namespace {

constexpr int64_t kTile = 16;    // elements per cache line
constexpr int kLeastSquare = 4;  // lanes of vectors whose squares are turned
constexpr int kLeastRest = 4;    // lanes of half a vector at the end of a row

int bytes(DType t) { return rlxc::bits(t) / 8; }

// The type whose width lanes of vectors have on CPU threads.
DType in_registers(DType t) { return t == DType::Bool ? DType::I32 : compute_dtype(t); }

class MapBuilder {
 public:
  MapBuilder(Builder& b, MapSpec spec, const Mapping& m) : b_(b), spec_(std::move(spec)), m_(m) {
    for (Operand& o : spec_.inputs) {
      operands_.push_back(&o);
      bufs_.push_back(b.input(o.name, o.dtype, o.extent));
    }
    for (Operand& o : spec_.outputs) {
      operands_.push_back(&o);
      bufs_.push_back(b.output(o.name, o.dtype, o.extent));
      stream(bufs_.back(), m);
    }
    if (merge_dims(b.kernel(), &spec_.shape, operands_, 0, spec_.shape.size()) == 0) {
      spec_.shape.push_back(1);
      for (Operand* o : operands_) o->strides.push_back(1);
    }
    for (Operand* o : operands_) widest_ = std::max(widest_, bytes(m.workgroups ? o->dtype : in_registers(o->dtype)));
  }

  void run() {
    Kernel* k = b_.kernel();
    size_t rank = spec_.shape.size();
    Expr inner = spec_.shape.back().in(k);
    int lanes = vector_lanes();
    Dims outer(spec_.shape.begin(), spec_.shape.end() - 1);
    if (m_.workgroups) {
      outer.push_back(inner / lanes);
      for_each(b_, m_, "i", product(k, outer), 0, [&](Expr i) {
        std::vector<Expr> index = split_index(i, outer);
        for (size_t d = 0; d < rank; ++d) index[d] = b_.let("i" + std::to_string(d), index[d]);
        index.back() = index.back() * lanes;
        point(index, lanes);
      });
      return;
    }
    int64_t point_bytes = 0;
    for (Operand* o : operands_) point_bytes += bytes(o->dtype);
    if (rank == 1) {
      for_each(b_, m_, "i", inner / lanes, point_bytes * lanes, [&](Expr i) { point({i * lanes}, lanes); });
      tail({}, inner, lanes);
      return;
    }
    int64_t n = 0;
    if (constant(inner, &n)) point_bytes *= std::max<int64_t>(n, 1);
    if (const size_t column = turned_axis(); lanes == 1 && column + 1 < rank) return by_tiles(column, point_bytes);
    for_each(b_, m_, "row", product(k, outer), point_bytes, [&](Expr row) {
      std::vector<Expr> index = split_index(row, outer);
      for (Expr& e : index) e = b_.let("i", e);
      b_.loop("j", inner / lanes, [&](Expr j) { point(with(index, j * lanes), lanes); });
      tail(index, inner, lanes);
    });
  }

 private:
  // Returns the contiguous axis of an input whose last axis is strided; the last axis if no input has one.
  size_t turned_axis() const {
    const size_t last = spec_.shape.size() - 1;
    for (const Operand& o : spec_.inputs)
      for (size_t d = 0; d < last; ++d)
        if (!o.split(d) && !o.split(last) && same(o.strides[d], 1) && !same(o.strides[last], 0) && !same(o.strides[last], 1))
          return d;
    return last;
  }
  // Tiles along this axis and the last one, which reads each cache line once.
  void by_tiles(size_t column, int64_t row_bytes) {
    Dims outer(spec_.shape.begin(), spec_.shape.end() - 1);
    const Expr columns = outer[column].in(b_.kernel()), inner = spec_.shape.back().in(b_.kernel());
    const int64_t tile = tile_of(column), width = strip_width(column);
    const int lanes = width > 0 ? whole_lanes() : square_lanes(column);
    outer[column] = ceil_div(columns, tile);
    for_each(b_, m_, "tile", product(b_.kernel(), outer), row_bytes * tile, [&](Expr number) {
      std::vector<Expr> index = split_index(number, outer);
      for (Expr& e : index) e = b_.let("i", e);
      const Expr first = b_.let("first", index[column] * tile), count = b_.let("count", min(columns - first, tile));
      const auto points = [&](Expr from) {
        b_.loop("j", inner - from, [&](Expr j) {
          b_.loop("t", count, [&](Expr t) {
            index[column] = first + t;
            point(with(index, from + j), 1);
          });
        });
      };
      if (lanes == 1) return points(b_.i64(0));
      const auto squares = [&] {
        if (width > 0)
          return b_.loop("t", tile / lanes, [&](Expr t) {
            index[column] = b_.let("column", first + t * lanes);
            strip(index, column, width, lanes);
          });
        b_.loop("j", inner / lanes, [&](Expr j) {
          b_.loop("t", tile / lanes, [&](Expr t) {
            index[column] = b_.let("column", first + t * lanes);
            square(index, column, b_.let("row", j * lanes), lanes);
          });
        });
        if (!is_multiple(spec_.shape.back(), lanes)) points(inner / lanes * lanes);
      };
      b_.when(count == tile, squares, [&] { points(b_.i64(0)); });
    });
  }

  enum class Access : uint8_t { Turned, Row, Repeated };
  std::optional<Access> access(const Operand& o, size_t column) const {
    const size_t last = spec_.shape.size() - 1;
    if (o.split(column) || o.split(last) || o.dtype == DType::Bool) return std::nullopt;
    if (is_constant(o.strides[last], 1)) return Access::Row;
    if (is_constant(o.strides[last], 0)) return Access::Repeated;
    return is_constant(o.strides[column], 1) ? std::optional(Access::Turned) : std::nullopt;
  }
  // Elements of a tile along the axis: those of a cache line, or all of fewer whole vectors.
  int64_t tile_of(size_t column) const {
    int64_t columns = 0;
    const bool fewer = constant(spec_.shape[column], &columns) && columns < kTile && columns > 0;
    return fewer && columns % whole_lanes() == 0 ? columns : kTile;
  }
  // The side of squares that vectors along the axis and the last one can access; 1 if an operand has neither, or if
  // there is no whole tile.
  int square_lanes(size_t column) const {
    int64_t columns = 0;
    if (constant(spec_.shape[column], &columns) && columns < tile_of(column)) return 1;
    for (const Operand& o : spec_.inputs)
      if (!access(o, column)) return 1;
    for (const Operand& o : spec_.outputs)
      if (access(o, column) != Access::Row) return 1;
    return whole_lanes();
  }
  int whole_lanes() const {
    const int lanes = std::min<int>(m_.vector_lanes(widest_), kTile);
    return lanes >= kLeastSquare ? lanes : 1;
  }
  // The size of a last axis shorter than a vector, if the outputs have the rows of all columns one after another: then vectors
  // of columns are interleaved. 0 for other maps, or if there is no whole tile.
  int64_t strip_width(size_t column) const {
    const size_t last = spec_.shape.size() - 1;
    int64_t columns = 0, width = 0;
    if (!constant(spec_.shape[last], &width) || width < 2 || width >= whole_lanes() || (width & (width - 1)) != 0) return 0;
    if (constant(spec_.shape[column], &columns) && columns < tile_of(column)) return 0;
    for (const Operand& o : spec_.inputs) {
      const auto a = access(o, column);
      if (a != Access::Turned && (a != Access::Repeated || !is_constant(o.strides[column], 0))) return 0;
    }
    for (const Operand& o : spec_.outputs)
      if (access(o, column) != Access::Row || !is_constant(o.strides[column], width)) return 0;
    return width;
  }
  // All `width` points of `lanes` columns from index[column] on.
  void strip(const std::vector<Expr>& index, size_t column, int64_t width, int lanes) {
    std::vector<std::vector<Expr>> parts(spec_.inputs.size());
    for (size_t i = 0; i < parts.size(); ++i) {
      if (access(spec_.inputs[i], column) == Access::Repeated) {
        parts[i].assign(static_cast<size_t>(width), load(i, with(index, b_.i64(0)), 1));
        continue;
      }
      for (int64_t j = 0; j < width; ++j) parts[i].push_back(load(i, with(index, b_.i64(j)), lanes));
      parts[i] = interleaved(b_, parts[i]);
    }
    for (int64_t v = 0; v < width; ++v) {
      std::vector<Expr> in;
      for (const auto& part : parts) in.push_back(part[static_cast<size_t>(v)]);
      store(in, with(index, b_.i64(0)), lanes, v * lanes);
    }
  }
  // Points of `lanes` columns and rows from (index[column], row) on.
  void square(std::vector<Expr> index, size_t column, Expr row, int lanes) {
    const Expr first = index[column];
    std::vector<std::vector<Expr>> turns(spec_.inputs.size());
    for (size_t i = 0; i < spec_.inputs.size(); ++i) {
      if (access(spec_.inputs[i], column) != Access::Turned) continue;
      for (int l = 0; l < lanes; ++l) turns[i].push_back(load(i, with(index, row + l), lanes));
      turns[i] = turned(b_, turns[i]);
    }
    for (int l = 0; l < lanes; ++l) {
      index[column] = first + l;
      std::vector<Expr> in;
      for (size_t i = 0; i < spec_.inputs.size(); ++i) {
        if (!turns[i].empty()) in.push_back(turns[i][static_cast<size_t>(l)]);
        else in.push_back(load(i, with(index, row), access(spec_.inputs[i], column) == Access::Row ? lanes : 1));
      }
      store(in, with(index, row), lanes);
    }
  }

  static std::vector<Expr> with(std::vector<Expr> index, Expr last) {
    index.push_back(last);
    return index;
  }

  // Returns whether all rows begin at multiples of a vector. Misaligned vector accesses fault on devices.
  static bool aligned(const Operand& o, int lanes) {
    bool all = is_multiple(o.offset, lanes);
    for (size_t d = 0; d + 1 < o.strides.size(); ++d) {
      if (!o.split(d)) all = all && is_multiple(o.strides[d], lanes);
      else
        for (const Operand::DimFactor& p : o.factors[d]) all = all && is_multiple(p.stride, lanes);
    }
    return all;
  }

  // Returns the stride between neighbouring elements of a vector.
  static const Index& last_stride(const Operand& o) {
    const size_t last = o.strides.size() - 1;
    return o.split(last) ? o.factors[last].back().stride : o.strides.back();
  }

  // Returns the vector lanes along the last dim: 1 unless every operand is contiguous or constant there.
  int vector_lanes() const {
    int64_t n = 0, stride = 0;
    bool known = constant(spec_.shape.back(), &n);
    int lanes = m_.workgroups ? m_.load_lanes(widest_) : m_.vector_lanes(widest_);
    for (size_t i = 0; i < operands_.size(); ++i) {
      const Operand& o = *operands_[i];
      bool output = i >= spec_.inputs.size();
      if (!constant(last_stride(o), &stride) || (stride != 1 && (stride != 0 || output))) return 1;
      while (m_.workgroups && stride == 1 && lanes > 1 && !aligned(o, lanes)) lanes /= 2;
      if (!o.split(o.strides.size() - 1)) continue;
      // A vector must be within the innermost factor.
      if (m_.workgroups || !o.starts.empty()) return 1;
      while (lanes > 1 && !is_multiple(o.factors.back().back().size, lanes)) lanes /= 2;
    }
    while (m_.workgroups && lanes > 1 && (!known || n % lanes != 0)) lanes /= 2;
    if (m_.workgroups) return lanes;
    while (known && lanes > 1 && lanes > n) lanes /= 2;
    return lanes;
  }

  void tail(const std::vector<Expr>& index, Expr inner, int lanes) {
    if (lanes == 1) return;
    Expr rest = inner % lanes, done = inner / lanes * lanes;
    int64_t n = 0;
    if (constant(rest, &n)) {
      if (n == 0) return;
      if (const int half = lanes / 2; half >= kLeastRest && n >= half) {
        point(with(index, done), half);
        rest = b_.i64(n - half);
        done = done + half;
        if (n == half) return;
      }
    }
    b_.loop("t", rest, [&](Expr t) { point(with(index, done + t), 1); });
  }

  void point(const std::vector<Expr>& index, int lanes) {
    std::vector<Expr> in;
    for (size_t i = 0; i < spec_.inputs.size(); ++i)
      in.push_back(load(i, index, is_constant(last_stride(spec_.inputs[i]), 0) ? 1 : lanes));
    store(in, index, lanes);
  }
  // An input in its compute type.
  Expr load(size_t i, const std::vector<Expr>& index, int lanes) {
    const Operand& o = spec_.inputs[i];
    return b_.let(o.name + "_v", cast_to(bufs_[i].load(element_at(b_.kernel(), o, index), lanes), compute_dtype(o.dtype)));
  }
  // Stores the results at the point and `ahead` elements.
  void store(const std::vector<Expr>& in, const std::vector<Expr>& index, int lanes, int64_t ahead = 0) {
    const std::vector<Expr> out = spec_.body(in);
    for (size_t i = 0; i < out.size(); ++i) {
      const Operand& o = spec_.outputs[i];
      const Buf& to = bufs_[spec_.inputs.size() + i];
      to.store(element_at(b_.kernel(), o, index) + ahead, broadcast(cast_to(out[i], o.dtype), lanes));
    }
  }

  Builder& b_;
  MapSpec spec_;
  const Mapping& m_;
  std::vector<Operand*> operands_;
  std::vector<Buf> bufs_;
  int widest_ = 1;  // bytes of an element: in memory on a grid, in registers on CPU threads
};

}  // namespace

void build_map(Builder& b, const MapSpec& spec, const Mapping& m) { MapBuilder(b, spec, m).run(); }

}  // namespace rlxc::kernel
