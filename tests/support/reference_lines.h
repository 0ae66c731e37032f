// Builds documents of the reference JSON format line by line: op, inputs, dims, element type.
#pragma once
#include <string>
#include <vector>

namespace rlxc::test {

struct ReferenceLines {
  std::string text;
  int count = 0;
  // Dims below 0 are symbols: -1 is symbol 0.
  ReferenceLines& add(const std::string& op, const std::vector<int>& inputs, const std::vector<int>& dims,
                      const std::string& dtype = "F32") {
    if (count) text += ",\n";
    text += R"({"id":)" + std::to_string(count++) + R"(,"op":)" + op + R"(,"inputs":[)";
    for (size_t i = 0; i < inputs.size(); ++i) text += (i ? "," : "") + std::to_string(inputs[i]);
    text += R"(],"shape":{"dims":[)";
    for (size_t i = 0; i < dims.size(); ++i)
      text += (i ? "," : "") + (dims[i] < 0 ? "{\"Dynamic\":" + std::to_string(-1 - dims[i]) + "}"
                                            : "{\"Static\":" + std::to_string(dims[i]) + "}");
    text += R"(],"dtype":")" + dtype + R"("},"name":null,"origin":null})";
    return *this;
  }
  ReferenceLines& input(const std::string& name, const std::vector<int>& dims, const std::string& dtype = "F32") {
    return add(R"({"Input":{"name":")" + name + "\"}}", {}, dims, dtype);
  }
  // Returns the graph with these nodes as outputs; by default the last one.
  std::string graph(const std::string& more = "", std::vector<int> outputs = {}) const {
    if (outputs.empty()) outputs.push_back(count - 1);
    std::string ids;
    for (size_t i = 0; i < outputs.size(); ++i) ids += (i ? "," : "") + std::to_string(outputs[i]);
    return R"({"name":"g","nodes":[)" + text + R"(],"outputs":[)" + ids + "]" + more + "}";
  }
};

}  // namespace rlxc::test
