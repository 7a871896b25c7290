# Writes a C++ file that holds every shipped recipe as text (recipes/shipped.h).
# Run as: cmake -DFOLDER=<recipes> -DFILES=<a.toml|precision/b.toml> -DOUTPUT=<file.cpp> -P cmake/embed_recipes.cmake
string(REPLACE "|" ";" names "${FILES}")
list(TRANSFORM names REPLACE "\\.toml$" "")
list(SORT names)
set(entries "")
foreach(name IN LISTS names)
  file(READ "${FOLDER}/${name}.toml" text)
  if(text MATCHES "\\)toml\"")
    message(FATAL_ERROR "${name}.toml: the characters )toml\" would end the string that holds the recipe")
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
