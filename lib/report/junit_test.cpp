#include "report/junit.h"

#include <doctest/doctest.h>

#include <array>

using namespace rlxc::report;

TEST_CASE("JUnit XML counts its cases and escapes their texts") {
  const std::array<TestCase, 3> cases{TestCase{"a<b", "y", TestCase::Outcome::Passed, {}, 0.25},
                                      TestCase{"a<b", "z\n\x01", TestCase::Outcome::Failed, "\"1\" & 2\nmore", {}},
                                      TestCase{"c", "w", TestCase::Outcome::Skipped, "no file", {}}};
  CHECK(junit_xml("model.onnx", cases) ==
        R"(<?xml version="1.0" encoding="UTF-8"?>
<testsuites tests="3" failures="1" errors="0" skipped="1">
  <testsuite name="model.onnx" tests="3" failures="1" errors="0" skipped="1">
    <testcase classname="a&lt;b" name="y" time="0.25"/>
    <testcase classname="a&lt;b" name="z)"
        "\n"
        R"(�">
      <failure message="&quot;1&quot; &amp; 2">&quot;1&quot; &amp; 2
more</failure>
    </testcase>
    <testcase classname="c" name="w">
      <skipped message="no file">no file</skipped>
    </testcase>
  </testsuite>
</testsuites>
)");
}
