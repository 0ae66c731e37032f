// Unpacked models, as mapped files.
#pragma once
#include <string_view>

#include "support/mapped_file.h"

namespace rlxc {

// Maps a copy of these bytes, under the path of the file that they came from.
std::optional<MappedFile> map_bytes(std::string_view bytes, const std::string& path, Diagnostics&);

}  // namespace rlxc
