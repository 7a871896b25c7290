#pragma once
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "core/random.h"

namespace mxtape::tales {

/// One way to go on. An option's probability is its weight over the sum of the weights offered with it.
struct Option {
  std::string text;
  std::uint64_t weight = 1;
  int tag = 0;  ///< what the grammar makes of it
};

/// Options of which no text begins another, so that the text that follows says which one was taken.
class Table {
 public:
  /// Throws Error(internal) if two options could not be told apart.
  explicit Table(std::vector<Option>);
  const std::vector<Option>& options() const { return options_; }
  std::uint64_t total() const { return total_; }
  operator std::span<const Option>() const { return options_; }
  /// The options whose last word is none of these.
  Table without_endings(std::span<const std::string> words) const;

 private:
  Table() = default;
  std::vector<Option> options_;
  std::uint64_t total_ = 0;
};

/// What a grammar is written against: the same traversal writes a text (Writer) or reads one back (Reader).
/// Each choice puts out its option's text at once, and options are prefix-free, so every text has one
/// derivation, and
///   -ln P(text) = sum over its choices of ln(sum of weights / weight taken).
class Chooser {
 public:
  virtual ~Chooser() = default;
  /// Text that is certain at this point.
  virtual void say(std::string_view text) = 0;
  /// One of the options of `table` and `more` together; its text is put out.
  Option pick(const Table& table, std::span<const Option> more = {});
  Option pick(std::span<const Option> options);
  double nats() const { return nats_; }

 protected:
  /// Index of the option taken, counting through both.
  virtual std::size_t take(std::span<const Option> first, std::span<const Option> second,
                           std::uint64_t total) = 0;

 private:
  Option record(std::span<const Option> first, std::span<const Option> second, std::uint64_t total);
  double nats_ = 0;
};

/// Draws: choice number i of tale number t is element i of the Philox stream (seed, corpus, t). The
/// probability of an option differs from weight / total by less than 2^-64.
class Writer final : public Chooser {
 public:
  Writer(std::uint64_t seed, std::uint32_t tale)
      : key_{.seed = seed, .purpose = Purpose::corpus, .step = tale} {}
  void say(std::string_view text) override { text_ += text; }
  std::string& text() { return text_; }

 private:
  std::size_t take(std::span<const Option> first, std::span<const Option> second,
                   std::uint64_t total) override;
  DrawKey key_;
  std::uint64_t choices_ = 0;
  std::string text_;
};

/// Reads a text from `position` on. Throws Error(data) at the first character that the grammar cannot
/// produce.
class Reader final : public Chooser {
 public:
  Reader(std::string_view text, std::size_t position) : text_(text), position_(position) {}
  void say(std::string_view text) override;
  std::size_t position() const { return position_; }

 private:
  std::size_t take(std::span<const Option> first, std::span<const Option> second,
                   std::uint64_t total) override;
  [[noreturn]] void refuse(std::span<const std::string_view> wanted) const;
  std::string_view text_;
  std::size_t position_;
};

}  // namespace mxtape::tales
