// Checks models as others read them, by ONNX's own messages: onnx_check FILE... . Names of nodes, values and functions are unique
// in the whole model, subgraphs included, as ONNX Runtime asks for, and every value is defined before it is read. Models of
// opsets that the installed library knows go through ONNX's checker, too. Prints a line per fault; exit code 1 if there is one.
#include <onnx/checker.h>
#include <onnx/defs/schema.h>
#include <onnx/onnx_pb.h>

#include <exception>
#include <fstream>
#include <iostream>
#include <set>
#include <string>

namespace {

class Names {
 public:
  explicit Names(const onnx::ModelProto& m) {
    std::set<std::string> functions;
    for (const onnx::FunctionProto& f : m.functions()) {
      if (!functions.insert(f.domain() + "::" + f.name()).second) fault("two functions have the name " + f.name());
      std::set<std::string> known;
      for (const std::string& name : f.input()) define(name, &known);
      nodes(f.node(), &known);
      for (const std::string& name : f.output()) read(name, known);
    }
    graph(m.graph(), {});
  }
  const std::set<std::string>& faults() const { return faults_; }

 private:
  void fault(const std::string& text) { faults_.insert(text); }
  void define(const std::string& name, std::set<std::string>* known) {
    if (!values_.insert(name).second) fault("two values have the name \"" + name + "\"");
    known->insert(name);
  }
  void read(const std::string& name, const std::set<std::string>& known) {
    if (!name.empty() && !known.contains(name)) fault("\"" + name + "\" is read before it is defined");
  }
  void graph(const onnx::GraphProto& g, std::set<std::string> known) {  // `known`: values of the graphs around it
    for (const onnx::ValueInfoProto& v : g.input()) define(v.name(), &known);
    for (const onnx::TensorProto& t : g.initializer()) define(t.name(), &known);
    nodes(g.node(), &known);
    std::set<std::string> outputs;
    for (const onnx::ValueInfoProto& v : g.output()) {
      read(v.name(), known);
      if (!outputs.insert(v.name()).second) fault("two outputs have the name \"" + v.name() + "\"");
    }
  }
  template <class Nodes>
  void nodes(const Nodes& list, std::set<std::string>* known) {
    for (const onnx::NodeProto& n : list) {
      if (!n.name().empty() && !nodes_.insert(n.name()).second) fault("two nodes have the name \"" + n.name() + "\"");
      for (const std::string& name : n.input()) read(name, *known);
      for (const onnx::AttributeProto& a : n.attribute()) {
        if (a.has_g()) graph(a.g(), *known);
        for (const onnx::GraphProto& g : a.graphs()) graph(g, *known);
      }
      for (const std::string& name : n.output())
        if (!name.empty()) define(name, known);
    }
  }

  std::set<std::string> values_, nodes_, faults_;
};

std::set<std::string> faults_of(const std::string& path) {
  onnx::ModelProto m;
  std::ifstream file(path, std::ios::binary);
  if (!m.ParseFromIstream(&file)) return {"is no ONNX model"};
  std::set<std::string> faults = Names(m).faults();
  const auto newest = onnx::OpSchemaRegistry::DomainToVersionRange().Map();
  bool known = m.ir_version() <= onnx::Version::IR_VERSION;
  for (const onnx::OperatorSetIdProto& set : m.opset_import()) {
    const auto range = newest.find(set.domain());
    known &= range != newest.end() && set.version() <= range->second.second;
  }
  if (known) try {
      onnx::checker::check_model(m);
    } catch (const std::exception& e) {
      faults.insert(std::string("checker: ") + e.what());
    }
  return faults;
}

}  // namespace

int main(int argc, char** argv) {
  bool good = true;
  for (int i = 1; i < argc; ++i)
    for (const std::string& fault : faults_of(argv[i])) {
      std::cout << argv[i] << ": " << fault << "\n";
      good = false;
    }
  return good ? 0 : 1;
}
