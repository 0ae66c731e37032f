#include "driver/compile_cache.h"

#include <algorithm>
#include <filesystem>

#include "options/configuration.h"
#include "support/hash.h"
#include "support/json_reader.h"
#include "support/mapped_file.h"
#include "support/output_file.h"
#include "support/output_folder.h"
#include "support/schemas.h"

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
};

// The files of an output folder, without the manifest itself. Nullopt if there is no readable manifest.
std::optional<std::vector<StoredFile>> listed_files(const std::string& folder) {
  Diagnostics ignored;
  if (std::error_code e; !fs::exists(folder + "/manifest.json", e)) return std::nullopt;
  const auto manifest = open_model_file(folder + "/manifest.json", ignored);
  if (!manifest) return std::nullopt;
  JsonReader r({reinterpret_cast<const char*>(manifest->data()), static_cast<size_t>(manifest->size())});
  std::vector<StoredFile> files;
  r.begin_object();
  for (std::string_view key; r.next_key(&key);) {
    if (key != "files") {
      r.skip();
      continue;
    }
    for (r.begin_array(); r.next_item();) {
      StoredFile f;
      r.begin_object();
      for (std::string_view member; r.next_key(&member);)
        member == "path" ? r.string(&f.path) : member == "sha256" ? r.string(&f.sha256) : r.skip();
      files.push_back(std::move(f));
    }
  }
  r.finish();
  return r.ok() ? std::optional(std::move(files)) : std::nullopt;
}

// Copies an output folder. Returns false if a file is missing or not the one of the manifest.
bool copy_folder(const std::string& from, const std::string& to, Diagnostics& d) {
  auto files = listed_files(from);
  if (!files) return false;
  auto out = OutputFolder::create(to, d);
  if (!out) return false;
  files->push_back({"manifest.json", ""});
  for (const StoredFile& f : *files) {
    std::error_code error;
    fs::create_directories(fs::path(out->staging() + "/" + f.path).parent_path(), error);
    const auto source = open_model_file(from + "/" + f.path, d);
    auto copy = source ? OutputFile::create(out->staging() + "/" + f.path, d, to + "/" + f.path) : std::nullopt;
    if (!copy || !copy->write(source->bytes()) || (!f.sha256.empty() && copy->sha256_hex() != f.sha256) || !copy->commit())
      return false;
  }
  return out->commit(d);
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
  for (const std::string& part : {std::string("rlxc cache 1"), std::string(version()), target, manifest_options(line)})
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
  return CompileCache(o.cache + "/" + key.hex());
}

bool CompileCache::fetch(const std::string& output) const {
  Diagnostics ignored;
  return copy_folder(entry_, output, ignored);
}

void CompileCache::store(const std::string& output, Diagnostics& d) const {
  Diagnostics failed;
  if (copy_folder(output, entry_, failed)) return;
  d.warning(Code::NotWritable, "the compile is not kept in the cache: " + failed.text(), entry_);
}

}  // namespace rlxc
