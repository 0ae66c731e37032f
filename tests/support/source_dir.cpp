#include "support/source_dir.h"

namespace rlxc::test {

std::string source_dir() { return RLXC_SOURCE_DIR; }

}  // namespace rlxc::test
