#include "report/arena_svg.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "report/module_terms.h"
#include "report/plan_json.h"
#include "report/slots.h"
#include "report/svg.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr double kPlotLeft = 84, kPlotTop = 96, kPlotWidth = 1200, kPlotHeight = 620, kRight = 24, kBottom = 56;
constexpr size_t kMostAlone = 6000;
constexpr double kCell = 8;       // pixels per side of a grid cell; small slots are aggregated per cell
constexpr double kAdvance = 6.8;  // width of a wide character in labels
constexpr double kBordered = 3;   // narrower rectangles have no border, which would hide their colour
constexpr double kCurveStep = 3;  // pixels

struct Block {
  ValueId root;  // invalid: the arena of the bodies of `node`
  NodeId node;
  uint64_t offset = 0, size = 0;
  uint32_t first = 0, last = 0;  // columns, inclusive
  uint32_t first_step = 0, last_step = 0;
  double area() const { return static_cast<double>(size) * (last - first + 1); }
};

struct Label {
  double x, y;
  std::string text;
};

class ArenaPicture {
 public:
  explicit ArenaPicture(const LirModule& lir) : lir_(lir), plan_(lir.plans[0]), graph_(lir.module->main()) {
    const std::vector<DimBindings> corners = corner_sizes(lir);
    if (!corners.empty()) bindings_ = corners.back();
  }

  std::string draw() {
    make_columns();
    collect();
    make_curve();
    height_ = std::max<uint64_t>({bytes(plan_.arena_size).value_or(0), top_, 1});
    bound_ = plan_.symbolic ? live_peak_ : plan_.lower_bound;
    const std::string name = "Activation arena of " + lir_.module->name.line();
    Svg svg(
        kPlotLeft + kPlotWidth + kRight, kPlotTop + kPlotHeight + kBottom, name,
        "Each rectangle is a tensor: from left to right the steps at which it is needed, from bottom to top the bytes it takes.",
        style());
    heading(svg, name);
    axes(svg);
    blocks(svg);
    curve(svg);
    labels(svg);
    marks(svg);
    return svg.finish();
  }

 private:
  static std::string style() {
    return std::string(op_class_style()) +
           "rect{stroke-width:.6}\n.thin{stroke:none}\n.tiny{fill:#9aa5ad;stroke:#6b757c}\n.body{fill:#fff7d6;stroke:#555;stroke-"
           "dasharray:3 2}\n"
           ".grid{stroke:#e4e4e4}\n.live{fill:none;stroke:#111;stroke-width:1.2}\n.bound{stroke:#b03a00;stroke-width:1.4;stroke-"
           "dasharray:7 4}\n"
           ".top{stroke:#111;stroke-width:1.4}\n.peak{stroke:#b03a00;stroke-width:1.2;stroke-dasharray:2 "
           "3}\n.mark{font-size:11px;fill:#8a2d00;stroke:#fff;stroke-width:3;paint-order:stroke}\n"
           ".name{font-size:11px;fill:#1a1a1a;stroke:#fff;stroke-opacity:.6;stroke-width:2.5;paint-order:stroke}\n"
           ".step{font-size:9.5px;fill:#333;text-anchor:middle}\n";
  }

  std::optional<uint64_t> bytes(Dim d) const {
    const auto n = lir_.module->dims.evaluate(d, bindings_);
    return n && *n >= 0 ? std::optional(static_cast<uint64_t>(*n)) : std::nullopt;
  }

  // Steps of weights and constants get no column.
  void make_columns() {
    column_.resize(plan_.schedule.size() + 1);
    for (size_t s = 0; s < plan_.schedule.size(); ++s) {
      column_[s] = static_cast<uint32_t>(step_of_.size());
      if (!has_trait(graph_.op(plan_.schedule[s]), kLeaf)) step_of_.push_back(static_cast<uint32_t>(s));
    }
    column_.back() = static_cast<uint32_t>(step_of_.size());
    step_of_.push_back(static_cast<uint32_t>(plan_.schedule.size()));  // column of the outputs
  }

  uint32_t column(uint32_t step) const { return column_[std::min<size_t>(step, column_.size() - 1)]; }

