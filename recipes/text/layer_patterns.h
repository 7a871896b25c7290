#pragma once
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// True if `name` is `glob`, in which '*' stands for any letters, dots included.
bool matches_glob(std::string_view glob, std::string_view name);

/// The names of a model's layers, which patterns name.
class LayerNames {
 public:
  /// `blocks`: how many the model has.
  LayerNames(std::vector<std::string> names, std::int64_t blocks);

  /// Those that `patterns` names, each once for every alternative that does. Alternatives are separated by
  /// '|'. Besides globs there are blocks counted from the end ("blocks.-1.*") and Python's slices of the
  /// blocks ("blocks[:2].*", "blocks[-8:].mlp.*", "blocks[2:-2].*"). `where` is the place for messages.
  /// Throws Error(usage) for an alternative that names nothing, and for a slice that is not written so, is
  /// empty, or counts more blocks than there are.
  std::vector<std::string> matching(std::string_view patterns, std::string_view where) const;

 private:
  struct Slice;
  struct Name {
    std::string text;
    std::string from_the_end;  ///< "blocks.-1.attn" for "blocks.11.attn" of 12; of other layers the name
    std::int64_t block = -1;
    std::string_view in_block() const;  ///< ".attn"
  };
  Slice slice_of(std::string_view pattern, std::string_view where) const;

  std::vector<Name> names_;
  std::int64_t blocks_;
};

}  // namespace mxtape
