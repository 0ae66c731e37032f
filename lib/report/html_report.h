// report.html: one page about a compile, or about two side by side. It needs no other file and no network.
#pragma once
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "analysis/cost.h"

namespace rlxc::report {

// What the page shows of a compile: JSON artefacts by file name (lir.json and plan.json are needed, others may be missing), and
// what each pass changed, as unified diffs in order.
struct PageCompile {
  std::string title;
  std::vector<std::pair<std::string, std::string>> artefacts, pass_diffs;
};

// Predicted times are computed for these machines in the browser.
using PageMachines = std::vector<std::pair<std::string_view, Machine>>;

// Diffs beyond 1 MiB in total are left out, the longest first. O(bytes).
std::string html_report(const std::vector<PageCompile>&, const PageMachines&, std::string_view version);

}  // namespace rlxc::report
