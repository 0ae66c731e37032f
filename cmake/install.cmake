# Installation: the program with its pages and completions, and the libraries for find_package(rlxc) (docs/api.md). CPack makes a
# Debian package and a tarball of both.
include(GNUInstallDirs)
include(CMakePackageConfigHelpers)

install(TARGETS rlxc RUNTIME DESTINATION ${CMAKE_INSTALL_BINDIR} COMPONENT tool)
install(FILES LICENSE README.md CHANGELOG.md DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)
install(DIRECTORY docs/ DESTINATION ${CMAKE_INSTALL_DOCDIR}/docs COMPONENT tool)
install(DIRECTORY examples DESTINATION ${CMAKE_INSTALL_DOCDIR} COMPONENT tool)
# Pages and completions come from the program.
add_custom_command(
  OUTPUT ${CMAKE_BINARY_DIR}/share/stamp
  COMMAND ${CMAKE_COMMAND} -DRLXC=$<TARGET_FILE:rlxc> -DOUTPUT=${CMAKE_BINARY_DIR}/share -P ${CMAKE_SOURCE_DIR}/cmake/share.cmake
  DEPENDS rlxc ${CMAKE_SOURCE_DIR}/cmake/share.cmake
  VERBATIM)
add_custom_target(share DEPENDS ${CMAKE_BINARY_DIR}/share/stamp)
install(CODE "execute_process(COMMAND \"${CMAKE_COMMAND}\" --build \"${CMAKE_BINARY_DIR}\" --target share COMMAND_ERROR_IS_FATAL ANY)"
        COMPONENT tool)
install(DIRECTORY ${CMAKE_BINARY_DIR}/share/man1 DESTINATION ${CMAKE_INSTALL_MANDIR} COMPONENT tool)
install(FILES ${CMAKE_BINARY_DIR}/share/rlxc DESTINATION ${CMAKE_INSTALL_DATADIR}/bash-completion/completions COMPONENT tool)
install(FILES ${CMAKE_BINARY_DIR}/share/_rlxc DESTINATION ${CMAKE_INSTALL_DATADIR}/zsh/vendor-completions COMPONENT tool)
install(FILES ${CMAKE_BINARY_DIR}/share/rlxc.fish DESTINATION ${CMAKE_INSTALL_DATADIR}/fish/vendor_completions.d COMPONENT tool)

if(NOT RLXC_STATIC)
  get_property(rooms GLOBAL PROPERTY RLXC_ROOMS)
  install(TARGETS ${rooms} EXPORT rlxcTargets ARCHIVE DESTINATION ${CMAKE_INSTALL_LIBDIR}/rlxc COMPONENT development)
  install(DIRECTORY lib/ DESTINATION include/rlxc COMPONENT development FILES_MATCHING PATTERN "*.h" PATTERN "*.def")
  install(EXPORT rlxcTargets NAMESPACE rlxc:: DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rlxc COMPONENT development)
  configure_package_config_file(cmake/rlxcConfig.cmake.in ${CMAKE_BINARY_DIR}/rlxcConfig.cmake
                                INSTALL_DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rlxc)
  write_basic_package_version_file(${CMAKE_BINARY_DIR}/rlxcConfigVersion.cmake COMPATIBILITY SameMinorVersion)
  install(FILES ${CMAKE_BINARY_DIR}/rlxcConfig.cmake ${CMAKE_BINARY_DIR}/rlxcConfigVersion.cmake
          DESTINATION ${CMAKE_INSTALL_LIBDIR}/cmake/rlxc COMPONENT development)
endif()

set(CPACK_PACKAGE_NAME rlxc)
set(CPACK_PACKAGE_VENDOR "rlxc")
set(CPACK_PACKAGE_CONTACT "rlxc <rlxc@localhost>")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "compiler for machine-learning models")
set(CPACK_RESOURCE_FILE_LICENSE ${CMAKE_SOURCE_DIR}/LICENSE)
set(CPACK_STRIP_FILES ON)
set(CPACK_COMPONENTS_ALL tool development)
set(CPACK_COMPONENTS_GROUPING ALL_COMPONENTS_IN_ONE)
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_GENERATOR DEB TGZ)
if(RLXC_STATIC)
  set(CPACK_GENERATOR TGZ)
  set(CPACK_COMPONENTS_ALL tool)
  set(CPACK_PACKAGING_INSTALL_PREFIX /)
  set(CPACK_COMPONENT_INCLUDE_TOPLEVEL_DIRECTORY ON)
  set(CPACK_SYSTEM_NAME "${CMAKE_SYSTEM_NAME}-${CMAKE_SYSTEM_PROCESSOR}-static")
endif()
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_SECTION devel)
set(CPACK_DEBIAN_PACKAGE_RECOMMENDS gcc make ${IMAGE_FORMATS_PACKAGES})
list(JOIN CPACK_DEBIAN_PACKAGE_RECOMMENDS ", " CPACK_DEBIAN_PACKAGE_RECOMMENDS)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_ARCHIVE_COMPONENT_INSTALL ON)
set(CPACK_DEB_COMPONENT_INSTALL ON)
include(CPack)
