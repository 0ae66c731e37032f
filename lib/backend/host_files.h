// The model-independent files of device packages, embedded at build time from the host folders of lib/backend.
#pragma once
#include <span>
#include <string_view>

namespace rlxc {

struct HostFile {
  std::string_view name, text;
};

std::span<const HostFile> host_files();

}  // namespace rlxc
