#pragma once
#include <cstdint>
#include <span>
#include <string_view>
#include <unordered_map>

#include "data/tokenizers/text/scanners.h"

namespace mxtape {

/// How often each word occurs in the texts, which are UTF-8 and outlive the result. On all threads.
std::unordered_map<std::string_view, std::int64_t> count_words(std::span<const std::string_view> texts,
                                                               Scanner);

}  // namespace mxtape
