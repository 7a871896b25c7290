#include "core/text/printable.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mxtape {
namespace {

TEST(Printable, ControlCharactersAreShownByNumber) {
  EXPECT_EQ(printable("a\033[2Jb\rc\x7f"), "a<U+001B>[2Jb<U+000D>c<U+007F>");
  EXPECT_EQ(printable(std::string_view("x\0y", 3)), "x<U+0000>y");
  EXPECT_EQ(printable("\xc2\x9b"
                      "2J \xc2\xa0"),
            "<U+009B>2J \xc2\xa0");
  EXPECT_EQ(printable("lines\n\tand \xe2\x82\xac, \xff, \xc2"), "lines\n\tand \xe2\x82\xac, \xff, \xc2");
}

TEST(Printable, AMessageIsNotCutAtAZero) {
  EXPECT_STREQ(Error(ExitCode::data, std::string("a '\0' in it", 11)).what(), "a '<U+0000>' in it");
}

}  // namespace
}  // namespace mxtape
