# Writes OUTPUT, a C++ file that holds every file of FILES (a list) as a string, by name.
set(text "#include \"backend/host_files.h\"\n\nnamespace rlxc {\nnamespace {\n\nconstexpr HostFile kFiles[] = {\n")
foreach(file IN LISTS FILES)
  get_filename_component(name ${file} NAME)
  file(READ ${file} content)
  string(APPEND text "    {\"${name}\", R\"HOST(${content})HOST\"},\n")
endforeach()
string(APPEND text "};\n\n}  // namespace\n\nstd::span<const HostFile> host_files() { return kFiles; }\n\n}  // namespace rlxc\n")
file(WRITE ${OUTPUT} "${text}")
