# Writes a C++ file that defines mxtape::<SYMBOL> (a std::string_view) as the text of a file.
# Run as: cmake -DFILE=<file> -DSYMBOL=<name> -DOUTPUT=<file.cpp> -P cmake/embed_text.cmake
file(READ "${FILE}" text)
if(text MATCHES "\\)text\"")
  message(FATAL_ERROR "${FILE}: the characters )text\" would end the string that holds it")
endif()
file(WRITE "${OUTPUT}" "#include <string_view>

namespace mxtape {
extern const std::string_view ${SYMBOL};
const std::string_view ${SYMBOL} = R\"text(${text})text\";
}  // namespace mxtape
")
