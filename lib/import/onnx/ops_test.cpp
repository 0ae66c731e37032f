#include <doctest/doctest.h>

#include <fstream>
#include <set>
#include <sstream>

#include "import/onnx/import.h"
#include "support/onnx_model.h"
#include "support/source_dir.h"

using namespace rlxc;
using namespace rlxc::test;

TEST_CASE("every operator of ONNX is imported") {
  std::set<std::string> known;
  for (const auto& o : onnx_import::imported_operators())
    CHECK_MESSAGE(known.insert(std::string(o.domain.empty() ? "ai.onnx" : o.domain) + " " + std::string(o.name)).second,
                  std::string(o.name));
  std::ifstream list(test::source_dir() + "/tests/onnx/operators.txt");
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

TEST_CASE("operators of every opset answer any number of operands, given or left out") {
  const std::vector<std::vector<std::string>> kinds = {{"x"}, {"i"}, {"x", "i"}, {"x", "c"}, {"i", "c"}, {"b"}};
  size_t turn = 0;  // half of the kinds with each opset, the others with the next one
  for (int64_t opset : {1, 6, 7, 9, 10, 11, 12, 13, 18, 22, 24, 27}) {
    ++turn;
    for (size_t count = 0; count < 9; ++count)
      for (size_t gap = 0; gap <= count; ++gap)
        for (size_t k = (turn + gap) % 2; k < kinds.size(); k += 2) {
          const auto& kind = kinds[k];
          OnnxModel m(opset);
          for (const char* domain : {"ai.onnx.ml", "com.microsoft", "ai.onnx.preview.training"}) m.opset(domain, 3);
          m.input("x", DType::F32, {2, 3}, some(6, 1));
          m.input("i", DType::I64, {2}, {1, 1});
          m.input("b", DType::Bool, {2, 3}, std::vector<double>(6, 1));
          m.raw_graph(field(5, field(1, int64_t{2}) + field(2, int64_t{7}) + field(8, "c") + field(7, std::string("\1\1"))));
          int made = 0;
          for (const auto& o : onnx_import::imported_operators()) {
            std::vector<std::string> operands;
            for (size_t i = 0; i < count; ++i) operands.push_back(i == gap ? "" : kind[i % kind.size()]);
            const std::string y = "y" + std::to_string(made++);
            m.add(node(o.name, operands, {y, y + "_1", y + "_2"}, {}, o.domain));
            m.output(y);
          }
          Diagnostics d;
          m.load(d);
          CHECK_FALSE(d.items().empty());
        }
  }
}
