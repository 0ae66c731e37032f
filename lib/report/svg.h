// SVG writer: coordinates with two decimals (equal on every machine), escaped text, no scripts, fonts or links.
#pragma once
#include <string>
#include <string_view>

#include "ir/opkind.h"

namespace rlxc::report {

class Svg {
 public:
  // Opens the document. Screen readers and browsers show `title` and `description`. `style` is CSS.
  Svg(double width, double height, std::string_view title, std::string_view description, std::string_view style);

  Svg& raw(std::string_view s) {
    out_ += s;
    return *this;
  }
  Svg& escape(std::string_view);  // see `markup`
  Svg& number(double);

  Svg& rect(std::string_view css_class, double x, double y, double width, double height);  // left open: end with `close`
  Svg& close(std::string_view tooltip = {});
  Svg& line(std::string_view css_class, double x1, double y1, double x2, double y2);
  Svg& text(std::string_view css_class, double x, double y, std::string_view content);

  std::string finish();

 private:
  Svg& attribute(std::string_view name, double value);

  std::string out_;
};

// Colour classes of ops, distinguishable with colour vision deficiencies (after Okabe and Ito).
struct OpClass {
  std::string_view css, label;
};
OpClass op_class(OpKind);
std::string_view op_class_style();  // CSS of all classes
void op_class_legend(Svg&, double x, double y);

std::string grouped(uint64_t);  // 1,234,567
// The beginning of a name that fits into `width` pixels at `advance` pixels per character; empty if below three characters.
std::string fitting(std::string_view name, double width, double advance);

}  // namespace rlxc::report
