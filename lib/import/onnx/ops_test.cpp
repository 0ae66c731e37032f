#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "import/onnx/import.h"
#include "import/onnx/refused.h"

using namespace rlxc;

TEST_CASE("every operator of ONNX is imported, or refused with a reason") {
  std::set<std::string> known;
  for (const auto& o : onnx_import::imported_operators())
    CHECK_MESSAGE(known.insert(std::string(o.domain.empty() ? "ai.onnx" : o.domain) + " " + std::string(o.name)).second,
                  std::string(o.name));
  for (const auto& r : onnx_import::refused_operators()) {
    CHECK_MESSAGE(known.insert(std::string(r.domain.empty() ? "ai.onnx" : r.domain) + " " + std::string(r.name)).second,
                  std::string(r.name));
    CHECK_FALSE(r.why.empty());
    CHECK_FALSE(r.help.empty());
  }
  std::ifstream list(std::string(RLXC_SOURCE_DIR) + "/tests/onnx/operators.txt");
  size_t count = 0;
  for (std::string line; std::getline(list, line);) {
    if (line.starts_with('#')) continue;
    std::istringstream words(line);
    std::string domain, name;
    words >> domain >> name;
    CHECK_MESSAGE(known.contains(domain + " " + name), line);
    ++count;
  }
  CHECK(count == 227);
}
