// The parts of device packages that are the same for every model, compiled into the tool from the host folders of lib/backend.
#pragma once
#include <span>
#include <string_view>

namespace rlxc {

struct HostFile {
  std::string_view name, text;
};

std::span<const HostFile> host_files();

}  // namespace rlxc
