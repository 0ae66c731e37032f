#include "report/mesh_svg.h"

#include <array>

#include "report/sharding_facts.h"
#include "report/svg.h"
#include "support/number.h"

namespace rlxc::report {
namespace {

constexpr double kEdge = 24, kGridTop = 92, kWidth = 168, kHeight = 66, kSpace = 34, kLine = 17, kLetter = 6.2;
constexpr int64_t kMostAlong = 8;  // devices that are drawn along an axis of a grid
constexpr int64_t kMostGrids = 8;
constexpr int kColours = 6;  // of axes and stages

std::string colour(std::string_view css, size_t i) { return std::string(css) + std::to_string(i % kColours); }

class MeshPicture {
 public:
  MeshPicture(const LirModule& lir, const Machine& machine, const Link& link)
      : lir_(lir), facts_(sharding_facts(lir, machine, link)), mesh_(facts_.mesh) {
    const size_t axes = mesh_.axes.size();
    columns_ = axes > 0 ? mesh_.axes[axes - 1].size : 1;
    rows_ = axes > 1 ? mesh_.axes[axes - 2].size : 1;
    grids_ = mesh_.devices() / (rows_ * columns_);
    for (const Exchange& e : facts_.exchanges)
      for (const std::string& name : e.along)
        if (const auto axis = mesh_.find(name)) used_[*axis] = true;
  }

  std::string draw() {
    const auto sums = facts_.sums();
    const double grid_height = static_cast<double>(drawn(rows_, kMostAlong)) * (kHeight + kSpace) + (grids_ > 1 ? kLine : 0);
    const double list = kGridTop + grid_height * static_cast<double>(drawn(grids_, kMostGrids)) + kLine;
    const double width = 2 * kEdge + std::max(3.0, static_cast<double>(drawn(columns_, kMostAlong))) * (kWidth + kSpace);
    const std::string title = "Mesh " + mesh_.text() + ": " + std::to_string(mesh_.devices()) + " devices";
    Svg svg(width, list + kLine * static_cast<double>(sums.size() + mesh_.axes.size() + 2), title,
            "Each box is a device. Lines join devices that exchange data along an axis.", style());
    svg.text("head", kEdge, 30, title);
    svg.text("label", kEdge, 52, summary());
    svg.text("label", kEdge, 52 + kLine, hidden());
    for (int64_t g = 0; g < drawn(grids_, kMostGrids); ++g) grid(svg, g, kGridTop + grid_height * static_cast<double>(g));
    legend(svg, list, sums);
    return svg.finish();
  }

 private:
  static int64_t drawn(int64_t size, int64_t most) { return std::min(size, most); }

  static std::string style() {
    constexpr std::array<std::string_view, kColours> fill{"#d7e8f5", "#fbe6bd", "#d2ede2", "#f1dbe8", "#e4e4e4", "#f9d9cf"};
    constexpr std::array<std::string_view, kColours> stroke{"#0b5c94", "#9a6300", "#00664a", "#8c3b6c", "#555", "#b03a00"};
    std::string s(op_class_style());
    for (size_t i = 0; i < kColours; ++i) {
      s += "." + colour("stage", i) + "{fill:" + std::string(fill[i]) + ";stroke:#555}\n";
      s += "." + colour("axis", i) + "{stroke:" + std::string(stroke[i]) + ";stroke-width:3}\n";
    }
    return s;
  }

  std::string summary() const {
    return "a device: " + human_bytes(facts_.device_weight_bytes()) + " of " + human_bytes(facts_.whole_weight_bytes) +
           " of weights, " + activations_text(lir_) + " of activations; a run: " + milliseconds(facts_.clock.end_ns()) + ", " +
           human_bytes(facts_.sent()) + " sent by a device";
  }
  // Returns the number of devices that are not drawn, as text.
  std::string hidden() const {
    const int64_t seen = drawn(grids_, kMostGrids) * drawn(rows_, kMostAlong) * drawn(columns_, kMostAlong);
    return seen < mesh_.devices() ? std::to_string(mesh_.devices() - seen) + " further devices are not drawn" : "";
  }

