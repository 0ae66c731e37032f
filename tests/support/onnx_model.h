// Small ONNX models for importer tests: written as protobuf bytes, imported, evaluated.
#pragma once
#include <doctest/doctest.h>

#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "eval/value.h"
#include "import/onnx/import.h"

namespace rlxc::test {

// Fields of protobuf messages.
std::string varint(uint64_t v);
std::string field(int number, std::string_view body);
std::string field(int number, int64_t v);
std::string fixed32(int number, float v);

// The messages of ONNX: AttributeProto, NodeProto, ValueInfoProto.
std::string attribute(std::string_view name, int64_t v);
std::string attribute(std::string_view name, int v);
std::string attribute(std::string_view name, double v);
std::string attribute(std::string_view name, const char* v);
std::string attribute(std::string_view name, const std::vector<int64_t>& v);
std::string attribute(std::string_view name, const std::vector<double>& v);
std::string attribute(std::string_view name, const std::vector<std::string>& v);
std::string graph_attribute(std::string_view name, std::string_view graph);
std::string node(std::string_view op, const std::vector<std::string>& inputs, const std::vector<std::string>& outputs,
                 const std::vector<std::string>& attributes = {}, std::string_view domain = "");
std::string value_info(std::string_view name, DType t, const std::vector<int64_t>& dims);

// A model with one graph, and the values of its inputs.
class OnnxModel {
 public:
  explicit OnnxModel(int64_t opset = 24) { opsets_ = field(8, field(2, opset)); }

  void opset(std::string_view domain, int64_t version) { opsets_ += field(8, field(1, domain) + field(2, version)); }
  void input(std::string_view name, DType t, std::vector<int64_t> dims, const std::vector<double>& values);
  void add(std::string_view node_bytes) { graph_ += field(1, node_bytes); }
  void output(std::string_view name) { graph_ += field(12, field(1, name)); }
  void raw(std::string_view model_field) { extra_ += model_field; }
  void raw_graph(std::string_view graph_field) { graph_ += graph_field; }
  std::string bytes() const { return field(1, int64_t{10}) + field(7, graph_) + opsets_ + extra_; }

  std::unique_ptr<Module> load(Diagnostics& d, const onnx_import::ImportOptions& options = {}) const;
  // Returns the outputs of the reference evaluator; fails the test on errors. RLXC_KEEP_CASES names a folder where the model is
  // saved as a case in ONNX's layout.
  std::vector<std::vector<double>> run() const;

 private:
  std::string graph_, opsets_, extra_;
  std::vector<eval::HostValue> inputs_;
};

// Returns reproducible numbers in [-1, 1).
std::vector<double> some(size_t n, uint64_t seed);

void check_close(const std::vector<double>& a, const std::vector<double>& b, double tolerance = 1e-5);

}  // namespace rlxc::test