  void collect() {
    for (const RootSlot& s : root_slots(graph_, plan_)) {
      if (s.region != Region::Activations) continue;
      const auto offset = bytes(s.offset), size = bytes(s.size);
      if (offset && size)
        add({s.root, graph_.def(s.root), *offset, *size, column(s.first_step), column(s.last_step), s.first_step, s.last_step});
      else ++unknown_;
    }
    for (size_t i = 0; i < plan_.schedule.size(); ++i) {
      const NodeId n = plan_.schedule[i];
      uint64_t size = 0;
      for (GraphId b : graph_.bodies(n)) size = std::max(size, bytes(lir_.plans[b.raw].arena_size).value_or(0));
      if (size == 0 || n.raw >= plan_.body_offset.size()) continue;
      const auto step = static_cast<uint32_t>(i);
      add({ValueId(), n, bytes(plan_.body_offset[n.raw]).value_or(0), size, column(step), column(step), step, step});
    }
  }

  void add(Block b) {
    if (b.size == 0) return;
    top_ = std::max(top_, b.offset + b.size);
    blocks_.push_back(b);
  }

  void make_curve() {
    std::vector<uint64_t> change(step_of_.size() + 1);  // differences wrap around, sums do not
    for (const Block& b : blocks_) {
      change[b.first] += b.size;
      change[b.last + 1] -= b.size;
    }
    uint64_t live = 0;
    for (size_t i = 0; i < step_of_.size(); ++i) {
      live += change[i];
      if (live > live_peak_) {
        live_peak_ = live;
        peak_column_ = static_cast<uint32_t>(i);
      }
      live_.push_back(live);
    }
    if (!plan_.symbolic) peak_column_ = column(plan_.peak_step);
  }

  double x(double column) const { return kPlotLeft + kPlotWidth * column / static_cast<double>(step_of_.size()); }
  double y(uint64_t offset) const {
    return kPlotTop + kPlotHeight * (1 - static_cast<double>(offset) / static_cast<double>(height_));
  }

  void heading(Svg& svg, const std::string& name) const {
    svg.text("head", kPlotLeft, 26, fitting(name, kPlotWidth - 120, kAdvance * 1.6) + ": " + human_bytes(height_));
    std::string line =
        grouped(blocks_.size()) + " slots in " + grouped(step_of_.size() - 1) + " steps; lower bound " + human_bytes(bound_);
    if (plan_.symbolic) {
      line += "; sizes depend on symbols, drawn for ";
      std::string values;
      for (const auto& [symbol, size] : bindings_)
        values += (values.empty() ? "" : ", ") + ForeignText(symbol).line() + "=" + std::to_string(size);
      line += values;
      if (unknown_) line += "; " + grouped(unknown_) + " slots have no size then";
    } else {
      const uint64_t gap = height_ - std::min(height_, bound_);
      line += gap == 0 ? " (reached)" : ", " + human_bytes(gap) + " below";
      line += "; " + human_bytes(plan_.without_reuse) + " without reuse, saved " + human_bytes(plan_.saved_by_views) +
              " by views, " + human_bytes(plan_.saved_in_place) + " in place, " + human_bytes(plan_.saved_by_concat_alias) +
              " by concat aliases, " + human_bytes(plan_.saved_by_reuse) + " by reuse";
      if (plan_.reordered)
        line += ", " + human_bytes(static_cast<uint64_t>(plan_.given_arena.size() - plan_.arena_size.size())) + " by order";
    }
    svg.text("label", kPlotLeft, 46, line);
    op_class_legend(svg, kPlotLeft, 68);
    svg.line("live", kPlotLeft + kPlotWidth - 90, 64, kPlotLeft + kPlotWidth - 66, 64);
    svg.text("label", kPlotLeft + kPlotWidth - 60, 68, "live bytes");
  }

  // A tick distance of 1, 2 or 5 times a power of ten (a power of two for bytes) with at most ten ticks.
  static uint64_t tick(uint64_t range, bool bytes) {
    for (uint64_t unit = 1;; unit *= bytes ? 2 : 10)
      for (uint64_t factor : {1, 2, 5})
        if ((!bytes || factor == 1) && range / (unit * factor) <= 10) return unit * factor;
  }

  // "1.25 MiB": a multiple of a power of two without rounding, as far as two decimals go.
  static std::string exact_bytes(uint64_t n) {
    constexpr std::string_view kUnits[] = {" B", " KiB", " MiB", " GiB", " TiB", " PiB", " EiB"};
    size_t unit = 0;
    double v = static_cast<double>(n);
    for (; v >= 1024; v /= 1024) ++unit;
    return shortest(std::round(100 * v) / 100) + std::string(kUnits[unit]);
  }

