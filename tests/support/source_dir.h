// Where the files of the tests and the scripts are.
#pragma once
#include <string>

namespace rlxc::test {

std::string source_dir();  // The top folder of the sources.

}  // namespace rlxc::test
