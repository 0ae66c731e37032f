# Writes OUTPUT, a C++ file with the commit of SOURCE, the kind of build and what it can do, if it has changed: `rlxc --version`.
# IMAGES: the formats that it decodes. STATIC: whether it opens no libraries.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
if(STATIC)
  set(features "features: static, images ${IMAGES}")
  string(APPEND features "\\nwithout: bench, profile, tune, train; run takes --engine reference or interpreter")
else()
  set(features "features: dynamic, images ${IMAGES}, kernels run in the process")
endif()
set(text "#include \"commands/commands.h\"\n\nnamespace rlxc {\n\nstd::string build_description() {\n  return \"commit ${commit}, ${KIND} build\"\n#ifdef __clang__\n         \", clang \" __clang_version__;\n#else\n         \", gcc \" __VERSION__;\n#endif\n}\n\nstd::string build_features() { return \"${features}\"; }\n\n}  // namespace rlxc\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
