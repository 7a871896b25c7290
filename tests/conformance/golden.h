#pragma once
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace mxtape::conformance {

/// Where a user gets a golden set: the end of every message that asks for one.
inline constexpr std::string_view where_sets_come_from =
    "mxtape's source holds one, tests/golden; docs/conformance.md says how to make another";

/// One case of a golden set: its JSON fields, sorted by kind of value. Fields of nested objects are named
/// "outer.inner". Reading a field that is not there, or an array outside the blob, throws Error(data) naming
/// case and field.
class Case {
 public:
  std::string name;

  bool has(const std::string& field) const;
  const std::string& text(const std::string& field) const;
  std::string text_or(const std::string& field, const std::string& otherwise) const;
  double number(const std::string& field) const;
  double number_or(const std::string& field, double otherwise) const;
  bool has_tag(const std::string& tag) const;
  std::vector<std::int64_t> extents(const std::string& field) const;
  /// Arrays of the blob, converted from the type they are stored in. Throws Error(data) if `count` is given
  /// and the array has another.
  using Count = std::optional<std::size_t>;
  std::vector<float> floats(const std::string& field, Count count = {}) const;    // u32: f32 bit patterns
  std::vector<double> doubles(const std::string& field, Count count = {}) const;  // f64
  std::vector<std::int32_t> integers(const std::string& field, Count count = {}) const;  // u8, i16

  /// The part of the name before the first '/'.
  std::string suite() const { return name.substr(0, name.find('/')); }

 private:
  friend class GoldenSet;
  struct Reference {
    std::string type;
    std::int64_t offset, count;
  };
  struct Bytes {
    const char* data;
    std::size_t count;
  };
  Bytes bytes(const std::string& field, std::string_view type, std::size_t width, Count count) const;

  const std::vector<char>* blob_ = nullptr;
  std::map<std::string, std::string> texts_;
  std::map<std::string, double> numbers_;
  std::map<std::string, std::vector<std::int64_t>> extents_;
  std::map<std::string, Reference> arrays_;
  std::vector<std::string> tags_;
};

/// A folder with manifest.json and its blob, format mxgold-1 (docs/conformance.md). Throws Error(data) for a
/// missing or malformed file, no cases or another number of them than the manifest says, or a blob of another
/// size or sha256 than the manifest says.
class GoldenSet {
 public:
  explicit GoldenSet(const std::filesystem::path& folder);
  GoldenSet(const GoldenSet&) = delete;
  GoldenSet& operator=(const GoldenSet&) = delete;

  const std::vector<Case>& cases() const { return cases_; }
  const std::string& title() const { return title_; }

 private:
  std::vector<char> blob_;
  std::vector<Case> cases_;
  std::string title_;
};

}  // namespace mxtape::conformance
