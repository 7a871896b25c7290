#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// True if `name` is `glob`, in which '*' stands for any letters, dots included.
bool matches_glob(std::string_view glob, std::string_view name);

/// Those of `names` that `patterns` names, each once for every alternative that does. Alternatives are
/// separated by '|'. Besides globs there are blocks counted from the end ("blocks.-1.*") and Python's slices
/// of the blocks ("blocks[:2].*", "blocks[-8:].mlp.*", "blocks[2:-2].*"). `layers` is the number of blocks,
/// `where` the place for messages. Throws Error(usage) for an alternative that names nothing, and for a slice
/// that is not written so, is empty, or counts more blocks than there are.
std::vector<std::string> matching_layers(std::string_view patterns, const std::vector<std::string>& names,
                                         std::int64_t layers, std::string_view where);

}  // namespace mxtape
