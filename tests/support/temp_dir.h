// A temporary folder for one test, removed at its end.
#pragma once
#include <string>

#include "runtime/process.h"

namespace rlxc::test {

struct TempDir : target::WorkFolder {
  std::string operator/(const std::string& name) const { return path() + "/" + name; }
};

}  // namespace rlxc::test