  void axes(Svg& svg) const {
    const uint64_t step = tick(height_, true);
    for (uint64_t b = 0; b <= height_; b += step) {
      svg.line("grid", kPlotLeft, y(b), kPlotLeft + kPlotWidth, y(b));
      svg.raw("<text class=\"small\" text-anchor=\"end\" x=\"").number(kPlotLeft - 6).raw("\" y=\"").number(y(b) + 3).raw("\">");
      svg.escape(exact_bytes(b)).raw("</text>\n");
    }
    const uint32_t last = step_of_.back();
    const uint64_t distance = std::max<uint64_t>(1, tick(last - step_of_.front(), false));
    double taken = 0;
    for (uint64_t s = (step_of_.front() + distance - 1) / distance * distance; s <= last; s += distance) {
      const double at = x(column(static_cast<uint32_t>(s)) + 0.5);
      if (at < taken) continue;  // steps of weights share a place
      svg.text("step", at, kPlotTop + kPlotHeight + 16, std::to_string(s));
      taken = at + 30;
    }
    std::string label = "step of the schedule";
    if (step_of_.front() > 0) label += "; steps 0 to " + std::to_string(step_of_.front() - 1) + " are weights and constants";
    svg.text("label", kPlotLeft + kPlotWidth / 2 - 80, kPlotTop + kPlotHeight + 48, label);
  }

  std::string tooltip(const Block& b) const {
    const Module& m = *lir_.module;
    std::string s = b.root.valid() ? value_label(graph_, b.root).line() : "bodies of " + graph_.label(b.node).line();
    s += "\n" + std::string(kind_name(graph_.op(b.node)));
    if (b.root.valid()) s += " " + text(graph_.type(b.root), m.dims);
    s += "\n" + human_bytes(b.size) + (b.size >= 1024 ? " (" + grouped(b.size) + " bytes)" : "") + " at offset " +
         grouped(b.offset);
    return s + "\nsteps " + std::to_string(b.first_step) + " to " + std::to_string(b.last_step);
  }

  void blocks(Svg& svg) {
    of_root_.resize(graph_.value_capacity());
    for (size_t i = 0; i < plan_.slot.size(); ++i)
      if (const Slot& s = plan_.slot[i]; s.region == Region::Activations && s.root.valid() && !s.view && !s.part)
        of_root_[s.root.raw].push_back(ValueId(i));
    const auto larger = [](const Block& a, const Block& b) {
      return a.area() != b.area() ? a.area() > b.area() : a.root != b.root ? a.root.raw < b.root.raw : a.node.raw < b.node.raw;
    };
    const size_t alone = std::min(kMostAlone, blocks_.size());
    std::nth_element(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(alone), blocks_.end(), larger);
    std::sort(blocks_.begin(), blocks_.begin() + static_cast<ptrdiff_t>(alone), larger);
    struct Cell {
      uint64_t count = 0, bytes = 0;
    };
    std::map<std::pair<int, int>, Cell> cells;
    for (size_t i = 0; i < blocks_.size(); ++i) {
      const Block& b = blocks_[i];
      const double left = x(b.first), width = x(b.last + 1.0) - left, up = y(b.offset + b.size), height = y(b.offset) - up;
      if (i >= alone || (width < 1.5 && height < 1.5)) {
        Cell& cell = cells[{static_cast<int>((left + width / 2 - kPlotLeft) / kCell),
                            static_cast<int>((up + height / 2 - kPlotTop) / kCell)}];
        ++cell.count;
        cell.bytes += b.size;
        continue;
      }
      std::string css(b.root.valid() ? op_class(graph_.op(b.node)).css : "body");
      if (std::min(width, height) < kBordered) css += " thin";
      svg.rect(css, left, up, std::max(width, 0.6), std::max(height, 0.6)).close(tooltip(b));
      if (height < 13 || width < 40) continue;
      if (!b.root.valid()) add_label(graph_.label(b.node).line(), left, width, up + height / 2);
      else name_values(b, up + height / 2);
    }
    for (const auto& [at, cell] : cells)
      svg.rect("tiny", kPlotLeft + at.first * kCell + 1, kPlotTop + at.second * kCell + 1, kCell - 2, kCell - 2)
          .close(grouped(cell.count) + (cell.count == 1 ? " small slot, " : " small slots, ") + human_bytes(cell.bytes));
  }

