#include "report/layered_layout.h"

#include <algorithm>

namespace rlxc::report {
namespace {

constexpr double kBendWidth = 10;
constexpr int kSweeps = 6;
constexpr size_t kDriftRows = 8;

// A node, or a bend of an edge.
struct Item {
  double width = 0, x = 0;
  uint32_t layer = 0;
  std::vector<uint32_t> above, below;
};

class Arranger {
 public:
  Arranger(LayeredLayout& layout, double gap) : layout_(layout), gap_(gap) {}

  void run() {
    assign_layers();
    make_items();
    for (int sweep = 0; sweep < kSweeps; ++sweep) {
      if (sweep % 2 == 0) {
        for (size_t l = 1; l < rows_.size(); ++l) place(rows_[l], &Item::above, sweep + 2 < kSweeps);
      } else {
        for (size_t l = rows_.size(); l-- > 0;) place(rows_[l], &Item::below, sweep + 2 < kSweeps);
      }
    }
    straighten();
    write_back();
  }

 private:
  // Layers by the longest path from a source; then moves sources down to the layer above their first use.
  void assign_layers() {
    std::vector<std::pair<uint32_t, uint32_t>> order;  // (to, from)
    for (const LayoutEdge& e : layout_.edges) order.emplace_back(e.to, e.from);
    std::sort(order.begin(), order.end());
    std::vector<bool> has_source(layout_.nodes.size());
    for (const auto& [to, from] : order) {
      layout_.nodes[to].layer = std::max(layout_.nodes[to].layer, layout_.nodes[from].layer + 1);
      has_source[to] = true;
    }
    std::vector<uint32_t> first_use(layout_.nodes.size(), 0);
    for (const auto& [to, from] : order) {
      uint32_t& use = first_use[from];
      use = use == 0 ? layout_.nodes[to].layer : std::min(use, layout_.nodes[to].layer);
    }
    for (size_t i = 0; i < layout_.nodes.size(); ++i)
      if (!has_source[i] && first_use[i] > 0) layout_.nodes[i].layer = first_use[i] - 1;
    for (const LayoutNode& n : layout_.nodes) layout_.layers = std::max(layout_.layers, n.layer + 1);
  }

  void make_items() {
    rows_.resize(layout_.layers);
    const auto add = [&](double width, uint32_t layer) {
      const auto id = static_cast<uint32_t>(items_.size());
      items_.push_back({width, 0, layer, {}, {}});
      rows_[layer].push_back(id);
      return id;
    };
    const auto link = [&](uint32_t a, uint32_t b) {
      items_[a].below.push_back(b);
      items_[b].above.push_back(a);
    };
    for (const LayoutNode& n : layout_.nodes) add(n.width, n.layer);
    for (LayoutEdge& e : layout_.edges) {
      const uint32_t top = layout_.nodes[e.from].layer, bottom = layout_.nodes[e.to].layer;
      first_bend_.push_back(static_cast<uint32_t>(items_.size()));
      e.is_stub = bottom - top > kLongestRoute;
      if (e.is_stub) continue;
      uint32_t last = e.from;
      for (uint32_t l = top + 1; l < bottom; ++l) {
        const uint32_t bend = add(kBendWidth, l);
        link(last, bend);
        last = bend;
      }
      link(last, e.to);
    }
    for (std::vector<uint32_t>& row : rows_) spread(row);
  }

  // Orders a row by the items' preferred positions and places each as close to it as its predecessors allow.
  void place(std::vector<uint32_t>& row, std::vector<uint32_t> Item::*side, bool reorder) {
    for (uint32_t i : row) {
      const std::vector<uint32_t>& near = items_[i].*side;
      if (near.empty()) continue;
      double sum = 0;
      for (uint32_t j : near) sum += items_[j].x;
      items_[i].x = sum / static_cast<double>(near.size());
    }
    if (reorder) std::stable_sort(row.begin(), row.end(), [&](uint32_t a, uint32_t b) { return items_[a].x < items_[b].x; });
    spread(row);
  }

  // Least squares in the given order without overlap: overlapping neighbours are merged into blocks at their mean preferred
  // position (pool adjacent violators).
  void spread(const std::vector<uint32_t>& row) {
    struct Block {
      double wish, count, width;
      size_t end;
      double left() const { return wish - width / 2; }
    };
    std::vector<Block> blocks;
    for (size_t i = 0; i < row.size(); ++i) {
      blocks.push_back({items_[row[i]].x, 1, items_[row[i]].width + gap_, i + 1});
      while (blocks.size() > 1) {
        const Block b = blocks.back();
        Block& a = blocks[blocks.size() - 2];
        if (a.left() + a.width <= b.left()) break;
        // Preferred centre of each block, relative to the merged block.
        const double shift_a = -b.width / 2, shift_b = a.width / 2;
        a.wish = (a.count * (a.wish - shift_a) + b.count * (b.wish - shift_b)) / (a.count + b.count);
        a.count += b.count;
        a.width += b.width;
        a.end = b.end;
        blocks.pop_back();
      }
    }
    size_t i = 0;
    for (const Block& b : blocks) {
      double x = b.left();
      for (; i < b.end; ++i) {
        Item& item = items_[row[i]];
        item.x = x + (item.width + gap_) / 2;
        x += item.width + gap_;
      }
    }
  }

  // Rows of a deep graph drift sideways. Shifts whole rows by the mean of the neighbouring centres, which removes the drift and
  // preserves local shapes.
  void straighten() {
    std::vector<double> sum(rows_.size() + 1);
    for (size_t l = 0; l < rows_.size(); ++l) {
      double low = 0, high = 0;
      for (size_t k = 0; k < rows_[l].size(); ++k) {
        const Item& i = items_[rows_[l][k]];
        low = k == 0 ? i.x - i.width / 2 : std::min(low, i.x - i.width / 2);
        high = k == 0 ? i.x + i.width / 2 : std::max(high, i.x + i.width / 2);
      }
      sum[l + 1] = sum[l] + (low + high) / 2;
    }
    for (size_t l = 0; l < rows_.size(); ++l) {
      const size_t reach = std::min({kDriftRows, l, rows_.size() - 1 - l});
      const double centre = (sum[l + reach + 1] - sum[l - reach]) / static_cast<double>(2 * reach + 1);
      for (uint32_t i : rows_[l]) items_[i].x -= centre;
    }
  }

  void write_back() {
    double low = 0, high = 0;
    for (const Item& i : items_) {
      low = std::min(low, i.x - i.width / 2);
      high = std::max(high, i.x + i.width / 2);
    }
    layout_.width = high - low;
    for (size_t i = 0; i < layout_.nodes.size(); ++i) layout_.nodes[i].x = items_[i].x - low;
    for (size_t e = 0; e < layout_.edges.size(); ++e) {
      LayoutEdge& edge = layout_.edges[e];
      const uint32_t span = layout_.nodes[edge.to].layer - layout_.nodes[edge.from].layer;
      if (edge.is_stub) continue;
      for (uint32_t l = 0; l + 1 < span; ++l) edge.bends.push_back(items_[first_bend_[e] + l].x - low);
    }
  }

  LayeredLayout& layout_;
  double gap_;
  std::vector<Item> items_;
  std::vector<std::vector<uint32_t>> rows_;
  std::vector<uint32_t> first_bend_;
};

}  // namespace

void arrange(LayeredLayout& layout, double gap) { Arranger(layout, gap).run(); }

}  // namespace rlxc::report
