#include "report/svg.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "support/foreign_text.h"

namespace rlxc::report {
namespace {

constexpr std::array kClasses = {OpClass{"blas", "matmuls, convolutions, attention"},
                                 OpClass{"norm", "reductions and norms"},
                                 OpClass{"elem", "elementwise"},
                                 OpClass{"move", "data movement"},
                                 OpClass{"leaf", "inputs and constants"},
                                 OpClass{"misc", "other"}};
enum ClassIndex { kBlasClass, kNormClass, kElementClass, kMoveClass, kLeafClass, kOtherClass };

}  // namespace

Svg::Svg(double width, double height, std::string_view title, std::string_view description, std::string_view style) {
  raw("<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 ").number(width).raw(" ").number(height).raw("\"");
  attribute("width", width).attribute("height", height).raw(" role=\"img\" font-family=\"sans-serif\">\n<title>").escape(title);
  raw("</title>\n<desc>").escape(description).raw("</desc>\n<style>\n").raw(style).raw("</style>\n");
  rect("page", 0, 0, width, height).close();
}

Svg& Svg::escape(std::string_view s) { return raw(markup(s)); }

Svg& Svg::number(double v) {
  const long long hundredths = std::llround(v * 100);
  if (hundredths < 0) out_ += '-';
  const unsigned long long n = static_cast<unsigned long long>(std::llabs(hundredths));
  char digits[24];
  out_.append(digits, std::to_chars(digits, digits + sizeof digits, n / 100).ptr);
  if (n % 100 == 0) return *this;
  out_ += '.';
  out_ += static_cast<char>('0' + n % 100 / 10);
  if (n % 10) out_ += static_cast<char>('0' + n % 10);
  return *this;
}

Svg& Svg::attribute(std::string_view name, double value) { return raw(" ").raw(name).raw("=\"").number(value).raw("\""); }

Svg& Svg::rect(std::string_view css_class, double x, double y, double width, double height) {
  raw("<rect class=\"").raw(css_class).raw("\"");
  return attribute("x", x).attribute("y", y).attribute("width", width).attribute("height", height);
}

Svg& Svg::close(std::string_view tooltip) {
  if (tooltip.empty()) return raw("/>\n");
  return raw("><title>").escape(tooltip).raw("</title></rect>\n");
}

Svg& Svg::line(std::string_view css_class, double x1, double y1, double x2, double y2) {
  raw("<line class=\"").raw(css_class).raw("\"");
  return attribute("x1", x1).attribute("y1", y1).attribute("x2", x2).attribute("y2", y2).raw("/>\n");
}

Svg& Svg::text(std::string_view css_class, double x, double y, std::string_view content) {
  raw("<text class=\"").raw(css_class).raw("\"");
  return attribute("x", x).attribute("y", y).raw(">").escape(content).raw("</text>\n");
}

std::string Svg::finish() {
  raw("</svg>\n");
  return std::move(out_);
}

OpClass op_class(OpKind op) {
  const auto is = [&](uint32_t t) { return has_trait(op, t); };
  if (is(kBlas)) return kClasses[kBlasClass];
  if (is(kReduction | kNormTrait)) return kClasses[kNormClass];
  if (is(kElementwise) || op == OpKind::Rope) return kClasses[kElementClass];
  if (is(kMovement)) return kClasses[kMoveClass];
  return kClasses[is(kLeaf) ? kLeafClass : kOtherClass];
}

std::string_view op_class_style() {
  return ".page{fill:#fff}\n.blas{fill:#8fc0e6;stroke:#0b5c94}\n.norm{fill:#f6c667;stroke:#9a6300}\n.elem{fill:#8fd3b6;stroke:#"
         "00664a}\n"
         ".move{fill:#e3b3d0;stroke:#8c3b6c}\n.leaf{fill:#fff;stroke:#555}\n.misc{fill:#d5d5d5;stroke:#555}\n"
         ".label{font-size:11px;fill:#1a1a1a}\n.small{font-size:9.5px;fill:#333}\n.head{font-size:16px;font-weight:bold;fill:#"
         "111}\n";
}

void op_class_legend(Svg& svg, double x, double y) {
  for (const OpClass& c : kClasses) {
    svg.rect(c.css, x, y - 9, 11, 11).close();
    svg.text("label", x + 16, y, c.label);
    x += 42 + 5.4 * static_cast<double>(c.label.size());
  }
}

std::string grouped(uint64_t n) {
  std::string s = std::to_string(n);
  for (size_t i = s.size(); i > 3; i -= 3) s.insert(i - 3, 1, ',');
  return s;
}

std::string fitting(std::string_view name, double width, double advance) {
  const auto room = static_cast<size_t>(std::max(0.0, width / advance));
  if (name.size() <= room) return std::string(name);
  if (room < 3) return {};
  size_t end = room - 1;
  while (end > 0 && (static_cast<unsigned char>(name[end]) & 0xC0) == 0x80) --end;  // to the start of a character
  return std::string(name.substr(0, end)) + "\xE2\x80\xA6";
}

}  // namespace rlxc::report
