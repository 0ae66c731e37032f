// Speed of the JSON forms on a large graph: json_bench [LAYERS]. Prints nodes and megabytes a second of each step, by the time of
// the processor: other work on the machine does not count.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <ctime>

#include "import/json/import.h"
#include "report/fusion.h"
#include "report/graph_json.h"
#include "report/lir_json.h"
#include "report/plan_json.h"
#include "support/bump_plan.h"
#include "support/deep_module.h"
#include "support/json_reader.h"

using namespace rlxc;

namespace {

template <class F>
void time(const char* what, size_t nodes, const std::string& text, F f) {
  double best = 1e9;
  for (int i = 0; i < 5; ++i) {
    const std::clock_t start = std::clock();
    f();
    best = std::min(best, static_cast<double>(std::clock() - start) / CLOCKS_PER_SEC);
  }
  std::printf("%-22s %8.1f ms %8.2f M nodes/s %8.0f MB/s %8.1f MB\n", what, best * 1e3, static_cast<double>(nodes) / best / 1e6,
              static_cast<double>(text.size()) / best / 1e6, static_cast<double>(text.size()) / 1e6);
}

}  // namespace

int main(int argc, char** argv) {
  const LirModule lir = test::bump_lir(test::deep_module(argc > 1 ? static_cast<size_t>(std::atol(argv[1])) : 14'000));
  const size_t nodes = lir.module->main().live_nodes();
  const report::ReportContext context{"bench", "", false, "cpu", "0"};
  std::string text;
  const auto write = [&](const char* what, auto body) {
    const auto once = [&] {
      text.clear();
      JsonWriter out(text);
      body(out);
    };
    once();
    time(what, nodes, text, once);
  };
  write("write lir.json", [&](JsonWriter& out) { report::write_lir(lir, out, context); });
  write("write plan.json", [&](JsonWriter& out) { report::write_plan(lir, out, context); });
  const report::ModuleCounts counts = report::count_module(*lir.module);
  write("write fusion.json", [&](JsonWriter& out) { report::write_fusion({counts, counts, {}, lir, {}}, out, context); });
  write("write graph.json", [&](JsonWriter& out) { report::write_graph(*lir.module, out, context); });
  time("scan graph.json", nodes, text, [&] { JsonReader(text).skip(); });
  time("read graph.json", nodes, text, [&] {
    Diagnostics d;
    if (!import_json::parse_json(text, "", {}, d)) std::puts(d.text().c_str());
  });
}
