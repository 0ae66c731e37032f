#include "report/graph_svg.h"

#include <algorithm>
#include <cmath>

#include "report/graph_boxes.h"
#include "report/layered_layout.h"
#include "report/svg.h"

namespace rlxc::report {
namespace {

constexpr double kBoxWidth = 184, kBoxHeight = 46, kSmallWidth = 124, kSmallHeight = 20;
constexpr double kRow = 74, kGap = 14, kMargin = 24, kTop = 90, kLeastWidth = 900, kColumnGap = 48;
constexpr double kAspect = 0.7;  // intended height / width of the page
constexpr size_t kMostEdges = 12000;
constexpr uint32_t kMostStubs = 3;  // limit on stubs above a box
constexpr size_t kTooltipBytes = 400;

class GraphPicture {
 public:
  explicit GraphPicture(const LirModule& lir) : lir_(lir), content_(graph_boxes(lir)) {}

  std::string draw() {
    hidden_ = content_.edges.size() - std::min(content_.edges.size(), kMostEdges);
    content_.edges.resize(content_.edges.size() - hidden_);
    for (const GraphBox& b : content_.boxes) layout_.nodes.push_back({b.small ? kSmallWidth : kBoxWidth, 0, 0});
    for (const auto& [from, to] : content_.edges) layout_.edges.push_back({from, to, {}, false});
    arrange(layout_, kGap);
    const double column = layout_.width + kColumnGap;
    const double columns = std::max(1.0, std::round(std::sqrt(layout_.layers * kRow / column / kAspect)));
    rows_ = static_cast<uint32_t>(std::ceil(std::max(layout_.layers, 1u) / columns));
    const double drawn = columns * column - kColumnGap, width = std::max(drawn + 2 * kMargin, kLeastWidth);
    left_ = (width - drawn) / 2;
    const std::string name = "Graph of " + lir_.module->name.line();
    Svg svg(width, kTop + rows_ * kRow + kMargin, name, "Operations from the inputs at the top to the outputs at the bottom.",
            style());
    svg.text("head", kMargin, 30, name);
    svg.text("label", kMargin, 50, summary());
    op_class_legend(svg, kMargin, 70);
    edges(svg);
    for (size_t i = 0; i < content_.boxes.size(); ++i) box(svg, i);
    return svg.finish();
  }

 private:
  static std::string style() {
    return std::string(op_class_style()) +
           "rect{stroke-width:1}\n.edge{fill:none;stroke:#7a858c;stroke-width:1.1}\n.stub{fill:none;stroke:#7a858c;stroke-"
           "dasharray:3 2}\n"
           ".output{stroke-width:2.6}\n.part{stroke-dasharray:5 2}\n.op{font-size:12px;font-weight:bold;fill:#111}\n";
  }

  std::string summary() const {
    std::string s = grouped(lir_.module->main().live_nodes()) + " nodes";
    if (!content_.grouping.empty()) s += " in " + grouped(content_.boxes.size()) + " parts: " + content_.grouping;
    s += "; weights and constants are not drawn, outputs have a thick border";
    if (hidden_) s += "; " + grouped(hidden_) + " edges are left out";
    return s;
  }

  // Layers are wrapped into columns, like text.
  uint32_t column(size_t box) const { return layout_.nodes[box].layer / rows_; }
  double x(size_t box) const { return left_ + column(box) * (layout_.width + kColumnGap) + layout_.nodes[box].x; }
  double height(size_t box) const { return content_.boxes[box].small ? kSmallHeight : kBoxHeight; }
  double middle(uint32_t layer) const { return kTop + layer % rows_ * kRow + kBoxHeight / 2; }
  double top(size_t box) const { return middle(layout_.nodes[box].layer) - height(box) / 2; }
  double bottom(size_t box) const { return middle(layout_.nodes[box].layer) + height(box) / 2; }

