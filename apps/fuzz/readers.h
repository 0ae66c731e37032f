// Files beside a model: arrays, packed files, and the JSON files that flags name.
#pragma once
#include <span>
#include <string>

#include "options/options.h"

namespace rlxc {

// Whether the file is of such a form, by its first bytes or, of JSON, by "format".
bool is_beside_model(std::span<const std::byte>);

// Reads the file `o.input` and, if `whole`, compiles an example with it. Returns what is wrong, or an empty string.
std::string check_beside_model(std::span<const std::byte>, CompileOptions o, bool whole);

}  // namespace rlxc
