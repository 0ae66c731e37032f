# Toolchain for Linux on aarch64 by Debian's cross compiler. RLXC_SYSROOT holds the unpacked arm64 packages of the libraries that
# the program links: scripts/release fetches them.
set(CMAKE_SYSTEM_NAME Linux)
set(CMAKE_SYSTEM_PROCESSOR aarch64)
set(CMAKE_CXX_COMPILER aarch64-linux-gnu-g++)
set(CMAKE_LIBRARY_ARCHITECTURE aarch64-linux-gnu)
set(RLXC_SYSROOT "" CACHE PATH "folder of unpacked arm64 packages")
list(APPEND CMAKE_TRY_COMPILE_PLATFORM_VARIABLES RLXC_SYSROOT)
set(CMAKE_FIND_ROOT_PATH ${RLXC_SYSROOT})
set(CMAKE_FIND_ROOT_PATH_MODE_PROGRAM NEVER)
set(CMAKE_FIND_ROOT_PATH_MODE_LIBRARY ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_INCLUDE ONLY)
set(CMAKE_FIND_ROOT_PATH_MODE_PACKAGE ONLY)
# Headers that are found without a target, spdlog's for example.
include_directories(SYSTEM ${RLXC_SYSROOT}/usr/include ${RLXC_SYSROOT}/usr/include/aarch64-linux-gnu)
