# Writes a C++ file that holds every shipped recipe as text (recipes/shipped.h).
# Run as: cmake -DFOLDER=<recipes> -DFILES=<a.toml|precision/b.toml> -DOUTPUT=<file.cpp> -P cmake/embed_recipes.cmake
string(REPLACE "|" ";" files "${FILES}")
list(SORT files)
set(entries "")
foreach(file IN LISTS files)
  string(REGEX REPLACE "\\.toml$" "" name "${file}")
  file(READ "${FOLDER}/${file}" text)
  if(text MATCHES "\\)toml\"")
    message(FATAL_ERROR "${file}: the characters )toml\" would end the string that holds the recipe")
  endif()
  string(APPEND entries "    {\"${name}\", R\"toml(${text})toml\"},\n")
endforeach()
file(WRITE "${OUTPUT}" "#include \"recipes/shipped.h\"

namespace mxtape {
namespace {
constexpr ShippedRecipe all[] = {
${entries}};
}
std::span<const ShippedRecipe> shipped_recipes() { return all; }
}  // namespace mxtape
")
