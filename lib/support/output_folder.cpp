#include "support/output_folder.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>

#include "support/json_reader.h"
#include "support/text.h"

namespace rlxc {
namespace {

namespace fs = std::filesystem;

constexpr const char* kManifest = "manifest.json";
constexpr size_t kMostForeign = 10000;  // limit on foreign files carried over in an exchange

struct ManifestEntry {
  std::string path;
  uint64_t bytes = 0;
};

struct Manifest {
  std::string target;
  std::vector<ManifestEntry> files;
};

// Nullopt if there is no readable manifest.
std::optional<Manifest> read_manifest(const fs::path& folder) {
  std::ifstream in(folder / kManifest, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(in), {}};
  JsonReader r(text);
  bool found = false;
  Manifest manifest;
  if (!r.begin_object()) return std::nullopt;
  for (std::string_view key; r.next_key(&key);) {
    if (key != "files") {
      key == "target" ? r.string(&manifest.target) : r.skip();
      continue;
    }
    found = r.begin_array();
    while (r.next_item()) {
      ManifestEntry& e = manifest.files.emplace_back();
      r.begin_object();
      for (std::string_view field; r.next_key(&field);) {
        if (field == "path") r.string(&e.path);
        else if (field == "bytes") r.unsigned_integer(&e.bytes);
        else r.skip();
      }
    }
  }
  return r.ok() && found ? std::optional(std::move(manifest)) : std::nullopt;
}

bool fail(Diagnostics& d, const std::string& path, const std::string& reason) {
  d.error(Code::NotWritable, "cannot write: " + reason, "\"" + path + "\"");
  return false;
}

// Hard-links the files of `from` that are neither in `replaced` nor in `to` into `to`. Returns false if a file cannot be linked
// or there are too many. O(files).
bool carry_over(const fs::path& from, const fs::path& to, const std::set<std::string>& replaced) {
  std::error_code error;
  size_t count = 0;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().lexically_relative(from), target = to / name;
    const fs::file_status status = it->symlink_status(error);
    if (error || ++count > kMostForeign) return false;
    if (fs::is_directory(status)) {
      fs::create_directory(target, it->path(), error);
      continue;
    }
    if (replaced.contains(name.generic_string()) || fs::symlink_status(target, error).type() != fs::file_type::not_found)
      continue;
    error.clear();
    if (fs::is_symlink(status)) fs::copy_symlink(it->path(), target, error);
    else if (fs::is_regular_file(status)) fs::create_hard_link(it->path(), target, error);
    else return false;
  }
  return !error;
}

// Removes folders that are empty without the replaced files.
void remove_empty_folders(const fs::path& folder, const std::set<std::string>& replaced) {
  std::set<fs::path> parents;
  for (const std::string& file : replaced)
    for (fs::path p = fs::path(file).parent_path(); !p.empty() && p.is_relative() && p != ".."; p = p.parent_path())
      parents.insert(p);
  std::error_code ignored;
  for (auto it = parents.rbegin(); it != parents.rend(); ++it) ::rmdir((folder / *it).c_str());
}

bool contains_working_directory(const fs::path& folder) {
  std::error_code error;
  const fs::path current = fs::current_path(error);
  const auto [end, ignored] = std::mismatch(folder.begin(), folder.end(), current.begin(), current.end());
  return error || end == folder.end();
}

// Atomic. Returns false if the file system does not support it.
bool exchange(const fs::path& a, const fs::path& b) {
#ifdef RENAME_EXCHANGE
  return ::renameat2(AT_FDCWD, a.c_str(), AT_FDCWD, b.c_str(), RENAME_EXCHANGE) == 0;
#else
  return false;
#endif
}

bool move_files(const fs::path& from, const fs::path& to, const std::set<std::string>& replaced, std::string* reason) {
  std::error_code error;
  std::vector<fs::path> files;
  for (fs::recursive_directory_iterator it(from, error), end; !error && it != end; it.increment(error)) {
    const fs::path name = it->path().lexically_relative(from);
    if (it->is_directory(error)) fs::create_directories(to / name, error);
    else if (name != kManifest) files.push_back(name);
    if (error) break;
  }
  if (!error) ::unlink((to / kManifest).c_str());
  for (const fs::path& name : files)
    if (!error) fs::rename(from / name, to / name, error);
  if (!error && fs::exists(from / kManifest, error)) fs::rename(from / kManifest, to / kManifest, error);
  if (error) {
    *reason = error.message();
    return false;
  }
  const std::set<fs::path> written(files.begin(), files.end());
  for (const std::string& name : replaced)
    if (name != kManifest && !written.contains(fs::path(name))) ::unlink((to / name).c_str());
  remove_empty_folders(to, replaced);
  return true;
}

// A folder with a manifest: the whole, or a folder in it.
struct Unit {
  std::string name;                // "" or "cpu/"
  std::set<std::string> replaced;  // artefacts of the old manifest, and the manifest
  bool had_manifest = false;
};

// The folders that `from` has a manifest for, or else `from` as a whole.
std::vector<Unit> units_of(const fs::path& from) {
  std::vector<Unit> units;
  std::error_code error;
  if (fs::exists(from / kManifest, error)) units.emplace_back();
  for (fs::directory_iterator it(from, error), end; !error && it != end; it.increment(error))
    if (std::error_code none; fs::exists(it->path() / kManifest, none))
      units.push_back({it->path().filename().string() + "/", {}, false});
  if (units.empty()) units.emplace_back();
  std::ranges::sort(units, {}, &Unit::name);
  return units;
}

// The folder of a package for another target, as "kernels/cpu"; else empty.
std::string other_package(const std::string& path, const std::string& target) {
  constexpr std::string_view kPackages = "kernels/";
  const size_t end = path.find('/', kPackages.size());
  if (target.empty() || !path.starts_with(kPackages) || end == path.npos) return {};
  return path.compare(kPackages.size(), end - kPackages.size(), target) == 0 ? std::string() : path.substr(0, end);
}

// Moves a folder into place.
bool place(const fs::path& from, const fs::path& to, const std::set<std::string>& replaced, bool had_manifest,
           std::string* reason) {
  std::error_code error;
  if (!fs::exists(to, error)) {
    if (::rename(from.c_str(), to.c_str()) == 0) return true;
    *reason = system_error_text(errno);
    return false;
  }
  const bool as_unit = (had_manifest || fs::is_empty(to, error)) && !contains_working_directory(to);
  if (as_unit && carry_over(to, from, replaced)) {
    remove_empty_folders(from, replaced);
    if (exchange(from, to)) return true;  // the staging folder, removed later, has the old artefacts now
  }
  return move_files(from, to, replaced, reason);
}

// The umask of the process, which can only be read by setting it.
mode_t file_mode_mask() {
  static const mode_t mask = [] {
    const mode_t old = ::umask(0);
    ::umask(old);
    return old;
  }();
  return mask;
}

}  // namespace

