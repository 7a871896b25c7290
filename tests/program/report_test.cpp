#include "program/show/report.h"

#include <gtest/gtest.h>

#include <cmath>
#include <optional>

namespace mxtape::test {
namespace {

TEST(Report, ATableIsColumnsForPeopleAndObjectsForPrograms) {
  Table table("name|run; loss|loss|>.2f; |share|>6.1%; seed");
  table.row("a", 1.234, 0.5, 7);
  table.row("longer", std::optional<double>(), 0.125, 8).below = "  below\n";
  EXPECT_EQ(table.text(),
            "run     loss   share\n"
            "a       1.23   50.0%\n"
            "longer     -   12.5%\n"
            "  below\n");
  EXPECT_EQ(json_line(table),
            R"([{"name":"a","loss":1.234,"seed":7},{"name":"longer","loss":null,"seed":8}])");
}

TEST(Report, ColumnsThatAreSpareGoFirstWhereALineIsTooLong) {
  Table table("|run; |first|>|1; |second|>|2; |loss|>");
  table.row("a", 1, 2, 3);
  EXPECT_EQ(table.text(30), "run  first  second  loss\na        1       2     3\n");
  EXPECT_EQ(table.text(20), "run  second  loss\na         2     3\n");
  EXPECT_EQ(table.text(5), "run  loss\na       3\n") << "what is not spare stays";
}

TEST(Report, ARowMayBeForPeopleOrProgramsAloneOrHaveATextInsteadOfItsCells) {
  Table table("name|tensor; count|count|>8");
  table.row("w", 1).whom = Table::Row::For::people;
  table.row("b", 2).whom = Table::Row::For::programs;
  table.row("norm", 3).rest = "only in A, whatever else";
  EXPECT_EQ(table.text(), "tensor     count\nw              1\nnorm    only in A, whatever else\n");
  EXPECT_EQ(json_line(table), R"([{"name":"b","count":2},{"name":"norm","count":3}])");
}

TEST(Report, ColumnsStandUnderEachOtherAlsoBehindLettersOfTwoBytes) {
  Table table("|run; |loss|>");
  table.row("äö", 1);
  table.row("abcd", 2);
  EXPECT_EQ(table.text(), "run   loss\näö       1\nabcd     2\n");
}
TEST(Report, WhatIsNotKnownIsNullWithItsReason) {
  EXPECT_EQ(json_line(object("a", Value(NAN, "it diverged"), "b", Value("", "nobody said"), "c",
                             Value(std::optional<int>(), "there is none"), "d", Value(1, "unused"), "e", "")),
            R"({"a":null,"a_reason":"it diverged","b":null,"b_reason":"nobody said",)"
            R"("c":null,"c_reason":"there is none","d":1,"e":""})");
}

TEST(Report, AnObjectUnderAStarGivesItsMembersAndACopyIsItsOwn) {
  Value first = object("a", 1);
  Value second = first;
  put(second, "*", object("b", std::vector<std::int64_t>{1, 2}), "a", 3);
  EXPECT_EQ(json_line(first), R"({"a":1})");
  EXPECT_EQ(json_line(second), R"({"a":3,"b":[1,2]})");
}

}  // namespace
}  // namespace mxtape::test
