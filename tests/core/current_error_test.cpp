#include "core/current_error.h"

#include <gtest/gtest.h>

#include <new>
#include <stdexcept>
#include <string>
#include <system_error>

namespace mxtape {
namespace {

template <class Exception>
Error handled(const Exception& exception) {
  try {
    throw exception;
  } catch (...) {
    return current_error();
  }
}

TEST(CurrentError, GivesEachExceptionTheExitCodeThatIsDocumented) {
  EXPECT_EQ(handled(Error(ExitCode::data, "x")).code(), ExitCode::data);
  EXPECT_EQ(handled(std::system_error(EACCES, std::generic_category(), "x")).code(), ExitCode::resource);
  EXPECT_EQ(handled(std::bad_alloc()).code(), ExitCode::resource);
  EXPECT_STREQ(handled(std::bad_alloc()).what(), "out of memory");
  EXPECT_EQ(handled(std::logic_error("x")).code(), ExitCode::internal);
  EXPECT_STREQ(handled(std::logic_error("x")).what(), "unexpected: x");
}

}  // namespace
}  // namespace mxtape