  // A smooth path that starts and ends vertically.
  void curve(Svg& svg, double x1, double y1, double x2, double y2) const {
    const double half = (y1 + y2) / 2;
    svg.raw("C").number(x1).raw(" ").number(half).raw(" ").number(x2).raw(" ").number(half).raw(" ").number(x2).raw(" ").number(
        y2);
  }

  void edges(Svg& svg) {
    svg.raw("<g class=\"edge\">\n");
    for (const LayoutEdge& e : layout_.edges) {
      if (is_stub(e)) continue;
      const double shift = x(e.from) - layout_.nodes[e.from].x;
      double px = x(e.from), py = bottom(e.from);
      svg.raw("<path d=\"M").number(px).raw(" ").number(py);
      uint32_t layer = layout_.nodes[e.from].layer;
      for (double bend : e.bends) {
        const double bx = shift + bend, by = middle(++layer);
        curve(svg, px, py, bx, by - kBoxHeight / 2);
        svg.raw("V").number(by + kBoxHeight / 2);
        px = bx;
        py = by + kBoxHeight / 2;
      }
      curve(svg, px, py, x(e.to), top(e.to));
      svg.raw("\"/>\n");
    }
    svg.raw("</g>\n");
    stubs_.assign(content_.boxes.size(), 0);
    for (const LayoutEdge& e : layout_.edges)
      if (is_stub(e)) stub(svg, e);
  }

  bool is_stub(const LayoutEdge& e) const { return e.is_stub || column(e.from) != column(e.to); }

  // Draws an edge that is not routed as an arrow at its target, labelled with the source.
  void stub(Svg& svg, const LayoutEdge& e) {
    const uint32_t already = stubs_[e.to]++;
    if (already >= kMostStubs) return;
    const double tx = x(e.to) + layout_.nodes[e.to].width / 2 - 22, ty = top(e.to) - 9.0 * already;
    svg.raw("<path class=\"stub\" d=\"M").number(tx).raw(" ").number(ty - 12).raw("V").number(ty).raw("\"/>\n");
    svg.raw("<text class=\"small\" text-anchor=\"end\" x=\"").number(tx + 20).raw("\" y=\"").number(ty - 4).raw("\">");
    svg.escape("from " + fitting(content_.boxes[e.from].label, 100, 5.3)).raw("</text>\n");
  }

  void box(Svg& svg, size_t i) {
    const GraphBox& b = content_.boxes[i];
    const double width = layout_.nodes[i].width, left = x(i) - width / 2;
    std::string css(op_class(b.op).css);
    if (b.is_output) css += " output";
    if (b.is_part) css += " part";
    svg.raw("<g>");
    svg.rect(css, left, top(i), width, height(i)).raw(" rx=\"4\"").close();
    if (b.small) {
      svg.text("small", left + 6, top(i) + 13,
               fitting(b.op == OpKind::Input ? b.label + " " + b.type : b.head + " " + b.type, width - 10, 5.3));
    } else {
      svg.text("op", left + 8, top(i) + 14, fitting(b.head, width - 16, 8.2));
      svg.text("label", left + 8, top(i) + 27, fitting(b.label, width - 12, 6.1));
      svg.text("small", left + 8, top(i) + 40, fitting(b.type, width - 12, 5.4));
    }
    std::string tooltip = b.tooltip.substr(0, kTooltipBytes);
    if (tooltip.size() < b.tooltip.size()) tooltip += "...";
    svg.raw("<title>").escape(tooltip).raw("</title></g>\n");
  }

  const LirModule& lir_;
  GraphBoxes content_;
  LayeredLayout layout_;
  std::vector<uint32_t> stubs_;  // by box: number drawn
  double left_ = 0;
  uint32_t rows_ = 1;  // layers per column
  size_t hidden_ = 0;
};

}  // namespace

std::string graph_svg(const LirModule& lir) { return GraphPicture(lir).draw(); }

}  // namespace rlxc::report
