// Finished compiles by the contents of what they depend on. An entry DIR/KEY is the output folder of a compile; the key is a
// SHA-256 of the files read, the options that affect the output, the target and the version. Many processes may share a folder:
// entries appear whole or not at all (support/output_folder.h).
#pragma once
#include <string>
#include <vector>

#include "driver/load.h"

namespace rlxc {

// Paths of all files that a compile reads: the model, its weights files, and the files that options name, in this order.
std::vector<std::string> files_read(const CompileOptions&, const Module&);

// "OUTPUT: FILE FILE ..." in the syntax of Make, which ninja reads too. Error: Code::NotWritable.
bool write_depfile(const std::string& path, const std::vector<std::string>& outputs, const std::vector<std::string>& files,
                   Diagnostics&);

class CompileCache {
 public:
  // Hashes the contents of all files. Error: Code::UnreadableFile. O(bytes).
  static std::optional<CompileCache> open(const CompileOptions&, const Module&, const std::string& target, Diagnostics&);

  // Copies the entry to `output`. False, with the folder unchanged, if there is none or a file of it is damaged.
  bool fetch(const std::string& output) const;
  // Copies the folder to the entry. A failure is a warning (Code::NotWritable): the compile itself is done.
  void store(const std::string& output, Diagnostics&) const;

 private:
  explicit CompileCache(std::string entry) : entry_(std::move(entry)) {}
  std::string entry_;
};

}  // namespace rlxc
