#include "report/html_report.h"

#include <doctest/doctest.h>

#include "passes/pass.h"
#include "passes/passes.h"
#include "report/words.h"

using namespace rlxc;
using namespace rlxc::report;

TEST_CASE("names in the data cannot end the script") {
  const PageCompile c{"a<b", {{"lir.json", "{\n \"name\": \"</script><script>alert(1)</script> \\\"x\\\" a  b\"\n}\n"}}, {}};
  const std::string page = html_report({c}, {{"cpu", Machine()}}, "1.0");
  CHECK(page.find("<title>a&lt;b - rlxc report</title>") != std::string::npos);
  CHECK(page.find("</script><script>alert") == std::string::npos);
  CHECK(page.find(R"("lir":{"name":"\u003c/script>\u003cscript>alert(1)\u003c/script> \"x\" a  b"})") != std::string::npos);
  for (const char* place : {"@TITLE@", "@STYLE@", "@DATA@", "@SCRIPT@"}) CHECK(page.find(place) == std::string::npos);
}

TEST_CASE("long diffs are left out, in the order of passes") {
  PageCompile c{"m", {}, {}};
  c.pass_diffs = {{"first", "+a"}, {"long", std::string(2 << 20, 'x')}, {"last", "-b"}};
  const std::string page = html_report({c}, {}, "1.0");
  CHECK(page.find(R"("omitted_diffs":1,"diffs":[{"pass":"first","text":"+a"},{"pass":"last","text":"-b"}])") !=
        std::string::npos);
}

TEST_CASE("words are sorted and explained") {
  for (size_t i = 0; i < reason_words().size(); ++i) {
    CHECK_FALSE(reason_words()[i].meaning.empty());
    if (i) CHECK_MESSAGE(reason_words()[i - 1].code < reason_words()[i].code, reason_words()[i].code);
  }
  for (const PatternWord& p : pattern_words()) {
    CHECK_MESSAGE(find_pass(p.pass), p.name);
    CHECK_FALSE(p.example.empty());
  }
}
