// A folder of artefacts replaced as a unit: written to a staging folder and exchanged atomically, so that readers and
// interruptions see the old or the new artefacts, never a mix.
#pragma once
#include <memory>
#include <optional>
#include <set>
#include <string>

#include "support/diagnostics.h"
#include "support/temporary_folder.h"

namespace rlxc {

// Artefacts are the files listed in the folder's manifest.json ("files": [{"path", "bytes"}]) and the manifest. A commit removes
// artefacts of the old manifest that are not written again; other files stay, and so do packages of other targets: artefacts in
// kernels/NAME, where NAME is not the "target" of the new manifest. Folders in the folder may have manifests of their own.
// The folder is exchanged if it is new, or has a manifest and does not contain the working directory. Otherwise, or without
// atomic exchange, files are renamed one by one; the old manifest is removed first and the new one added last.
class OutputFolder {
 public:
  // Error: Code::NotWritable. Creates missing parents.
  static std::optional<OutputFolder> create(const std::string& path, Diagnostics&);

  const std::string& staging() const { return staging_->path(); }  // folder to write to
  const std::string& path() const { return path_; }

  // Checks the files against the manifests and moves them into place. Concurrent commits to one folder are serialised.
  // Error: Code::NotWritable, with the old artefacts unchanged.
  bool commit(Diagnostics&);

  // After a commit: folders of packages that were kept, as "kernels/cpu".
  const std::set<std::string>& kept() const { return kept_; }

 private:
  OutputFolder() = default;
  std::string path_;
  std::unique_ptr<TemporaryFolder> staging_;
  std::set<std::string> kept_;
};

// Whether a path of a manifest is relative and inside of the folder. Others, from an edited manifest, are never used.
bool is_inside(const std::string& path);

}  // namespace rlxc
