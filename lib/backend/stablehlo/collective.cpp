// Collectives of a module for several partitions: partition r is the device of rank r. Groups are lists of partitions.
#include "backend/stablehlo/translator.h"
#include "ir/mesh.h"

namespace rlxc::stablehlo {
namespace {

class Collective : public NodeTranslator {
 public:
  using NodeTranslator::NodeTranslator;

  bool all_reduce() {
    const Hlo x = b_.convert(in(0), wide(in(0).dtype));
    const Hlo y = b_.op("all_reduce", {x}, x.dtype, x.dims, groups() + channel(true), combine(x.dtype));
    return set(b_.convert(mean(y), result_dtype()));
  }
  bool reduce_scatter() {
    const Hlo x = in_blocks(b_.convert(in(0), wide(in(0).dtype)), attrs<CollectiveAttrs>().axis);
    const Hlo y =
        b_.op("reduce_scatter", {x}, x.dtype, resized(x, 1, group().size()),
              "scatter_dimension = " + std::to_string(block_axis()) + " : i64, " + groups() + channel(true), combine(x.dtype));
    return set(b_.convert(b_.reshape(mean(y), result_dims()), result_dtype()));
  }
  bool all_gather() {
    const Hlo x = in_blocks(in(0), attrs<CollectiveAttrs>().axis);
    const Hlo y = b_.op("all_gather", {x}, x.dtype, resized(x, group().size(), 1),
                        "all_gather_dim = " + std::to_string(block_axis()) + " : i64, " + groups() + channel(true));
    return set(b_.reshape(y, result_dims()));
  }
  bool all_to_all() {
    const auto& a = attrs<CollectiveAttrs>();
    return set(b_.op("all_to_all", {in(0)}, in(0).dtype, result_dims(),
                     "split_dimension = " + std::to_string(a.axis) + " : i64, concat_dimension = " + std::to_string(a.to) +
                         " : i64, split_count = " + std::to_string(group().size()) + " : i64, " + groups() + channel(false)));
  }
  bool collective_permute() {
    // An operation of XLA sends once from a device, and gives zeros to those that receive nothing: several add up.
    std::vector<std::pair<Ints, Ints>> rounds;
    const CollectiveGroup g = group();
    for (int64_t rank = 0; rank < g.mesh.devices(); ++rank) {
      const int64_t at = attrs<CollectiveAttrs>().source[static_cast<size_t>(g.mesh.position(rank, g.along))];
      if (at < 0) continue;
      const int64_t source = g.mesh.members(rank, g.along)[static_cast<size_t>(at)];
      const auto free =
          std::ranges::find_if(rounds, [&](const auto& r) { return std::ranges::find(r.first, source) == r.first.end(); });
      auto& [sources, targets] = free == rounds.end() ? rounds.emplace_back() : *free;
      sources.push_back(source);
      targets.push_back(rank);
    }
    if (rounds.empty()) rounds.emplace_back();
    std::optional<Hlo> sum;
    for (const auto& [sources, targets] : rounds) {
      const Hlo y = b_.op("collective_permute", {in(0)}, in(0).dtype, in(0).dims,
                          "source_target_pairs = " + HloBuilder::pairs(sources, targets) + channel(false));
      sum = sum ? b_.op("add", {*sum, y}, y.dtype, y.dims) : y;
    }
    return set(*sum);
  }
  bool device_slice() {
    const auto& a = attrs<CollectiveAttrs>();
    Hlo x = in_blocks(in(0), a.axis);
    if (a.padding > 0) {
      Ints none(x.dims.size()), after = none;
      after[static_cast<size_t>(a.axis)] = a.padding;
      x = b_.pad(x, b_.constant(x.dtype, 0), none, after);
    }
    Ints dims = resized(x, 1, group().size());
    const auto axis = static_cast<size_t>(block_axis());
    std::vector<Hlo> operands{x};
    const Hlo at = position(), zero = b_.constant_int(DType::I64, 0);
    for (size_t d = 0; d < dims.size(); ++d)
      operands.push_back(d == axis ? b_.op("multiply", {at, b_.constant_int(DType::I64, dims[d])}, DType::I64, {}) : zero);
    const std::string sizes = "slice_sizes = " + HloBuilder::ints(dims);
    return set(b_.reshape(b_.op("dynamic_slice", operands, x.dtype, std::move(dims), sizes), result_dims()));
  }
  bool device_index() { return set(position()); }

