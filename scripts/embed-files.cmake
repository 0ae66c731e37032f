# Writes OUTPUT, a C++ file that holds every file of FILES (a list) as strings, by name: the function FUNCTION of namespace SPACE,
# which HEADER declares with the struct ROW.
set(text "#include \"${HEADER}\"\n\nnamespace ${SPACE} {\nnamespace {\n\nconstexpr ${ROW} kFiles[] = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "    {\"${name}\", R\"HOST(${content})HOST\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const ${ROW}> ${FUNCTION}() { return kFiles; }\n\n}  // namespace ${SPACE}\n")
file(WRITE ${OUTPUT} "${text}")
