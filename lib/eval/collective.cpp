// Collectives, evaluated for all devices of a mesh at once.
#include "eval/collective.h"

#include <algorithm>

#include "ir/mesh.h"

namespace rlxc::eval {
namespace {

using Devices = std::span<const TensorData* const>;

class Exchange {
 public:
  Exchange(Run& run, const CollectiveAttrs& attrs, const CollectiveGroup& group) : run_(run), a_(attrs), group_(group) {}

  bool compute(OpKind op, Devices in, int64_t rank, TensorData* out) {
    const std::vector<int64_t> members = group_.mesh.members(rank, group_.along);
    const int64_t at = group_.mesh.position(rank, group_.along);
    std::vector<const TensorData*> parts;
    if (!in.empty())
      for (int64_t m : members) parts.push_back(in.size() == 1 ? in[0] : in[static_cast<size_t>(m)]);
    switch (op) {
      case OpKind::AllReduce: return reduce(parts, out);
      case OpKind::AllGather: return join(parts, a_.axis, out);
      case OpKind::DeviceSlice: return slice(*parts[static_cast<size_t>(at)], a_.axis, at, out);
      case OpKind::CollectivePermute: return receive(parts, a_.source[static_cast<size_t>(at)], out);
      case OpKind::ReduceScatter: {
        TensorData whole;
        return reduce(parts, &whole) && slice(whole, a_.axis, at, out);
      }
      case OpKind::AllToAll: {
        std::vector<TensorData> received(parts.size());
        std::vector<const TensorData*> pointers;
        for (size_t i = 0; i < parts.size(); ++i) {
          if (!slice(*parts[i], a_.axis, at, &received[i])) return false;
          pointers.push_back(&received[i]);
        }
        return join(pointers, a_.to, out);
      }
      case OpKind::DeviceIndex:
        if (!make(DType::I64, {}, out)) return false;
        *reinterpret_cast<int64_t*>(writable(*out)) = at;
        return true;
      default: return run_.fail(Code::UnsupportedOp, "cannot be evaluated");
    }
  }

 private:
  bool receive(const std::vector<const TensorData*>& parts, int64_t source, TensorData* out) {
    if (source >= 0) *out = *parts[static_cast<size_t>(source)];
    else if (!make(parts[0]->dtype, parts[0]->dims, out)) return false;
    else std::fill_n(writable(*out), out->bytes.size(), std::byte{0});
    return true;
  }

  bool make(DType t, std::vector<int64_t> dims, TensorData* out) {
    auto d = MemoryMeter::allocate(run_.memory, t, std::move(dims));
    if (!d) return run_.fail(Code::TooLarge, "the result exceeds the memory limit", "--max-memory BYTES allows more");
    *out = std::move(*d);
    return true;
  }

  Split blocks_of(const TensorData& t, int64_t axis) const {
    Split s = split_at(t.dims, axis);
    s.outer *= a_.blocks;
    s.n /= a_.blocks;
    return s;
  }

  // Part `at` of each block of the axis, which padding follows.
  bool slice(const TensorData& from, int64_t axis, int64_t at, TensorData* out) {
    const int64_t devices = group_.size();
    std::vector<int64_t> dims = from.dims;
    int64_t& rows = dims[static_cast<size_t>(axis)];
    rows = (rows + a_.padding) / devices;
    if (!make(from.dtype, dims, out)) return false;
    const Split s = blocks_of(from, axis);
    const int64_t run = rows / a_.blocks * s.inner;
    const int64_t own = std::clamp<int64_t>(s.n * s.inner - at * run, 0, run);
    return with_cells(from.dtype, [&](auto t) {
      using T = decltype(t);
      const Cells<T> in(from);
      CellWriter<T> writer(std::move(*out));
      for (int64_t o = 0; o < s.outer; ++o) {
        std::fill_n(std::copy_n(in.data() + (o * s.n * s.inner + (own > 0 ? at * run : 0)), own, writer.data() + o * run),
                    run - own, T());
      }
      *out = writer.finish();
      return true;
    });
  }

  bool join(const std::vector<const TensorData*>& parts, int64_t axis, TensorData* out) {
    const auto devices = static_cast<int64_t>(parts.size());
    std::vector<int64_t> dims = parts[0]->dims;
    dims[static_cast<size_t>(axis)] *= devices;
    if (!make(parts[0]->dtype, dims, out)) return false;
    return with_cells(parts[0]->dtype, [&](auto t) {
      using T = decltype(t);
      CellWriter<T> writer(std::move(*out));
      for (int64_t p = 0; p < devices; ++p) {
        const TensorData& part = *parts[static_cast<size_t>(p)];
        const Split s = blocks_of(part, axis);
        const int64_t run = s.n * s.inner;
        const Cells<T> in(part);
        for (int64_t o = 0; o < s.outer; ++o) std::copy_n(in.data() + o * run, run, writer.data() + (o * devices + p) * run);
      }
      *out = writer.finish();
      return true;
    });
  }

  template <class V>
  void combine(const std::vector<const TensorData*>& parts, TensorData* out) {
    std::vector<V> total = load_all<V>(*parts[0]);
    for (size_t p = 1; p < parts.size(); ++p) {
      const std::vector<V> more = load_all<V>(*parts[p]);
      for (size_t i = 0; i < total.size(); ++i) {
        if (a_.op == ReduceOp::Max) total[i] = ops::max(total[i], more[i]);
        else if (a_.op == ReduceOp::Min) total[i] = ops::min(total[i], more[i]);
        else total[i] = total[i] + more[i];
      }
    }
    if (a_.op == ReduceOp::Mean)
      for (V& v : total) v = v / V(static_cast<int64_t>(parts.size()));
    store(*out, 0, out->elements(), total.data());
  }

  bool reduce(const std::vector<const TensorData*>& parts, TensorData* out) {
    if (!make(parts[0]->dtype, parts[0]->dims, out)) return false;
    const bool known = with_numbers(parts[0]->dtype, [&](auto v) {
      using V = decltype(v);
      if constexpr (std::is_same_v<V, Complex>) return false;
      else combine<V>(parts, out);
      return true;
    });
    return known || run_.fail(Code::UnsupportedAttribute, "cannot combine elements of type " + std::string(name(out->dtype)));
  }

  Run& run_;
  const CollectiveAttrs& a_;
  const CollectiveGroup& group_;
};

}  // namespace

bool eval_collective(Run& run, const Graph& g, NodeId n, std::span<const HostValue> operand, std::vector<HostValue>* results) {
  const auto& a = g.attrs<CollectiveAttrs>(n);
  std::string message;
  const auto group = group_of(a, &message);
  if (!group) return run.fail(Code::BadShape, message);
  const int64_t devices = group->mesh.devices();
  std::vector<const TensorData*> in;
  for (const HostValue& v : operand) {
    if (v.kind != TypeKind::Tensor) return run.fail(Code::BadType, "operand 0 must be a tensor");
    in.push_back(&v.tensor);
  }
  // Every device gets the same if all have the same to give, or all give to all.
  const OpKind op = g.op(n);
  const bool gathers = op == OpKind::AllReduce || op == OpKind::AllGather;
  const bool same = gathers && (in.size() == 1 || group->size() == devices);
  Exchange exchange(run, a, *group);
  results->clear();
  for (int64_t rank = 0; rank < (same ? 1 : devices); ++rank)
    if (!exchange.compute(op, in, rank, &results->emplace_back().tensor)) return false;
  return true;
}

}  // namespace rlxc::eval
