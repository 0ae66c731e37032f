// `make PORTABLE=1` of a cpu package: each kernel compiled for several levels of x86-64 processors, under a name for each; the
// package calls them through pointers, which are set when the library is loaded.
#pragma once
#include <string>

#include "codegen/package.h"

namespace rlxc {

std::string portable_header(const codegen::Package&);  // levels.h: the names of the kernels of RLXC_LEVEL
// levels.c: the pointers, and the choice. `prototypes`: of the kernels, one a line.
std::string portable_source(const codegen::Package&, const std::string& prototypes);
// Parts of the Makefile: the object files of the sources (names without suffix), and the rules that build them.
std::string portable_objects(const std::vector<std::string>& parts);
std::string portable_rules(const std::string& package);

}  // namespace rlxc
