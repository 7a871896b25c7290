#pragma once
#include <string>
#include <string_view>
#include <vector>

namespace mxtape {

/// A table for people: columns as wide as their widest cell, two blanks apart, numbers to the right.
class TextTable {
 public:
  struct Column {
    std::string name;
    bool left = false;  ///< of words
    int spare = 0;      ///< left out where the lines are too long, 1 before 2; 0: never
  };
  explicit TextTable(std::vector<Column> columns) : columns_(std::move(columns)) {}

  void row(std::vector<std::string> cells);
  /// In lines of at most `width` columns, if enough can be left out; 0: all columns.
  std::string text(std::size_t width) const;

 private:
  std::vector<Column> columns_;
  std::vector<std::vector<std::string>> rows_;
};

}  // namespace mxtape
