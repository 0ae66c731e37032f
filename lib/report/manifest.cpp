#include "report/manifest.h"

#include <algorithm>

namespace rlxc::report {

void write_manifest(const Manifest& manifest, JsonWriter& out, const ReportContext& context) {
  std::vector<const ManifestFile*> files;
  for (const ManifestFile& f : manifest.files) files.push_back(&f);
  std::sort(files.begin(), files.end(), [](const ManifestFile* a, const ManifestFile* b) { return a->path < b->path; });
  out.begin_object();
  write_header(out, "manifest", context, newest_version("manifest"));
  out.key("fingerprint").string(manifest.fingerprint);
  out.key("options").raw(manifest.options);
  out.key("files").begin_array();
  for (const ManifestFile* f : files) {
    out.begin_object(JsonLayout::Line).key("path").string(f->path).key("bytes").unsigned_integer(f->bytes);
    out.key("sha256").string(f->sha256).end_object();
  }
  out.end_array();
  out.end_object().finish();
}

}  // namespace rlxc::report
