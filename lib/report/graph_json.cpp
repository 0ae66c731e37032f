#include "report/graph_json.h"

#include "ir/text_order.h"
#include "report/module_terms.h"

namespace rlxc::report {
namespace {

void write_one(const Graph& g, ModuleTerms& terms) {
  JsonWriter& out = terms.out();
  out.begin_object();
  out.key("name").string(g.name().bytes());
  out.key("inputs").begin_array(JsonLayout::Line);
  for (NodeId n : g.inputs()) terms.value(g.result(n));
  out.end_array();
  out.key("nodes").begin_array();
  for (NodeId n : text_order(g)) {
    out.begin_object(JsonLayout::Line);
    terms.node(g, n);
    terms.provenance(g, n, false);
    out.end_object();
  }
  out.end_array();
  out.key("outputs").begin_array();
  for (size_t i = 0; i < g.outputs().size(); ++i) {
    out.begin_object(JsonLayout::Line).key("value");
    terms.value(g.outputs()[i]);
    if (g.output_name(i).valid()) {
      out.key("name");
      terms.name(g.output_name(i));
    }
    out.end_object();
  }
  out.end_array();
  out.end_object();
}

}  // namespace

namespace {

class GraphWriter {
 public:
  GraphWriter(const Module& m, JsonWriter& out) : m_(m), terms_(m, out) {}
  ModuleTerms& terms() { return terms_; }
  void run(const ReportContext& context);

 private:
  const Module& m_;
  ModuleTerms terms_;
};

void GraphWriter::run(const ReportContext& context) {
  static constexpr std::string_view kStages[] = {"hir", "mir", "lir"};
  const Module& m = m_;
  ModuleTerms& terms = terms_;
  JsonWriter& out = terms.out();
  out.begin_object();
  write_header(out, "graph", context, kGraphVersion);
  out.key("module").string(m.name);
  out.key("stage").string(kStages[static_cast<size_t>(m.stage)]);
  terms.symbols();
  if (!m.devices.empty()) {
    out.key("devices");
    write_json(m.devices, out);
  }
  terms.constants();
  out.key("graphs").begin_array();
  for (size_t i = 0; i < m.graph_count(); ++i) write_one(m.graph(GraphId(i)), terms);
  out.end_array();
  out.end_object().finish();
}

}  // namespace

void write_graph(const Module& m, JsonWriter& out, const ReportContext& context) {
  write_document(m, out, context, [&](JsonWriter& w) { return GraphWriter(m, w); });
}

}  // namespace rlxc::report
