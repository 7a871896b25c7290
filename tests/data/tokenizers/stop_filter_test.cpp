#include "data/tokenizers/text_stream.h"

#include <gtest/gtest.h>

#include "core/error.h"

namespace mxtape {
namespace {

/// What is shown of a text that comes in parts of `size` bytes.
std::string shown(const std::vector<std::string>& stops, const std::string& text, std::size_t size,
                  std::string* stop = nullptr) {
  StopFilter filter(stops);
  std::string all;
  for (std::size_t i = 0; i < text.size(); i += size) all += filter.push(text.substr(i, size));
  all += filter.finish();
  if (stop) *stop = filter.stop();
  return all;
}

TEST(StopFilter, EndsATextBeforeTheStopHoweverItIsCut) {
  for (std::size_t size = 1; size < 20; ++size) {
    std::string stop;
    EXPECT_EQ(shown({"END"}, "the ENEND and more", size, &stop), "the EN") << size;
    EXPECT_EQ(stop, "END");
    EXPECT_EQ(shown({"END"}, "no stop, EN", size, &stop), "no stop, EN") << size;
    EXPECT_EQ(stop, "");
    EXPECT_EQ(shown({}, "anything", size), "anything");
    EXPECT_EQ(shown({"\n\n"}, "a\nb\n\nc", size), "a\nb");
    EXPECT_EQ(shown({"é"}, "caf\xC3\xA8, caf\xC3\xA9!", size), "caf\xC3\xA8, caf")
        << "a byte of another letter";
  }
}

TEST(StopFilter, TakesTheStopWhoseEndComesFirstAndTheLongestOfThose) {
  for (std::size_t size = 1; size < 10; ++size) {
    std::string stop;
    EXPECT_EQ(shown({"cde", "bc"}, "abcdef", size, &stop), "a");
    EXPECT_EQ(stop, "bc");
    EXPECT_EQ(shown({"d", "bcd", "cd"}, "abcdef", size, &stop), "a");
    EXPECT_EQ(stop, "bcd");
    EXPECT_EQ(shown({"bcx", "cd"}, "abcdef", size, &stop), "ab") << "what looked like the first is shown";
  }
}

TEST(StopFilter, ShowsAtOnceWhatCannotBeAStop) {
  StopFilter filter({"aab"});
  EXPECT_EQ(filter.push("xa"), "x");
  EXPECT_EQ(filter.push("a"), "");
  EXPECT_EQ(filter.push("a"), "a") << "the newest two may still become one";
  EXPECT_EQ(filter.push("c"), "aac");
  EXPECT_FALSE(filter.stopped());
  EXPECT_EQ(filter.push("aabaab"), "");
  EXPECT_TRUE(filter.stopped());
  EXPECT_EQ(filter.push("more"), "");
  EXPECT_EQ(filter.finish(), "");
}

TEST(StopFilter, RefusesAnEmptyStop) {
  try {
    StopFilter({"a", ""});
    FAIL();
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
  }
}

}  // namespace
}  // namespace mxtape
