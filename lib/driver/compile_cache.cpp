#include "driver/compile_cache.h"

#include <fcntl.h>
#include <sys/stat.h>

#include <algorithm>
#include <filesystem>
#include <set>
#include <tuple>

#include "options/configuration.h"
#include "support/hash.h"
#include "support/json_reader.h"
#include "support/mapped_file.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/parse_number.h"
#include "support/schemas.h"
#include "support/temporary_folder.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

std::string make_word(const std::string& path) {
  std::string s;
  for (char c : path) {
    if (c == ' ' || c == '#' || c == '\\' || c == ':') s += '\\';
    if (c == '$') s += '$';
    s += c;
  }
  return s;
}

void add_field(Sha256* h, std::string_view s) {
  const uint64_t size = s.size();
  h->update(std::as_bytes(std::span(&size, 1)));
  h->update(bytes_of(s));
}

struct StoredFile {
  std::string path, sha256;
  uint64_t bytes = 0;
};

// An output folder by its manifest.
struct Stored {
  std::string manifest, model, target;
  std::vector<StoredFile> files;  // without the manifest
};

constexpr uint64_t kLargestManifest = 16 << 20;
constexpr uint64_t kSmall = 4096;
constexpr size_t kMostFiles = 20'000, kHexDigits = 64;
constexpr std::string_view kLimit = "limit";              // file of a cache: bytes that entries may take
constexpr std::string_view kSeal = ".entry";              // beside the manifest: what was stored
constexpr std::string_view kSealed = "rlxc cache entry";  // its first word
constexpr std::string_view kTemporary = ".entry.rlxc-";   // prefix of folders to write to and to remove

bool is_hash(std::string_view s) {
  return s.size() == kHexDigits &&
         std::ranges::all_of(s, [](char c) { return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'f'); });
}

// The contents of a regular file of at most so many bytes.
std::optional<std::string> read_small(const std::string& path, uint64_t most) {
  std::error_code error;
  if (!fs::is_regular_file(fs::symlink_status(path, error)) || fs::file_size(path, error) > most || error) return std::nullopt;
  Diagnostics ignored;
  const auto file = open_model_file(path, ignored);
  if (!file || file->size() > most) return std::nullopt;
  return std::string(reinterpret_cast<const char*>(file->data()), file->size());
}

// Nullopt, with a reason, if there is no manifest that names files of the folder with their hashes.
std::optional<Stored> read_stored(const std::string& folder, std::string* why) {
  auto text = read_small(folder + "/manifest.json", kLargestManifest);
  *why = "it has no manifest";
  if (!text) return std::nullopt;
  Stored out{std::move(*text), {}, {}, {}};
  JsonReader r(out.manifest);
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key == "target") {
      r.string(&out.target);
    } else if (key == "input") {
      r.begin_object();
      for (std::string_view member; r.next_key(&member);) member == "name" ? r.string(&out.model) : r.skip();
    } else if (key == "files") {
      for (r.begin_array(); r.next_item() && out.files.size() <= kMostFiles;) {
        StoredFile& f = out.files.emplace_back();
        r.begin_object();
        for (std::string_view member; r.next_key(&member);)
          member == "path"     ? r.string(&f.path)
          : member == "sha256" ? r.string(&f.sha256)
          : member == "bytes"  ? r.unsigned_integer(&f.bytes)
                               : r.skip();
      }
    } else {
      r.skip();
    }
  }
  *why = "its manifest is malformed";
  if (out.files.size() > kMostFiles || !r.finish()) return std::nullopt;
  std::set<std::string_view> seen;
  for (const StoredFile& f : out.files)
    if (!is_inside(f.path) || !is_hash(f.sha256) || !seen.insert(f.path).second || f.path == kSeal) {
      *why = "its manifest lists " + quote(f.path);
      return std::nullopt;
    }
  return out;
}

// The text of the file beside a manifest: a hash of key and manifest, and the bytes of all files.
std::string seal_of(const Stored& s, const std::string& key) {
  Sha256 hash;
  for (const std::string_view part : {kSealed, std::string_view(key), std::string_view(s.manifest)}) add_field(&hash, part);
  uint64_t bytes = s.manifest.size();
  for (const StoredFile& f : s.files) bytes += f.bytes;
  return std::string(kSealed) + "\n" + hash.hex() + "\n" + std::to_string(bytes) + "\n";
}

