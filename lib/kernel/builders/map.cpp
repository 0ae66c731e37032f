#include "kernel/builders/map.h"

#include <algorithm>

namespace rlxc::kernel {
namespace {

constexpr int64_t kTile = 16;  // elements per cache line

int bytes(DType t) { return rlxc::bits(t) / 8; }

class MapBuilder {
 public:
  MapBuilder(Builder& b, MapSpec spec, const Mapping& m) : b_(b), spec_(std::move(spec)), m_(m) {
    for (Operand& o : spec_.inputs) operands_.push_back(&o), bufs_.push_back(b.input(o.name, o.dtype, o.extent));
    for (Operand& o : spec_.outputs) operands_.push_back(&o), bufs_.push_back(b.output(o.name, o.dtype, o.extent));
    if (merge_dims(b.kernel(), &spec_.shape, operands_, 0, spec_.shape.size()) == 0) {
      spec_.shape.push_back(1);
      for (Operand* o : operands_) o->strides.push_back(1);
    }
    for (Operand* o : operands_) widest_ = std::max(widest_, bytes(compute_dtype(o->dtype)));
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
    const Expr columns = outer[column].in(b_.kernel());
    outer[column] = ceil_div(columns, kTile);
    for_each(b_, m_, "tile", product(b_.kernel(), outer), row_bytes * kTile, [&](Expr tile) {
      std::vector<Expr> index = split_index(tile, outer);
      for (Expr& e : index) e = b_.let("i", e);
      const Expr first = b_.let("first", index[column] * kTile), count = b_.let("count", min(columns - first, kTile));
      b_.loop("j", spec_.shape.back(), [&](Expr j) {
        b_.loop("t", count, [&](Expr t) {
          index[column] = first + t;
          point(with(index, j), 1);
        });
      });
    });
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
      if (m_.workgroups && stride == 1 && !aligned(o, lanes)) return 1;
      if (!o.split(o.strides.size() - 1)) continue;
      // A vector must be within the innermost factor.
      if (m_.workgroups || !o.starts.empty()) return 1;
      while (lanes > 1 && !is_multiple(o.factors.back().back().size, lanes)) lanes /= 2;
    }
    if (m_.workgroups) return known && n % lanes == 0 ? lanes : 1;
    while (known && lanes > 1 && lanes > n) lanes /= 2;
    return lanes;
  }

  void tail(const std::vector<Expr>& index, Expr inner, int lanes) {
    if (lanes == 1) return;
    Expr rest = inner % lanes, done = inner / lanes * lanes;
    int64_t n = 0;
    if (constant(rest, &n) && n == 0) return;
    b_.loop("t", rest, [&](Expr t) { point(with(index, done + t), 1); });
  }

  void point(const std::vector<Expr>& index, int lanes) {
    std::vector<Expr> in;
    size_t inputs = spec_.inputs.size();
    for (size_t i = 0; i < inputs; ++i) {
      const Operand& o = spec_.inputs[i];
      int64_t stride = 0;
      bool repeated = constant(last_stride(o), &stride) && stride == 0;
      Expr v = bufs_[i].load(element_at(b_.kernel(), o, index), repeated ? 1 : lanes);
      in.push_back(b_.let(o.name + "_v", cast_to(v, compute_dtype(o.dtype))));
    }
    std::vector<Expr> out = spec_.body(in);
    for (size_t i = 0; i < out.size(); ++i) {
      const Operand& o = spec_.outputs[i];
      bufs_[inputs + i].store(element_at(b_.kernel(), o, index), broadcast(cast_to(out[i], o.dtype), lanes));
    }
  }

  Builder& b_;
  MapSpec spec_;
  const Mapping& m_;
  std::vector<Operand*> operands_;
  std::vector<Buf> bufs_;
  int widest_ = 1;
};

}  // namespace

void build_map(Builder& b, const MapSpec& spec, const Mapping& m) { MapBuilder(b, spec, m).run(); }

}  // namespace rlxc::kernel
