// Finished compiles by the contents of what they depend on. An entry DIR/KEY is the output folder of a compile; the key is a
// SHA-256 of the files read, the options that affect the output, the target and the version. Many processes may share a folder:
// entries appear and disappear whole. An entry is used if it is the one that was stored: a hash of its key and its manifest,
// which has the hashes of all its files, is kept beside it.
#pragma once
#include <cstdint>
#include <ctime>
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

  // Copies the entry to `output`, or to `staging`, a folder that becomes a part of it later, unless that is empty. False, with
  // `output` unchanged, if there is none. A damaged entry is removed, with a warning.
  bool fetch(const std::string& output, const std::string& staging, Diagnostics&) const;
  // Copies the folder to the entry, and removes entries beyond the limit of the folder. A failure is a warning
  // (Code::NotWritable): the compile itself is done.
  void store(const std::string& output, Diagnostics&) const;

 private:
  CompileCache(std::string folder, std::string key) : folder_(std::move(folder)), key_(std::move(key)) {}
  std::string folder_, key_;
};

// The entries of a cache, the least recently used first.
struct CacheEntry {
  std::string key, model, target;  // model and target after describe()
  uint64_t bytes = 0;
  time_t used = 0;
  bool damaged = false;  // nothing says what was stored
};
std::vector<CacheEntry> cache_entries(const std::string& folder);
void describe(const std::string& folder, CacheEntry*);

// Removes damaged entries, then the least recently used until the others take no more than the limit of the folder. Returns how
// many.
size_t prune_cache(const std::string& folder);
// Bytes that entries may take: 5 GiB, unless the folder has another limit.
uint64_t cache_limit(const std::string& folder);
bool set_cache_limit(const std::string& folder, uint64_t bytes, Diagnostics&);

}  // namespace rlxc
