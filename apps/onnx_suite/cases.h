// Test cases in ONNX's layout: DIR/**/CASE/model.onnx with test_data_set_*/input_N.pb and output_N.pb.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace rlxc::suite {

struct Case {
  std::filesystem::path folder;
  std::string name, group;  // the folder, and its parent
  std::string op;           // the operator of all nodes, or "(several)"
};

// Finds cases in the folders, sorted by path. A folder may be a case itself.
std::vector<Case> find_cases(const std::vector<std::string>& folders);

// Known failures, one line `NAME ENGINE REASON` each; ENGINE is reference, kernels, verify-each or any. `reason` returns null if
// the case must pass.
class ExpectedFailures {
 public:
  void read(const std::string& file);
  const std::string* reason(const std::string& name, const std::string& engine) const;

 private:
  std::map<std::pair<std::string, std::string>, std::string> reasons_;
};

}  // namespace rlxc::suite