  void add_label(const std::string& name, double left, double width, double middle) {
    const std::string label = width < 40 ? "" : fitting(name, width - 8, kAdvance);
    if (!label.empty()) labels_.push_back({left + 4, middle + 4, label});
  }

  // Names of the values that are written over each other in a slot, where each begins.
  void name_values(const Block& b, double middle) {
    std::vector<std::pair<uint32_t, ValueId>> parts;
    for (ValueId v : of_root_[b.root.raw]) parts.emplace_back(column(plan_.slot[v.raw].first_step), v);
    std::ranges::stable_sort(parts, {}, &std::pair<uint32_t, ValueId>::first);
    if (parts.empty()) parts.emplace_back(b.first, b.root);
    parts.front().first = b.first;
    for (size_t i = 0; i < parts.size(); ++i) {
      const double left = x(parts[i].first), end = i + 1 < parts.size() ? x(parts[i + 1].first) : x(b.last + 1.0);
      add_label(value_label(graph_, parts[i].second).line(), left, end - left, middle);
    }
  }

  // Live bytes by step; if several steps share a pixel range, the maximum.
  void curve(Svg& svg) const {
    svg.raw("<path class=\"live\" pointer-events=\"none\" d=\"");
    const size_t parts = std::min<size_t>(live_.size(), static_cast<size_t>(kPlotWidth / kCurveStep));
    for (size_t p = 0; p < parts; ++p) {
      const size_t from = p * live_.size() / parts, to = (p + 1) * live_.size() / parts;
      const double height =
          y(*std::max_element(live_.begin() + static_cast<ptrdiff_t>(from), live_.begin() + static_cast<ptrdiff_t>(to)));
      if (p == 0) svg.raw("M").number(x(0)).raw(" ").number(height);
      else svg.raw("V").number(height);
      svg.raw("H").number(x(static_cast<double>(to)));
    }
    svg.raw("\"/>\n");
  }

  void labels(Svg& svg) const {
    svg.raw("<g pointer-events=\"none\">\n");
    for (const Label& l : labels_) svg.text("name", l.x, l.y, l.text);
    svg.raw("</g>\n");
  }

  void marks(Svg& svg) const {
    svg.raw("<g pointer-events=\"none\">\n");
    svg.line("top", kPlotLeft, y(height_), kPlotLeft + kPlotWidth, y(height_));
    svg.line("bound", kPlotLeft, y(bound_), kPlotLeft + kPlotWidth, y(bound_));
    svg.text("mark", kPlotLeft + 4, y(bound_) - 4, "lower bound " + human_bytes(bound_));
    const double px = x(peak_column_ + 0.5);
    svg.line("peak", px, kPlotTop, px, kPlotTop + kPlotHeight);
    const uint32_t step = step_of_[peak_column_];
    std::string label = "peak at step " + std::to_string(step);
    if (step < plan_.schedule.size()) label += ": " + fitting(graph_.label(plan_.schedule[step]).line(), 300, kAdvance);
    const bool at_right = px > kPlotLeft + kPlotWidth - 380;
    svg.raw("<text class=\"mark\" text-anchor=\"")
        .raw(at_right ? "end" : "start")
        .raw("\" x=\"")
        .number(px + (at_right ? -4 : 4));
    svg.raw("\" y=\"").number(kPlotTop + kPlotHeight + 29).raw("\">").escape(label).raw("</text>\n</g>\n");
  }

  const LirModule& lir_;
  const GraphPlan& plan_;
  const Graph& graph_;
  DimBindings bindings_;
  std::vector<uint32_t> column_, step_of_;  // step -> column, and the inverse
  std::vector<Block> blocks_;
  std::vector<std::vector<ValueId>> of_root_;  // values that own all bytes of a slot, by its root
  std::vector<Label> labels_;                  // drawn on top of the curve
  std::vector<uint64_t> live_;                 // by column
  uint64_t top_ = 0, height_ = 1, live_peak_ = 0, bound_ = 0;
  uint32_t peak_column_ = 0;
  size_t unknown_ = 0;
};

}  // namespace

std::string arena_svg(const LirModule& lir) { return ArenaPicture(lir).draw(); }

}  // namespace rlxc::report
