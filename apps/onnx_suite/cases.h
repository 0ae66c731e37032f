// Cases in ONNX's layout: DIR/**/CASE/model.onnx beside test_data_set_*/input_N.pb and output_N.pb.
#pragma once
#include <filesystem>
#include <map>
#include <string>
#include <vector>

namespace rlxc::suite {

struct Case {
  std::filesystem::path folder;
  std::string name, group;  // the folder, and the folder it is in
  std::string op;           // that all nodes of the model are, or "(several)"
};

// Below the folders, sorted by path. A folder may be a case itself.
std::vector<Case> find_cases(const std::vector<std::string>& folders);

// Lines `NAME ENGINE REASON`: what is known not to pass, with ENGINE reference, kernels or any. `reason` is null where the case
// must pass.
class ExpectedFailures {
 public:
  void read(const std::string& file);
  const std::string* reason(const std::string& name, const std::string& engine) const;

 private:
  std::map<std::pair<std::string, std::string>, std::string> reasons_;
};

}  // namespace rlxc::suite