 private:
  CollectiveGroup group() const {
    std::string message;
    return group_of(attrs<CollectiveAttrs>(), &message).value_or(CollectiveGroup{});
  }
  std::string groups() const {
    const CollectiveGroup g = group();
    std::string rows;
    int64_t count = 0;
    for (int64_t rank = 0; rank < g.mesh.devices(); ++rank) {
      if (g.mesh.position(rank, g.along) != 0) continue;
      rows += (count++ ? ", " : "") + HloBuilder::list(g.mesh.members(rank, g.along));
    }
    return "replica_groups = dense<[" + rows + "]> : tensor<" + std::to_string(count) + "x" + std::to_string(g.size()) + "xi64>";
  }
  // A channel makes the numbers of a group those of partitions.
  std::string channel(bool reads_global) const {
    return ", channel_handle = #stablehlo.channel_handle<handle = " + std::to_string(n_.raw + 1) + ", type = 1>" +
           (reads_global ? ", use_global_device_ids" : "");
  }
  std::string combine(DType t) {
    const ReduceOp op = attrs<CollectiveAttrs>().op;
    const std::string_view name = op == ReduceOp::Max ? "maximum" : op == ReduceOp::Min ? "minimum" : "add";
    return b_.region({{"", t, {}}, {"", t, {}}}, [&](const std::vector<Hlo>& x) { return std::vector{b_.op(name, x, t, {})}; });
  }
  Hlo mean(const Hlo& sum) {
    return attrs<CollectiveAttrs>().op == ReduceOp::Mean ? bin("divide", sum, static_cast<double>(group().size())) : sum;
  }
  // The axis of blocks as two.
  Hlo in_blocks(const Hlo& x, int64_t axis) {
    const int64_t blocks = attrs<CollectiveAttrs>().blocks;
    if (blocks == 1) return x;
    Ints dims = x.dims;
    dims[static_cast<size_t>(axis)] /= blocks;
    dims.insert(dims.begin() + axis, blocks);
    return b_.reshape(x, std::move(dims));
  }
  int64_t block_axis() const { return attrs<CollectiveAttrs>().axis + (attrs<CollectiveAttrs>().blocks > 1); }
  Ints resized(const Hlo& x, int64_t times, int64_t parts) const {
    Ints dims = x.dims;
    int64_t& n = dims[static_cast<size_t>(block_axis())];
    n = n * times / parts;
    return dims;
  }
  // The position of the device in its group.
  Hlo position() {
    const CollectiveGroup g = group();
    Ints positions;
    for (int64_t rank = 0; rank < g.mesh.devices(); ++rank) positions.push_back(g.mesh.position(rank, g.along));
    const Hlo device = b_.op("partition_id", {}, DType::U32, {});
    return b_.reshape(b_.op("dynamic_slice", {b_.dense_ints(positions), device}, DType::I64, {1}, "slice_sizes = array<i64: 1>"),
                      {});
  }
};

}  // namespace

std::span<const Translation> collective_translations() {
  static constexpr Translation kTable[] = {
      {OpKind::AllReduce, call<Collective, &Collective::all_reduce>},
      {OpKind::AllGather, call<Collective, &Collective::all_gather>},
      {OpKind::ReduceScatter, call<Collective, &Collective::reduce_scatter>},
      {OpKind::AllToAll, call<Collective, &Collective::all_to_all>},
      {OpKind::CollectivePermute, call<Collective, &Collective::collective_permute>},
      {OpKind::DeviceSlice, call<Collective, &Collective::device_slice>},
      {OpKind::DeviceIndex, call<Collective, &Collective::device_index>},
  };
  return kTable;
}

}  // namespace rlxc::stablehlo
