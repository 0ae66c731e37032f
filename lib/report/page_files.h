// The parts of the HTML report (lib/report/page), embedded at build time.
#pragma once
#include <span>
#include <string_view>

namespace rlxc::report {

struct PageFile {
  std::string_view name, text;
};

std::span<const PageFile> page_files();

}  // namespace rlxc::report
