#pragma once
#include <string_view>

#include "kernels/calls.h"

namespace mxtape {

/// Whether a call writes the tensor that has this role and name in it.
constexpr bool is_written(Role role, std::string_view name) {
  switch (role) {
    case Role::result:
    case Role::output:
    case Role::sum:
    case Role::state:
    case Role::rounded:
    case Role::found:
      return true;
    case Role::any:
      return name == "y";
    default:
      return false;
  }
}

}  // namespace mxtape