// Copies the files to a folder, and compares them with their hashes.
bool copy_files(const Stored& s, const std::string& from, const std::string& to, std::string* why) {
  Diagnostics d;
  const auto write = [&](const std::string& path, std::span<const std::byte> bytes, const std::string& sha256) {
    std::error_code error;
    fs::create_directories(fs::path(to + "/" + path).parent_path(), error);
    auto copy = OutputFile::create_in_temporary(to + "/" + path, d, path);
    if (!copy || !copy->write(bytes) || !copy->commit()) return *why = d.text(), false;
    return sha256.empty() || copy->sha256_hex() == sha256 || (*why = quote(path) + " is not as it was stored", false);
  };
  for (const StoredFile& f : s.files) {
    std::error_code error;
    const std::string path = from + "/" + f.path;
    if (!fs::is_regular_file(fs::symlink_status(path, error)) || fs::file_size(path, error) != f.bytes)
      return *why = quote(f.path) + " is not as it was stored", false;
    const auto source = open_model_file(path, d);
    if (!source) return *why = d.text(), false;
    if (!write(f.path, source->bytes(), f.sha256)) return false;
  }
  return write("manifest.json", bytes_of(s.manifest), {});
}

// Takes an entry out of the cache at once, then removes it.
void remove_entry(const std::string& folder, const std::string& key) {
  const TemporaryFolder trash(folder, kTemporary);
  std::error_code error;
  if (!trash.path().empty()) fs::rename(folder + "/" + key, trash.path() + "/" + key, error);
}

}  // namespace

std::vector<std::string> files_read(const CompileOptions& o, const Module& m) {
  std::vector<std::string> files{o.input};
  const fs::path folder = fs::path(o.input).parent_path();
  for (size_t i = 0; i < m.data.size(); ++i)
    if (const std::string& name = m.data[DataId(i)].file; !name.empty()) files.push_back((folder / name).string());
  constexpr std::string_view kCustom = "custom:";
  for (const std::string& named :
       {o.config, o.op_file, o.rule_file, o.calibration_file, o.tuning_file, o.supported_ops, o.shard_rules,
        o.precision_name.starts_with(kCustom) ? o.precision_name.substr(kCustom.size()) : std::string()})
    if (!named.empty()) files.push_back(named);
  std::vector<std::string> unique;
  for (std::string& f : files)
    if (std::ranges::find(unique, f) == unique.end()) unique.push_back(std::move(f));
  return unique;
}

bool write_depfile(const std::string& path, const std::vector<std::string>& outputs, const std::vector<std::string>& files,
                   Diagnostics& d) {
  std::string rule;
  for (const std::string& out : outputs) rule += (rule.empty() ? "" : " ") + make_word(out);
  rule += ":";
  for (const std::string& f : files) rule += " \\\n  " + make_word(f);
  return write_file(path, rule + "\n", d);
}

std::optional<CompileCache> CompileCache::open(const CompileOptions& o, const Module& m, const std::string& target,
                                               Diagnostics& d) {
  Sha256 key;
  CommandLine line;
  static_cast<CompileOptions&>(line) = o;
  for (const std::string& part : {std::string("rlxc cache 2"), std::string(version()), target, manifest_options(line)})
    add_field(&key, part);
  for (const std::string& path : files_read(o, m)) {
    if (path == o.config) continue;  // the options have its contents
    const auto file = open_model_file(path, d);
    if (!file) return std::nullopt;
    Sha256 content;
    content.update(file->bytes());
    add_field(&key, fs::path(path).filename().string());
    add_field(&key, content.hex());
    file->release(0, file->size());
  }
  std::error_code error;
  fs::create_directories(o.cache, error);
  return CompileCache(o.cache, key.hex());
}

