// Help, manual pages and completion scripts, made from the tables of commands and options.
#pragma once
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "options/options.h"

namespace rlxc {

// The lines of `text` wrapped to `width` columns; lines after the first are indented by `indent`. O(text).
std::string wrapped(std::string_view text, size_t width, size_t indent);

std::string program_help(size_t width);
std::string command_help(const CommandInfo&, size_t width);
const CommandInfo* find_command(std::string_view name);  // null for an unknown name

// A page in troff's man macros: of the program if `command` is null.
std::string manual_page(const CommandInfo* command, std::string_view version);

// Words that complete a value, by its name in help: {"TARGET", {"cpu", ...}}. Options with choices need no entry.
using CompletionWords = std::map<std::string, std::vector<std::string>, std::less<>>;
// `shell`: bash, zsh or fish.
std::string completion_script(std::string_view shell, const CompletionWords&);

}  // namespace rlxc
