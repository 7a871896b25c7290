#pragma once
#include <cstdint>
#include <cstring>
#include <string>
#include <string_view>

#include "core/error.h"

namespace mxtape {

/// Takes bytes off the front of what a file says, lowest byte first. Throws Error(data) where they end too
/// early; `where` stands in front.
struct ByteReader {
  std::string_view left;
  std::string where{};

  std::string_view bytes(std::uint64_t count) {
    require(count <= left.size(), ExitCode::data, "{}a field of {} bytes where {} are left", where, count,
            left.size());
    const auto taken = left.substr(0, std::size_t(count));
    return left.remove_prefix(taken.size()), taken;
  }
  template <class T>
  T number() {
    T value;
    return std::memcpy(&value, bytes(sizeof value).data(), sizeof value), value;
  }
};

/// Adds a number to what a file will say, lowest byte first.
template <class T>
void append_bytes(std::string& to, const T& number) {
  to.append(reinterpret_cast<const char*>(&number), sizeof number);
}

}  // namespace mxtape
