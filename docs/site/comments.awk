# What Doxygen reads of a header. Lines of a comment that are indented by three, which are formulas and tables here, keep their
# form. A specialisation of a class elsewhere would be a warning.
{
  indented = $0 ~ (inside ? "^ *///   " : "^ *///   [^ *]")
  if (indented && !inside) print "/// @verbatim"
  if (!indented && inside) print "/// @endverbatim"
  inside = indented
  sub(/struct fmt::formatter<T>/, "struct formatter<T>")
  print
}
