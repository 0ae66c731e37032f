// rlxc cache: lists the finished compiles of a --cache folder, and removes those that were not used for longest.
#include <ctime>
#include <filesystem>
#include <iostream>

#include "commands/commands.h"
#include "driver/compile_cache.h"
#include "report/table.h"
#include "support/foreign_text.h"
#include "support/text.h"

namespace rlxc {
namespace {

std::string moment(time_t t) {
  struct tm parts {};
  char text[32];
  return localtime_r(&t, &parts) && strftime(text, sizeof text, "%Y-%m-%d %H:%M", &parts) ? text : "";
}

}  // namespace

ExitCode cache_command(const std::string& folder, std::optional<uint64_t> limit, Terminal t) {
  Diagnostics d;
  std::error_code error;
  if (!std::filesystem::is_directory(folder, error)) {
    d.error(Code::UnreadableFile, "it is no folder", quote(folder), "give the folder of --cache");
    return print_diagnostics(d, t);
  }
  if (limit) {
    if (!set_cache_limit(folder, *limit, d)) return print_diagnostics(d, t);
    const size_t removed = prune_cache(folder);
    std::cout << removed << (removed == 1 ? " entry" : " entries") << " removed\n";
  }
  std::vector<CacheEntry> entries = cache_entries(folder);
  report::Table table({"last used", "bytes", "target", "model", "key"});
  uint64_t total = 0;
  for (CacheEntry& e : entries) {
    describe(folder, &e);
    total += e.bytes;
    table.add({moment(e.used), std::to_string(e.bytes), ForeignText(e.target).line(),
               e.damaged ? "(damaged)" : ForeignText(e.model).line(), e.key.substr(0, 12)});
  }
  std::string text;
  if (!entries.empty()) table.print(&text);
  std::cout << text << entries.size() << (entries.size() == 1 ? " entry, " : " entries, ") << total << " of "
            << cache_limit(folder) << " bytes\n";
  return ExitCode::Ok;
}

}  // namespace rlxc
