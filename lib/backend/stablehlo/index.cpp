// Gather and scatter. Index tuples become linear indices into their axes, collapsed to one axis.
#include "backend/graph_package.h"
#include "backend/stablehlo/translator.h"

namespace rlxc::stablehlo {
namespace {

class Indexed : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  bool gather() {
    const auto axis = static_cast<size_t>(attrs<AxisAttrs>().axis);
    return set(taken(in(0), wrapped(in(1), in(0).dims[axis]), axis));
  }
  bool gather_elements() {
    return set(b_.reshape(taken(flat(in(0)), b_.reshape(element_places(), {volume(in(1))}), 0), result_dims()));
  }
  bool gather_nd() {
    const auto batch = static_cast<size_t>(attrs<BatchDimsAttrs>().batch_dims);
    return set(b_.reshape(taken(rows(batch), row_places(batch), 0), result_dims()));
  }
  bool scatter_elements() {
    if (const auto start = consecutive_rows(lir(), g_, n_)) {
      const Hlo first = b_.reshape(value(*start), {});
      std::vector<Hlo> operands{in(0), in(2)};
      for (int64_t i = 0; i < static_cast<int64_t>(in(0).dims.size()); ++i)
        operands.push_back(i == element_axis() ? first : b_.constant_int(first.dtype, 0));
      return set(b_.op("dynamic_update_slice", operands, in(0).dtype, in(0).dims));
    }
    const int64_t count = volume(in(1));
    return scatter(flat(in(0)), b_.reshape(element_places(), {count}), b_.reshape(in(2), {count}));
  }
  bool scatter_nd() {
    const Hlo to = rows(0), places = row_places(0);
    Ints dims = to.dims;
    dims[0] = volume(places);
    return scatter(to, b_.reshape(places, {dims[0]}), b_.reshape(in(2), dims));
  }

 private:
  Hlo flat(const Hlo& v) { return b_.reshape(v, {volume(v)}); }
  size_t indexed(size_t batch) const { return batch + static_cast<size_t>(in(1).dims.back()); }
  // Collapses the axes that index tuples address.
  Hlo rows(size_t batch) {
    const auto split = in(0).dims.begin() + static_cast<int64_t>(indexed(batch));
    Ints dims(split, in(0).dims.end());
    dims.insert(dims.begin(), volume(Ints(in(0).dims.begin(), split)));
    return b_.reshape(in(0), dims);
  }
  // Linearises index tuples over axes 0, 1, .. of the operand. part(d) is the index along axis d.
  template <class Part>
  Hlo places(size_t axes, const Ints& points, Part part) {
    Hlo at = b_.constant_int(in(1).dtype, 0, points);
    for (size_t d = 0; d < axes; ++d)
      at = bin("add", bin("multiply", at, b_.constant_int(at.dtype, in(0).dims[d], points)), part(d));
    return at;
  }
  Hlo row_places(size_t batch) {
    const Hlo& given = in(1);
    const size_t last = given.dims.size() - 1;
    const Ints points(given.dims.begin(), given.dims.end() - 1);
    return places(indexed(batch), points, [&](size_t d) {
      if (d < batch) return b_.iota(given.dtype, points, d);
      const auto k = static_cast<int64_t>(d - batch);
      return wrapped(b_.reshape(b_.slice(given, last, k, k + 1), points), in(0).dims[d]);
    });
  }
  Hlo element_places() {
    const Ints& points = in(1).dims;
    const auto axis = static_cast<size_t>(element_axis());
    return places(points.size(), points,
                  [&](size_t d) { return d == axis ? wrapped(in(1), in(0).dims[d]) : b_.iota(in(1).dtype, points, d); });
  }
  int64_t element_axis() const {
    return g_.op(n_) == OpKind::GatherElements ? attrs<AxisAttrs>().axis : attrs<ScatterAttrs>().axis;
  }
  // Scatters updates to the rows of x at `places`, combining them if the op has a reduction, and reshapes to the result.
  bool scatter(const Hlo& x, const Hlo& places, const Hlo& updates) {
    constexpr std::string_view kCombine[] = {"", "add", "multiply", "maximum", "minimum"};
    const auto reduction = static_cast<size_t>(attrs<ScatterAttrs>().reduction);
    const std::string update = b_.region({{"", x.dtype, {}}, {"", x.dtype, {}}}, [&](const std::vector<Hlo>& old) {
      return std::vector{reduction == 0 ? old[1] : b_.op(kCombine[reduction], old, x.dtype, {})};
    });
    return set(b_.reshape(b_.op("scatter", {x, places, updates}, x.dtype, x.dims,
                                "scatter_dimension_numbers = #stablehlo.scatter<update_window_dims = " +
                                    HloBuilder::list(range(1, static_cast<int64_t>(x.dims.size()))) +
                                    ", inserted_window_dims = [0], scatter_dims_to_operand_dims = [0], index_vector_dim = 1>, "
                                    "indices_are_sorted = false, unique_indices = false",
                                update),
                          result_dims()));
  }
};

}  // namespace

std::span<const Translation> index_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::Gather, call<Indexed, &Indexed::gather>},
      {OpKind::GatherElements, call<Indexed, &Indexed::gather_elements>},
      {OpKind::GatherNd, call<Indexed, &Indexed::gather_nd>},
      {OpKind::ScatterElements, call<Indexed, &Indexed::scatter_elements>},
      {OpKind::ScatterNd, call<Indexed, &Indexed::scatter_nd>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
