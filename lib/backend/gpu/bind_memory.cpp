#include "backend/gpu/bind_memory.h"

#include <algorithm>
#include <map>
#include <set>

#include "analysis/data_dependent_dims.h"
#include "support/checked.h"

namespace rlxc {
namespace {

using codegen::BufferSlice;
using codegen::Command;
using codegen::Package;

constexpr uint64_t kUnit = 64;       // alignment of the parts of memory
constexpr size_t kSureBindings = 8;  // maxStorageBuffersPerShaderStage of every device (WebGPU, 3.6.2)
constexpr size_t kMostBindings = 255;
constexpr uint64_t kMostBuffers = 4096;  // of memory, each as large as a binding

constexpr int64_t kWord = 4, kVector = 16;  // bytes

uint64_t bytes(Dim d) { return d.is_static() ? static_cast<uint64_t>(d.size()) : 0; }
int64_t alignment_of(const DimTable& dims, Dim offset) {
  return dims.is_multiple(offset, kVector) ? kVector : dims.is_multiple(offset, kWord) ? kWord : 1;
}
uint64_t in_units(uint64_t n) { return align_up(n, kUnit).value_or(n); }

bool is_weight(const BufferSlice& p) { return p.memory == BufferSlice::Memory::Weights; }

// Copies weights to packed memory when the package is loaded.
class WeightCopies {
 public:
  explicit WeightCopies(Package* p) : p_(*p) {}

  // Those that control flow passes to bodies, because bodies cannot bind weights.
  void of_control() {
    for (codegen::GraphProgram& g : p_.graphs)
      for (Command& s : g.run)
        for (size_t i = 0; s.is_control() && i < s.present.size(); ++i)
          if (s.present[i] && is_weight(s.places[i])) copy(s.places[i]);
  }

  // Small ones of launches that would bind more buffers than every device has, such as scales; then the smallest of the others.
  void of_launches() {
    for (codegen::GraphProgram& g : p_.graphs)
      for (std::vector<Command>* steps : {&g.load, &g.run})
        for (Command& s : *steps)
          if (s.kind == Command::Kind::Launch) of_launch(s);
  }

  // Copies come before all that reads them.
  void finish() {
    std::vector<Command>& load = p_.graphs[0].load;
    load.insert(load.begin(), std::make_move_iterator(copies_.begin()), std::make_move_iterator(copies_.end()));
  }

 private:
  static constexpr uint64_t kSmall = 64 << 10;

  uint64_t bytes_of(const BufferSlice& p) const { return p_.weights[p.index].bytes; }

  void of_launch(Command& s) {
    std::vector<BufferSlice*> weights;
    for (BufferSlice& place : s.places)
      if (is_weight(place)) weights.push_back(&place);
    size_t left = weights.size();
    if (left + (left < s.places.size()) <= kSureBindings) return;
    std::ranges::stable_sort(weights, {}, [&](const BufferSlice* w) { return bytes_of(*w); });
    for (BufferSlice* w : weights) {
      if (bytes_of(*w) > kSmall && left + 1 <= kSureBindings) return;
      copy(*w);
      --left;
    }
  }

  void copy(BufferSlice& place) {
    DimTable& dims = p_.lir->module->dims;
    const Dim size(static_cast<int64_t>(bytes_of(place)));
    const auto [at, is_new] = places_.try_emplace(place.index, p_.packed_bytes);
    if (is_new) {
      Command c;
      c.kind = Command::Kind::Copy;
      c.graph = GraphId(0);
      c.sizes = {size};
      c.places = {{BufferSlice::Memory::Packed, 0, at->second, at->second, size},
                  {place.memory, place.index, Dim(0), Dim(0), size}};
      copies_.push_back(std::move(c));
      p_.packed_bytes = dims.add(p_.packed_bytes, Dim(static_cast<int64_t>(in_units(bytes_of(place)))));
    }
    place = {BufferSlice::Memory::Packed, 0, dims.add(at->second, place.offset), at->second, size};
  }

  Package& p_;
  std::map<uint32_t, Dim> places_;  // in packed memory, by weight
  std::vector<Command> copies_;
};

// The address range as the host lays it out, with the maximum of each symbolic size.
class Memory {
 public:
  explicit Memory(const Package& p) : p_(p), inputs_(p.inputs.size()), arena_(p.graphs.size()) {
    is_known_ = std::ranges::all_of(p.symbols, [&](const ForeignText& s) { return p.lir->ranges.contains(s.bytes()); });
    part(p.packed_bytes);
    for (const codegen::Port& port : p.outputs) outputs_.push_back(part(port_bytes(port)));
    for (uint32_t i = 0; i < p.inputs.size(); ++i) {
      const auto state = std::ranges::find(p.lir->states, i, &State::input);
      inputs_[i] = state != p.lir->states.end() ? outputs_[state->output] : part(port_bytes(p.inputs[i]));
    }
    arena_[0] = part(p.arena_bytes);
    part(p.held_bytes);
    scratch_ = part(p.scratch_bytes);
    cells_ = part(Dim(static_cast<int64_t>(codegen::cell_bytes(p))));
    place_bodies();
  }

