// Tests that an operator equals a composition of others: both are nodes of one model with the same random inputs.
#pragma once
#include <algorithm>
#include <cmath>

#include "support/onnx_model.h"

namespace rlxc::test {

class OnnxPair {
 public:
  explicit OnnxPair(int64_t opset = 21) : model_(opset) {
    model_.opset("com.microsoft", 1);
    model_.opset("ai.onnx.ml", 5);
  }

  OnnxModel& model() { return model_; }
  // Adds an input of random numbers in [-1, 1).
  OnnxPair& real(std::string_view name, std::vector<int64_t> dims) {
    size_t n = 1;
    for (int64_t d : dims) n *= static_cast<size_t>(d);
    model_.input(name, DType::F32, std::move(dims), some(n, ++seed_));
    return *this;
  }
  // Adds an input of random integers in low..high.
  OnnxPair& integers(std::string_view name, DType t, std::vector<int64_t> dims, int low, int high) {
    size_t n = 1;
    for (int64_t d : dims) n *= static_cast<size_t>(d);
    std::vector<double> v = some(n, ++seed_);
    for (double& x : v) x = low + std::floor((x + 1) / 2 * (high - low + 1));
    model_.input(name, t, std::move(dims), v);
    return *this;
  }
  OnnxPair& constant(std::string_view name, DType t, const std::vector<double>& v) {
    model_.input(name, t, {}, v);
    return *this;
  }
  OnnxPair& ints(std::string_view name, const std::vector<int64_t>& v) {
    model_.add(node("Constant", {}, {std::string(name)}, {attribute("value_ints", v)}));
    return *this;
  }
  OnnxPair& number(std::string_view name, double v) {
    model_.add(node("Constant", {}, {std::string(name)}, {attribute("value_float", v)}));
    return *this;
  }
  // Adds a node of ai.onnx, or of another domain.
  OnnxPair& node_of(std::string_view domain, std::string_view op, const std::vector<std::string>& in,
                    const std::vector<std::string>& out, const std::vector<std::string>& attributes = {}) {
    model_.add(node(op, in, out, attributes, domain));
    return *this;
  }
  OnnxPair& ms(std::string_view op, const std::vector<std::string>& in, const std::vector<std::string>& out,
               const std::vector<std::string>& attributes = {}) {
    return node_of("com.microsoft", op, in, out, attributes);
  }
  OnnxPair& on(std::string_view op, const std::vector<std::string>& in, const std::string& out,
               const std::vector<std::string>& attributes = {}) {
    return node_of("", op, in, {out}, attributes);
  }
  // Checks that each pair of values agrees. `tolerance` 0 requires equality.
  void agree(const std::vector<std::pair<std::string, std::string>>& pairs, double tolerance = 1e-5) {
    std::vector<std::string> names;
    const auto place = [&](const std::string& name) {
      const auto at = std::find(names.begin(), names.end(), name);
      if (at == names.end()) names.push_back(name), model_.output(name);
      return static_cast<size_t>(std::find(names.begin(), names.end(), name) - names.begin());
    };
    std::vector<std::pair<size_t, size_t>> places;
    for (const auto& [a, b] : pairs) {
      const size_t first = place(a);
      places.emplace_back(first, place(b));
    }
    const auto got = model_.run();
    for (size_t i = 0; i < pairs.size(); ++i) {
      INFO(pairs[i].first, " and ", pairs[i].second);
      check_close(got[places[i].first], got[places[i].second], tolerance);
    }
  }

 private:
  OnnxModel model_;
  uint64_t seed_ = 100;
};

}  // namespace rlxc::test
