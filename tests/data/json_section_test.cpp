#include "data/json/json_section.h"

#include <gtest/gtest.h>

#include "core/error.h"
#include "data/json/json_file.h"
#include "tests/data/tokenizers/told.h"

namespace mxtape {
namespace {

using nlohmann::json;
using test::told;

TEST(JsonSection, SaysWhereAValueIsWhatItIsAndWhatIsWanted) {
  const json file = parse_json_strictly(R"({
    "text": 1, "flag": "yes", "list": {}, "inner": {"whole": 2.5, "null": null},
    "number": "x", "zero": 0, "large": 18446744073709551615, "long": ")" +
                                        std::string(500, 'a') + R"(", "more": 1})");
  JsonSection top(file, "models/config.json", ": ");
  JsonSection inner = top.section("inner");
  const std::pair<std::function<void()>, std::string> cases[] = {
      {[&] { (void)top.text("text"); }, "models/config.json: text = 1; want a text"},
      {[&] { (void)top.flag("flag"); }, "models/config.json: flag = \"yes\"; want true or false"},
      {[&] { (void)top.array("list"); }, "models/config.json: list = {}; want a list"},
      {[&] { (void)top.section("text"); }, "models/config.json: text: is 1; want an object"},
      {[&] { (void)inner.integer("whole", 1, 9); },
       "models/config.json: inner.whole = 2.5; want a whole number from 1 to 9"},
      {[&] { (void)inner.text("null"); }, "models/config.json: inner.null is missing"},
      {[&] { (void)top.number("number"); }, "models/config.json: number = \"x\"; want a finite number"},
      {[&] { (void)top.positive_or("zero", 1); }, "models/config.json: zero = 0.0; want a number > 0"},
      {[&] { (void)top.integer("large"); },
       "models/config.json: large = 18446744073709551615; want a whole number from 0 to 2147483647"},
      {[&] { (void)top.integer("long"); }, "models/config.json: long = \"" + std::string(79, 'a') +
                                               "...; want a whole number from 0 to 2147483647"},
      {[&] { top.require_neutral("flag", false, "something else"); },
       "models/config.json: flag = \"yes\": something else; mxtape has false"},
      {[&] { top.refuse("text", "2, 3"); }, "models/config.json: text = 1; mxtape has 2, 3"},
      {[&] { top.done(); }, "models/config.json: the key \"more\" is not understood"}};
  for (const auto& [read, want] : cases) EXPECT_EQ(told(read), want);
  EXPECT_EQ(top.unknown(), std::vector<std::string>{"more"});
  top.ignore({"more"});
  top.done();
  EXPECT_FALSE(inner.has("null"));
  EXPECT_TRUE(inner.contains("null"));
  EXPECT_EQ(inner.integer_or("null", 1, 2, 7), 7);
}

}  // namespace
}  // namespace mxtape
