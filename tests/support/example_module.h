// Small modules for tests of reports: a block with a residual, a view, a constant and an unusual name. Static or symbolic.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <string>

#include "ir/text.h"

namespace rlxc::test {

inline std::unique_ptr<Module> example_module(bool symbolic = false) {
  const std::string b = symbolic ? "batch" : "2";
  const std::string text =
      "module \"example\" mir {\ngraph @main {\n"
      "%0 = input \"x\" : f32[" +
      b +
      ",4]\n"
      "%1 = param \"fc1.weight\" : f32[4,8]\n"
      "%2 = constant {data = dense [0, 0.5, -1, 2, 0, 0, 0, 1]} : f32[8]\n"
      "%3 = param \"fc2.weight\" : f32[8,4]\n"
      "%4 = fused_matmul_bias_act(%0, %1, %2) {act = \"relu\"} \"fc1 <&\\\"1\\\">\" : f32[" +
      b +
      ",8]\n"
      "%5 = matmul(%4, %3) \"block/fc2\" : f32[" +
      b +
      ",4]\n"
      "%6 = add(%5, %0) \"block/residual\" : f32[" +
      b +
      ",4]\n"
      "%7 = reshape(%6) {dims = [" +
      (symbolic ? "\"4*batch\"" : "8") + "]} : f32[" + (symbolic ? "4*batch" : "8") +
      "]\n"
      "%8 = tanh(%7) \"block/tanh\" : f32[" +
      (symbolic ? "4*batch" : "8") +
      "]\n"
      "return %8 \"y\"\n}\n}\n";
  Diagnostics d;
  auto m = parse_text(text, d);
  INFO(d.text());
  REQUIRE(m);
  return m;
}

}  // namespace rlxc::test
