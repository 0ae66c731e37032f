#include "driver/artefacts.h"

#include <filesystem>
#include <functional>

#include "driver/commands.h"
#include "driver/kernel_folder.h"
#include "report/fingerprint.h"
#include "report/lir_json.h"
#include "report/plan_json.h"
#include "support/output_file.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

struct Written {
  std::string path, sha256;
  uint64_t bytes = 0;
};

class ArtefactWriter {
 public:
  ArtefactWriter(const Options& o, std::string folder, Diagnostics& d) : options_(o), folder_(std::move(folder)), diagnostics_(d) {}

  bool wants(Emit e) const { return options_.emit.empty() || options_.emit.contains(e); }
  bool to_stdout() const { return folder_ == "-"; }

  void json(Emit e, const std::string& name, const std::function<void(JsonWriter&)>& body) {
    if (!wants(e)) return;
    file(name, [&](OutputFile& f) {
      JsonWriter w(f);
      body(w);
      w.flush();
    });
  }
  void text(Emit e, const std::string& name, const std::function<std::string()>& body) {
    if (wants(e)) file(name, [&](OutputFile& f) { f.write(body()); });
  }

  const std::vector<Written>& written() const { return written_; }
  const std::string& folder() const { return folder_; }

  void file(const std::string& name, const std::function<void(OutputFile&)>& body) {
    auto f = OutputFile::create(to_stdout() ? "-" : folder_ + "/" + name, diagnostics_);
    if (!f) return;
    body(*f);
    if (f->commit()) written_.push_back({name, f->sha256_hex(), f->size()});
  }

 private:
  const Options& options_;
  std::string folder_;
  Diagnostics& diagnostics_;
  std::vector<Written> written_;
};

bool make_folder(const std::string& folder, Diagnostics& d) {
  if (folder == "-") return true;
  std::error_code error;
  fs::create_directories(folder, error);
  if (error) d.error(Code::NotWritable, "cannot make the folder \"" + folder + "\": " + error.message());
  return !error;
}

}  // namespace

bool write_artefacts(const Compiled& c, const InputIdentity& input, const Options& o, const std::string& folder, Diagnostics& d) {
  if (!make_folder(folder, d)) return false;
  const report::ReportContext context{input.name, input.sha256, c.target, std::string(version())};
  ArtefactWriter w(o, folder, d);
  w.json(Emit::Lir, "lir.json", [&](JsonWriter& j) { report::write_lir(c.lir, j, context); });
  w.json(Emit::Plan, "plan.json", [&](JsonWriter& j) { report::write_plan(c.lir, j, context); });
  if (w.wants(Emit::Kernels) && !w.to_stdout() && has_kernel_folder(c.target)) {
    const std::string kernels = "kernels/" + c.target;
    if (!make_folder(folder + "/" + kernels, d)) return false;
    write_kernel_folder(c.lir, c.target, [&](const std::string& name, const auto& body) { w.file(kernels + "/" + name, body); }, d);
  }
  return d.ok();
}

}  // namespace rlxc
