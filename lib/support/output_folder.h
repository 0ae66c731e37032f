// A folder of artefacts that is replaced as a unit: written beside its final place and exchanged at once, so that a reader, or an
// interruption at any point, finds the old artefacts or the new ones, never both.
#pragma once
#include <memory>
#include <optional>
#include <string>

#include "support/diagnostics.h"
#include "support/temporary_folder.h"

namespace rlxc {

// Artefacts are the files that manifest.json of the folder lists ("files": [{"path", "bytes"}]), and that file itself. Files of
// an older manifest that are not written again go; all other files in the folder stay.
//
// The folder is exchanged where it is new, or has a manifest and is no parent of the working directory. Otherwise (a folder of
// other things, the working directory itself, file systems without an atomic exchange) files are renamed into it one by one,
// the old manifest first out, the new one last in.
class OutputFolder {
 public:
  // Errors: Code::NotWritable. Makes missing parents.
  static std::optional<OutputFolder> create(const std::string& path, Diagnostics&);

  const std::string& staging() const { return staging_->path(); }  // where to write
  const std::string& path() const { return path_; }

  // Checks the files against the manifest, if there is one, and puts them in place. Concurrent commits to one folder take turns.
  // Errors: Code::NotWritable; the old artefacts are then whole.
  bool commit(Diagnostics&);

 private:
  OutputFolder() = default;
  std::string path_;
  std::unique_ptr<TemporaryFolder> staging_;
};

}  // namespace rlxc
