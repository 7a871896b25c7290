#include "core/current_error.h"

#include <exception>
#include <new>
#include <system_error>

namespace mxtape {

Error current_error() {
  try {
    throw;
  } catch (const Error& e) {
    return e;
  } catch (const std::system_error& e) {
    return {ExitCode::resource, e.what()};
  } catch (const std::bad_alloc&) {
    return {ExitCode::resource, "out of memory"};
  } catch (const std::exception& e) {
    return {ExitCode::internal, fmt::format("unexpected: {}", e.what())};
  }
}

}  // namespace mxtape
