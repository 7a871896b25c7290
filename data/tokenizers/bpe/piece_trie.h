#pragma once
#include <cstdint>
#include <string_view>
#include <vector>

#include "data/tokenizers/bpe/pair_table.h"

namespace mxtape {

/// Texts and their ids, byte by byte. Node 0 is the root.
class PieceTrie {
 public:
  void insert(std::string_view text, std::int32_t id) {
    std::int32_t node = 0;
    for (const char c : text) {
      const int byte = static_cast<unsigned char>(c);
      std::int32_t next = child(node, byte);
      if (next < 0) {
        next = std::int32_t(ids_.size());
        edges_.insert(node, byte, next);
        ids_.push_back(-1);
      }
      node = next;
    }
    ids_[std::size_t(node)] = id;
  }
  bool empty() const { return ids_.size() == 1; }
  /// -1 if there is none.
  std::int32_t child(std::int32_t node, int byte) const {
    const std::int32_t* const next = edges_.find(node, byte);
    return next ? *next : -1;
  }
  /// Of the text that ends at the node, or -1.
  std::int32_t id(std::int32_t node) const { return ids_[std::size_t(node)]; }

  /// The length of the longest text that `text` begins with, or 0; its id where `found` is given.
  std::size_t longest(std::string_view text, std::int32_t* found = nullptr) const {
    if (empty()) return 0;
    std::size_t length = 0;
    std::int32_t node = 0;
    for (std::size_t i = 0; i < text.size(); ++i) {
      node = child(node, static_cast<unsigned char>(text[i]));
      if (node < 0) break;
      if (id(node) < 0) continue;
      length = i + 1;
      if (found) *found = id(node);
    }
    return length;
  }

 private:
  PairTable<std::int32_t> edges_;
  std::vector<std::int32_t> ids_{-1};
};

}  // namespace mxtape