  bool is_known() const { return is_known_; }
  uint64_t total() const { return total_; }

  // A power of two, at most kVector, that divides the address of the arena of a graph.
  int64_t alignment(GraphId graph) const {
    const auto less = less_aligned_.find(graph.raw);
    return less == less_aligned_.end() ? kVector : less->second;
  }

  // Splits the range between parts. A part larger than the limit starts a buffer and is split at multiples of the limit.
  std::vector<uint64_t> cuts(uint64_t limit) const {
    std::vector<uint64_t> cuts;
    uint64_t begin = 0;
    for (const auto& [from, end] : parts_)
      for (uint64_t at = from; at < end; at += limit)
        if (std::min(end, at + limit) - begin > limit && at > begin) cuts.push_back(begin = at);
    return cuts;
  }

  // Returns the byte range from a kernel argument to the end of its buffer; the whole buffer if its offset is symbolic.
  std::pair<uint64_t, uint64_t> range(const BufferSlice& p, GraphId graph) const {
    const uint64_t base = p.memory == BufferSlice::Memory::Input    ? inputs_[p.index]
                          : p.memory == BufferSlice::Memory::Output ? outputs_[p.index]
                          : p.memory == BufferSlice::Memory::Arena  ? arena_[graph.raw]
                          : p.memory == BufferSlice::Memory::Packed ? 0
                          : p.memory == BufferSlice::Memory::Extent ? cells_
                                                                    : scratch_;
    return {base + bytes(p.offset.is_static() ? p.offset : p.slot), base + bytes(p.slot) + bytes(most(p.slot_bytes))};
  }

 private:
  Dim most(Dim d) const { return largest(p_.lir->module->dims, d, p_.lir->ranges); }
  Dim port_bytes(const codegen::Port& port) const { return p_.lir->plans[port.graph.raw].slot[port.value.raw].size; }

  uint64_t part(Dim size) {
    is_known_ &= most(size).is_static();
    const uint64_t at = total_;
    parts_.emplace_back(at, total_ += in_units(bytes(most(size))));
    return at;
  }

  // A body belongs to one node. Its arena is part of the arena of the node's graph.
  void place_bodies() {
    for (std::vector<GraphId> graphs{GraphId(0)}; !graphs.empty();) {
      const GraphId g = graphs.back();
      graphs.pop_back();
      for (const Command& s : p_.graphs[g.raw].run) {
        if (!s.is_control()) continue;
        for (GraphId body : p_.lir->module->graph(g).bodies(s.node)) {
          arena_[body.raw] = arena_[g.raw] + bytes(s.body_arena);
          const int64_t aligned = std::min(alignment(g), alignment_of(p_.lir->module->dims, s.body_arena));
          if (aligned < kVector) less_aligned_[body.raw] = aligned;
          graphs.push_back(body);
        }
      }
    }
  }

  const Package& p_;
  bool is_known_;  // whether all sizes have a constant maximum
  uint64_t total_ = 0, scratch_ = 0, cells_ = 0;
  std::vector<uint64_t> inputs_, outputs_, arena_;  // arenas by graph
  std::vector<std::pair<uint64_t, uint64_t>> parts_;
  std::map<uint32_t, int64_t> less_aligned_;  // by graph
};

// The bindings of an argument: its memory, and its first buffer and their number.
struct Pieces {
  bool separate = false;
  uint64_t first = 0, count = 1;
};

class KernelSplitter {
 public:
  KernelSplitter(Package* p, uint64_t limit, const Memory& memory, Diagnostics& d)
      : p_(*p), limit_(limit), memory_(memory), diagnostics_(d) {}

  void run() {
    for (codegen::GraphProgram& g : p_.graphs)
      for (std::vector<Command>* steps : {&g.load, &g.run})
        for (Command& s : *steps)
          if (s.kind == Command::Kind::Launch) s.kernel = variant(s);
    p_.kernels = std::move(kernels_);
  }

  std::vector<std::vector<uint8_t>> alignments;  // of the kernels, by argument

 private:
  Pieces pieces(const BufferSlice& p, GraphId graph) const {
    if (p.memory == BufferSlice::Memory::Weights) {
      const uint64_t begin = bytes(p.offset), end = std::max(p_.weights[p.index].bytes, begin + 1);
      return {true, 0, limit_ ? (end - 1) / limit_ - begin / limit_ + 1 : 1};
    }
    const Pieces all{false, 0, p_.cuts.size() + 1};
    // A body may receive any buffer.
    if (graph.raw != 0 && (p.memory == BufferSlice::Memory::Input || p.memory == BufferSlice::Memory::Output)) return all;
    const auto piece = [&](uint64_t at) {
      return static_cast<uint64_t>(std::ranges::upper_bound(p_.cuts, at) - p_.cuts.begin());
    };
    const auto [begin, end] = memory_.range(p, graph);
    const uint64_t first = piece(begin);
    const uint64_t count = piece(std::max(end, begin + 1) - 1) - first + 1;
    return count > 1 && !p.offset.is_static() ? all : Pieces{false, first, count};
  }