std::optional<OutputFolder> OutputFolder::create(const std::string& path, Diagnostics& d) {
  OutputFolder out;
  std::error_code error;
  fs::path full = fs::weakly_canonical(fs::absolute(path, error), error);
  if (!full.has_filename()) full = full.parent_path();
  if (!error && fs::exists(full, error) && !fs::is_directory(full, error)) {
    fail(d, path, "it is not a folder");
    return std::nullopt;
  }
  if (!error) fs::create_directories(full.parent_path(), error);
  if (error) {
    fail(d, path, error.message());
    return std::nullopt;
  }
  out.path_ = full.string();
  // The root folder has no parent for the staging folder.
  const fs::path parent = full.has_relative_path() ? full.parent_path() : full;
  out.staging_ = std::make_unique<TemporaryFolder>(parent.string(), "." + full.filename().string() + ".rlxc-");
  if (out.staging().empty()) {
    fail(d, path, system_error_text(errno));
    return std::nullopt;
  }
  struct stat info;
  const bool is_new = ::stat(out.path_.c_str(), &info) != 0;
  ::chmod(out.staging().c_str(), is_new ? 0777 & ~file_mode_mask() : info.st_mode & 07777);
  return out;
}

bool is_inside(const std::string& name) {
  const fs::path p(name);
  if (name.empty() || p.is_absolute()) return false;
  for (const fs::path& part : p)
    if (part == "..") return false;
  return true;
}

bool OutputFolder::commit(Diagnostics& d) {
  const fs::path from = staging(), to = path_;
  std::vector<Unit> units = units_of(from);
  // Serialises commits by a lock on the parent folder, which ends with the process.
  const int lock = ::open(to.parent_path().c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (lock >= 0) ::flock(lock, LOCK_EX);
  const SignalDelay delay;
  std::string reason;
  bool had_manifest = false, done = true;
  std::set<std::string> replaced;
  for (Unit& u : units) {
    const auto written = read_manifest(from / u.name);
    if (!written && fs::exists(from / u.name / kManifest)) reason = "the manifest cannot be read back";
    for (const ManifestEntry& e : written ? written->files : std::vector<ManifestEntry>()) {
      std::error_code error;
      if (fs::file_size(from / u.name / e.path, error) != e.bytes || error) reason = e.path + " is not as it was written";
    }
    const auto older = read_manifest(to / u.name);
    had_manifest |= u.had_manifest = older.has_value();
    u.replaced.insert(kManifest);
    for (const ManifestEntry& e : older ? older->files : std::vector<ManifestEntry>()) {
      const std::string other = other_package(e.path, written ? written->target : "");
      if (!other.empty()) kept_.insert(u.name + other);
      else if (is_inside(e.path)) u.replaced.insert(e.path);
    }
    for (const std::string& path : u.replaced) replaced.insert(u.name + path);
  }
  done = reason.empty();
  std::error_code error;
  const bool whole = units[0].name.empty() || !fs::exists(to, error) || had_manifest || fs::is_empty(to, error);
  if (done && whole) {
    done = place(from, to, replaced, had_manifest, &reason);
    if (!fs::exists(from, error)) staging_->release();
  }
  for (const Unit& u : units)  // the folder has files of others: its folders are replaced one by one
    if (done && !whole)
      done =
          place(from / fs::path(u.name).parent_path(), to / fs::path(u.name).parent_path(), u.replaced, u.had_manifest, &reason);
  if (lock >= 0) ::close(lock);
  return done || fail(d, path_, reason);
}

}  // namespace rlxc