bool CompileCache::fetch(const std::string& output, const std::string& staging, Diagnostics& d) const {
  const std::string entry = folder_ + "/" + key_;
  std::error_code error;
  if (!fs::exists(entry, error)) return false;
  std::string why;
  const auto damaged = [&] {
    if (!fs::exists(entry + "/" + std::string(kSeal), error) && !fs::exists(entry, error)) return false;  // another removed it
    d.warning(Code::UnreadableFile, "an entry of the cache is not used and removed: " + why, quote(entry));
    remove_entry(folder_, key_);
    return false;
  };
  const auto stored = read_stored(entry, &why);
  if (!stored) return damaged();
  why = "it is not what was stored under this key";
  if (read_small(entry + "/" + std::string(kSeal), kSmall) != seal_of(*stored, key_)) return damaged();
  std::optional<OutputFolder> out;
  Diagnostics failed;
  if (staging.empty() && !(out = OutputFolder::create(output, failed))) return false;  // the compile will say so
  if (!copy_files(*stored, entry, out ? out->staging() : staging, &why)) {
    if (!out) remove_path(staging), fs::create_directory(staging, error);
    return damaged();
  }
  if (out && !out->commit(failed)) return false;
  utimensat(AT_FDCWD, entry.c_str(), nullptr, 0);  // used now
  return true;
}

void CompileCache::store(const std::string& output, Diagnostics& d) const {
  std::string why;
  const auto failed = [&] { d.warning(Code::NotWritable, "the compile is not kept in the cache: " + why, quote(folder_)); };
  const auto stored = read_stored(output, &why);
  if (!stored) return failed();
  const TemporaryFolder staging(folder_, kTemporary);
  const std::string made = staging.path() + "/" + key_;  // with the rights of the umask, which the temporary folder lacks
  std::error_code error;
  Diagnostics writing;
  why = "the folder cannot be written";
  if (staging.path().empty() || !fs::create_directory(made, error) || !copy_files(*stored, output, made, &why)) return failed();
  if (!write_file(made + "/" + std::string(kSeal), seal_of(*stored, key_), writing)) return why = writing.text(), failed();
  fs::rename(made, folder_ + "/" + key_, error);  // fails if another process was first
  prune_cache(folder_);
}

std::vector<CacheEntry> cache_entries(const std::string& folder) {
  std::vector<CacheEntry> out;
  std::error_code error;
  for (fs::directory_iterator it(folder, error), end; !error && it != end; it.increment(error)) {
    CacheEntry e{it->path().filename().string(), {}, {}, 0, 0, true};
    struct stat info;
    if (!is_hash(e.key) || lstat(it->path().c_str(), &info) != 0) continue;
    e.used = info.st_mtime;
    if (const auto seal = read_small(it->path().string() + "/" + std::string(kSeal), kSmall)) {
      const auto lines = split(*seal, '\n');
      e.damaged = lines.size() != 4 || lines[0] != kSealed || !parse_number(lines[2], &e.bytes);
    }
    out.push_back(std::move(e));
  }
  std::ranges::sort(out, [](const CacheEntry& a, const CacheEntry& b) {
    return std::tuple(!a.damaged, a.used, a.key) < std::tuple(!b.damaged, b.used, b.key);
  });
  return out;
}

size_t prune_cache(const std::string& folder) {
  const std::vector<CacheEntry> all = cache_entries(folder);
  const uint64_t most = cache_limit(folder);
  uint64_t total = 0;
  for (const CacheEntry& e : all) total += e.bytes;
  size_t count = 0;
  for (; count < all.size() && (all[count].damaged || total > most); ++count) {
    remove_entry(folder, all[count].key);
    total -= all[count].bytes;
  }
  return count;
}

uint64_t cache_limit(const std::string& folder) {
  constexpr uint64_t kDefault = uint64_t{5} << 30;
  const auto text = read_small(folder + "/" + std::string(kLimit), kSmall);
  uint64_t bytes = 0;
  return text && parse_number(trim(*text), &bytes) ? bytes : kDefault;
}

bool set_cache_limit(const std::string& folder, uint64_t bytes, Diagnostics& d) {
  return write_file(folder + "/" + std::string(kLimit), std::to_string(bytes) + "\n", d);
}

void describe(const std::string& folder, CacheEntry* e) {
  std::string why;
  if (const auto stored = read_stored(folder + "/" + e->key, &why)) e->model = stored->model, e->target = stored->target;
}

}  // namespace rlxc