  // A power of two, at most kVector, that divides the argument's address. Inputs and outputs of bodies may begin anywhere.
  uint8_t alignment(const BufferSlice& p, GraphId graph) const {
    const bool is_moved = p.memory == BufferSlice::Memory::Input || p.memory == BufferSlice::Memory::Output;
    if (graph.raw != 0 && is_moved) return 1;
    const int64_t of_buffers = limit_ % kVector == 0 ? kVector : kWord;
    return static_cast<uint8_t>(std::min({alignment_of(p_.lir->module->dims, p.offset), memory_.alignment(graph), of_buffers}));
  }

  // Bindings of memory buffers are numbered in order, which makes those of an argument consecutive. Weights follow.
  uint32_t variant(const Command& s) {
    std::vector<Pieces> arguments;
    std::set<uint64_t> memories;
    size_t count = 0;
    for (const BufferSlice& place : s.places) {
      const Pieces a = arguments.emplace_back(pieces(place, s.graph));
      if (a.separate) count += a.count;
      for (uint64_t m = a.first; !a.separate && m < a.first + a.count; ++m) memories.insert(m);
    }
    count += memories.size();
    if (count > kMostBindings) too_many(s, count);
    std::vector<uint8_t> key;
    size_t next = memories.size();
    std::vector<uint8_t> aligned;
    for (size_t i = 0; i < arguments.size(); ++i) {
      const Pieces& a = arguments[i];
      aligned.push_back(alignment(s.places[i], s.graph));
      const size_t binding = a.separate ? next : static_cast<size_t>(std::distance(memories.begin(), memories.find(a.first)));
      if (a.separate) next += a.count;
      key.insert(key.end(), {a.separate, static_cast<uint8_t>(binding), static_cast<uint8_t>(a.count), aligned.back()});
    }
    const auto [it, is_new] = variants_.try_emplace({s.kernel, key}, static_cast<uint32_t>(kernels_.size()));
    if (!is_new) return it->second;
    kernel::Kernel k = p_.kernels[s.kernel];
    for (size_t b = 0; b < arguments.size(); ++b) {
      k.buffers[b].separate = key[4 * b];
      k.buffers[b].binding = key[4 * b + 1];
      k.buffers[b].bindings = key[4 * b + 2];
    }
    if (const uint32_t n = counts_[s.kernel]++) k.name += "_" + std::to_string(n);
    if (count > kSureBindings && count <= kMostBindings) too_many(s, count);
    kernels_.push_back(std::move(k));
    alignments.push_back(std::move(aligned));
    return it->second;
  }

  void too_many(const Command& s, size_t count) {
    const std::string node = "node " + p_.lir->module->graph(s.graph).label(s.node).quoted(),
                      needs = "it binds " + std::to_string(count) + " buffers at a time, of which ";
    if (count > kMostBindings)
      diagnostics_.error(Code::UnsupportedOnTarget, needs + "there can be " + std::to_string(kMostBindings), node,
                         "--max-binding BYTES, for devices that bind more");
    else
      diagnostics_.warning(Code::UnsupportedOnTarget,
                           needs + "only " + std::to_string(kSureBindings) + " are sure to work on every device", node);
  }

  Package& p_;
  const uint64_t limit_;
  const Memory& memory_;
  Diagnostics& diagnostics_;
  std::map<std::pair<uint32_t, std::vector<uint8_t>>, uint32_t> variants_;
  std::map<uint32_t, uint32_t> counts_;  // number of variants, by kernel
  std::vector<kernel::Kernel> kernels_;
};

}  // namespace

std::vector<std::vector<uint8_t>> bind_memory(Package* p, uint64_t limit, Diagnostics& d) {
  WeightCopies copies(p);
  copies.of_control();
  copies.of_launches();
  copies.finish();
  // Load-time commands reuse the scratch memory of runs.
  DimTable& dims = p->lir->module->dims;
  p->scratch_bytes = largest(dims, p->scratch_bytes, p->lir->ranges);
  if (p->scratch_bytes.is_static() && bytes(p->load_scratch_bytes) > bytes(p->scratch_bytes))
    p->scratch_bytes = p->load_scratch_bytes;
  const Memory memory(*p);
  if (limit > 0 && memory.is_known() && memory.total() / limit >= kMostBuffers) {
    d.error(Code::TooLarge, "kernels write " + std::to_string(memory.total()) + " bytes, more than " +
                                std::to_string(kMostBuffers) + " buffers of " + std::to_string(limit) + " bytes");
    return {};
  }
  if (limit > 0 && memory.is_known()) {
    p->cuts = memory.cuts(limit);
  } else if (limit > 0 && memory.total() > limit) {
    d.warning(Code::UnsupportedOnTarget,
              "all memory that kernels write takes more than " + std::to_string(memory.total()) +
                  " bytes in one binding, of which only " + std::to_string(limit) + " are sure to work on every device",
              "size " + p->symbols[0].quoted(),
              "give the sizes' ranges, as --range " + p->symbols[0].shell_word() + "=1..1024: then it is bound in pieces");
  }
  KernelSplitter splitter(p, limit, memory, d);
  splitter.run();
  return std::move(splitter.alignments);
}

}  // namespace rlxc
