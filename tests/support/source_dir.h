// The location of test files and scripts.
#pragma once
#include <string>

namespace rlxc::test {

std::string source_dir();  // the top folder of the sources

}  // namespace rlxc::test
