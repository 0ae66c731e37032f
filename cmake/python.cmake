# The Python module rlxc in build/python, on request: scripts/build rlxc_python. It links the libraries of the rooms, so that nothing is
# compiled twice. RLXC_PYTHON names the interpreter that it is for, and pybind11 comes from its packages or from the system.
set(RLXC_PYTHON "" CACHE STRING "Python for which rlxc_python is built; empty: python3 of the system")
set(python ${RLXC_PYTHON})
if(NOT python)
  find_program(RLXC_SYSTEM_PYTHON python3 PATHS /usr/bin NO_DEFAULT_PATH)
  find_program(RLXC_SYSTEM_PYTHON python3)
  set(python ${RLXC_SYSTEM_PYTHON})
endif()
set(facts "import sysconfig
try:
    import pybind11
    found = pybind11.get_include()
except ImportError:
    found = '/usr/include'
print(sysconfig.get_path('include'), sysconfig.get_config_var('EXT_SUFFIX'), found, sep=';')")
if(python)
  execute_process(COMMAND ${python} -c "${facts}" OUTPUT_VARIABLE facts OUTPUT_STRIP_TRAILING_WHITESPACE ERROR_QUIET RESULT_VARIABLE failed)
endif()
if(NOT python OR failed)
  set(facts "none;none;none")
endif()
list(GET facts 0 python_include)
list(GET facts 1 python_suffix)
list(GET facts 2 pybind11_include)
if(EXISTS ${python_include}/Python.h AND EXISTS ${pybind11_include}/pybind11/pybind11.h AND NOT RLXC_STATIC)
  file(GLOB python_sources CONFIGURE_DEPENDS apps/python/*.cpp)
  add_library(rlxc_native MODULE EXCLUDE_FROM_ALL ${python_sources})
  target_include_directories(rlxc_native SYSTEM PRIVATE ${python_include} ${pybind11_include})
  target_include_directories(rlxc_native PRIVATE apps/python)
  target_link_libraries(rlxc_native PRIVATE rlxc_commands)
  set_target_properties(rlxc_native PROPERTIES PREFIX "" OUTPUT_NAME _native SUFFIX ${python_suffix} CXX_VISIBILITY_PRESET hidden
                        LIBRARY_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/python/rlxc)
  # Other modules of the process have libraries of their own: ours stay among themselves.
  target_link_options(rlxc_native PRIVATE -Wl,--exclude-libs,ALL -s)
  add_custom_target(rlxc_python
    COMMAND ${CMAKE_COMMAND} -E copy_directory ${CMAKE_SOURCE_DIR}/python/rlxc ${CMAKE_BINARY_DIR}/python/rlxc
    COMMAND ${CMAKE_COMMAND} -E make_directory ${CMAKE_BINARY_DIR}/python/rlxc/bin
    COMMAND ${CMAKE_COMMAND} -E create_symlink $<TARGET_FILE:rlxc> ${CMAKE_BINARY_DIR}/python/rlxc/bin/rlxc
    DEPENDS rlxc_native rlxc
    VERBATIM)
else()
  add_custom_target(rlxc_python
    COMMAND ${CMAKE_COMMAND} -E echo "rlxc_python needs the headers of Python and of pybind11: python3-dev, pybind11-dev"
    COMMAND ${CMAKE_COMMAND} -E false
    VERBATIM)
endif()