  int64_t coordinate(int64_t rank, size_t axis) const {
    const size_t along[] = {axis};
    return mesh_.position(rank, along);
  }
  std::string place(int64_t rank, size_t axes) const {
    std::string s;
    for (size_t a = 0; a < axes; ++a) s += (a ? "," : "") + mesh_.axes[a].name + "=" + std::to_string(coordinate(rank, a));
    return s;
  }

  void grid(Svg& svg, int64_t g, double top) const {
    const size_t axes = mesh_.axes.size();
    const int64_t first = g * rows_ * columns_;
    if (grids_ > 1) {
      svg.text("label", kEdge, top + kLine - 5, place(first, axes - 2));
      top += kLine;
    }
    for (int64_t r = 0; r < drawn(rows_, kMostAlong); ++r)
      for (int64_t c = 0; c < drawn(columns_, kMostAlong); ++c) {
        const double x = kEdge + static_cast<double>(c) * (kWidth + kSpace),
                     y = top + static_cast<double>(r) * (kHeight + kSpace);
        if (c + 1 < columns_ && used_[axes - 1])
          svg.line(colour("axis", axes - 1), x + kWidth, y + kHeight / 2, x + kWidth + kSpace, y + kHeight / 2);
        if (r + 1 < rows_ && used_[axes - 2])
          svg.line(colour("axis", axes - 2), x + kWidth / 2, y + kHeight, x + kWidth / 2, y + kHeight + kSpace);
        device(svg, first + r * columns_ + c, x, y);
      }
  }

  void device(Svg& svg, int64_t rank, double x, double y) const {
    const auto stage = facts_.pipeline() ? static_cast<size_t>(coordinate(rank, facts_.stage_axis)) : 0;
    const RunClock::Stage& run = facts_.clock.stages()[stage];
    const std::string where = place(rank, mesh_.axes.size());
    svg.rect(colour("stage", stage), x, y, kWidth, kHeight);
    svg.close("rank " + std::to_string(rank) + ", " + where + (facts_.pipeline() ? ", stage " + std::to_string(stage) : "") +
              ": " + milliseconds(run.compute_ns) + " of computation, " + milliseconds(run.exchange_ns) + " of exchange");
    svg.text("label", x + 8, y + 16, std::to_string(rank) + "  " + fitting(where, kWidth - 40, kLetter));
    svg.text("small", x + 8, y + 33, human_bytes(facts_.weight_bytes[stage]) + " of weights");
    svg.text("small", x + 8, y + 46, human_bytes(run.sent) + " sent");
    svg.text("small", x + 8, y + 59, milliseconds(run.compute_ns) + " + " + milliseconds(run.exchange_ns));
  }

  void legend(Svg& svg, double y, const std::map<std::string, ExchangeSum>& sums) const {
    for (size_t a = 0; a < mesh_.axes.size(); ++a, y += kLine) {
      svg.line(colour("axis", a), kEdge, y - 4, kEdge + 22, y - 4);
      svg.text("label", kEdge + 30, y,
               mesh_.axes[a].name + ", " + std::to_string(mesh_.axes[a].size) +
                   (facts_.pipeline() && a == facts_.stage_axis ? ": the stages of a pipeline"
                    : used_[a]                                  ? ""
                                                                : ": no exchange"));
    }
    for (const auto& [op, sum] : sums) {
      svg.text("label", kEdge + 30, y,
               op + ": " + std::to_string(sum.count) + ", " + human_bytes(sum.bytes) + ", " + milliseconds(sum.ns));
      y += kLine;
    }
  }

  const LirModule& lir_;
  const ShardingFacts facts_;
  const Mesh& mesh_;
  int64_t columns_ = 1, rows_ = 1, grids_ = 1;
  std::array<bool, Mesh::kMaxAxes> used_{};  // by axis: whether data is exchanged along it
};

}  // namespace

std::string mesh_svg(const LirModule& lir, const Machine& machine, const Link& link) {
  return MeshPicture(lir, machine, link).draw();
}

}  // namespace rlxc::report
