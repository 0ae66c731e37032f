# Writes OUTPUT, a C++ file with the commit of SOURCE and the kind of build, if it has changed: `rlxc --version`.
execute_process(COMMAND git -C ${SOURCE} describe --always --dirty --abbrev=12 OUTPUT_VARIABLE commit OUTPUT_STRIP_TRAILING_WHITESPACE
                ERROR_QUIET RESULT_VARIABLE failed)
if(failed OR commit STREQUAL "")
  set(commit "unknown")
endif()
set(text "#include \"commands/commands.h\"\n\nnamespace rlxc {\n\nstd::string build_description() {\n  return \"commit ${commit}, ${KIND} build\"\n#ifdef __clang__\n         \", clang \" __clang_version__;\n#else\n         \", gcc \" __VERSION__;\n#endif\n}\n\n}  // namespace rlxc\n")
file(CONFIGURE OUTPUT ${OUTPUT} CONTENT "${text}" @ONLY)
