#include "cases.h"

#include <algorithm>
#include <fstream>
#include <sstream>

#include "import/onnx/proto.h"
#include "support/mapped_file.h"

namespace rlxc::suite {
namespace {

namespace fs = std::filesystem;

std::string op_of(const fs::path& model) {
  Diagnostics ignored;
  const auto file = open_model_file(model.string(), ignored);
  onnx_import::ModelView view;
  if (!file || !onnx_import::read_model(file->bytes(), &view)) return "(unreadable)";
  std::string op;
  constexpr uint32_t kNodes = onnx_import::bytes_field(1);
  onnx_import::NodeView node;
  for (onnx_import::WireReader graph(view.graph); graph.next();) {
    if (graph.tag() != kNodes || !onnx_import::read_node(graph.bytes(), &node)) continue;
    if (!op.empty() && op != node.op_type) return "(several)";
    op = node.op_type;
  }
  return op.empty() ? "(none)" : op;
}

}  // namespace

std::vector<Case> find_cases(const std::vector<std::string>& folders) {
  std::vector<fs::path> found;
  for (const std::string& f : folders) {
    std::error_code error;
    for (const auto& e : fs::recursive_directory_iterator(f, error))
      if (e.path().filename() == "model.onnx") found.push_back(e.path());
  }
  for (fs::path& p : found) p = fs::absolute(p).lexically_normal().parent_path();
  std::sort(found.begin(), found.end());
  found.erase(std::unique(found.begin(), found.end()), found.end());
  std::vector<Case> cases;
  for (const fs::path& p : found)
    cases.push_back({p, p.filename().string(), p.parent_path().filename().string(), op_of(p / "model.onnx")});
  return cases;
}

void ExpectedFailures::read(const std::string& file) {
  std::ifstream in(file);
  for (std::string line; std::getline(in, line);) {
    if (line.empty() || line[0] == '#') continue;
    std::istringstream words(line);
    std::string name, engine, reason;
    words >> name >> engine >> std::ws;
    std::getline(words, reason);
    reasons_[{name, engine}] = reason;
  }
}

const std::string* ExpectedFailures::reason(const std::string& name, const std::string& engine) const {
  for (const std::string& e : {engine, std::string("any")})
    if (const auto it = reasons_.find({name, e}); it != reasons_.end()) return &it->second;
  return nullptr;
}

}  // namespace rlxc::suite
