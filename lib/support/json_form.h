// JSON files held against the schema of their format. A reader takes the members that it knows and skips the others, so a
// misspelt member of a file that a person wrote would have no effect, and a file of a later version would mean something else.
#pragma once
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>

namespace rlxc {

struct JsonFault {
  std::string message;
  size_t at = 0;  // byte offset
};

// The newest version of a format ("plan" for rlxc-plan). A minor version adds members, a major one changes or removes some.
constexpr std::string_view newest_version(std::string_view format) {
  if (format == "plan") return "3.0";      // 3.0: types are objects; 2.1: at_sizes
  if (format == "fusion") return "3.0";    // 3.0: formed and declined; 2.0: intermediate_values
  if (format == "lir") return "3.0";       // 3.0: attributes of steps; 2.x is read
  if (format == "graph") return "3.0";     // 3.0: attributes of steps; 2.0: results and types are objects; 1.x and 2.x are read
  if (format == "manifest") return "2.0";  // 2.0: options have their JSON types
  if (format == "launch" || format == "model") return "2.1";  // 2.1: whole; 2.0: generator
  return "1.0";
}

// A "format_version" that is malformed, or of a later major version than is known. Nullopt also for a document without
// "format": "rlxc-NAME".
std::optional<JsonFault> version_fault(std::string_view text);

// version_fault, or the first member that the schema of the document's format does not allow, lacks, or gives another type, word
// or range. A document of a later minor or older major version may have other ones, but for graphs and lir. Nullopt also for
// malformed documents, and for other formats than those given, if any are. O(bytes).
std::optional<JsonFault> form_fault(std::string_view text, std::initializer_list<std::string_view> formats = {});
// The same, without what is lacking and without values.
std::optional<JsonFault> name_fault(std::string_view text, std::initializer_list<std::string_view> formats = {});

}  // namespace rlxc
