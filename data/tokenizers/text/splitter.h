#pragma once
#include <memory>
#include <string_view>
#include <vector>

#include "data/tokenizers/text/regex.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/scanners.h"

namespace mxtape {

/// The pre-tokenizer of a tokenizer.json: cuts a text into the words that are encoded one by one.
class Splitter {
 public:
  /// Throws Error(data) for a pattern that Regex does not understand.
  explicit Splitter(std::vector<SplitStep> steps);

  /// Calls word(std::string_view) for each word of `text`, which is UTF-8. `at_start`: nothing is before it.
  /// Throws Error(data) where its patterns spend Regex's budget for such a text.
  template <class Word>
  void for_each_word(std::string_view text, bool at_start, const Word& word) const {
    if (scanner_) {
      for (std::size_t at = 0; at < text.size();) {
        const std::size_t end = scanner_(text, at);
        word(text.substr(at, end - at));
        at = end;
      }
      return;
    }
    Regex::Budget budget(text.size());
    if (!text.empty()) cut(0, text, at_start, budget, word);
  }
  /// Whether no word crosses the end of an ASCII letter or digit before a blank or line end.
  bool cuts_at_blanks() const { return scanner_ != nullptr; }
  bool keeps_whole() const { return steps_.empty(); }

 private:
  struct Step {
    SplitStep rule;
    Scanner scanner = nullptr;
    std::unique_ptr<Regex> regex{};
  };
  using Pieces = std::vector<std::string_view>;
  /// The pieces of one step; `changed` owns the text where the step changed it.
  Pieces pieces_of(const Step&, std::string_view text, bool at_start, std::string& changed,
                   Regex::Budget&) const;
  Pieces matches_of(const Step&, std::string_view text, Regex::Budget&) const;

  template <class Word>
  void cut(std::size_t step, std::string_view text, bool at_start, Regex::Budget& budget,
           const Word& word) const {
    if (step == steps_.size()) return word(text);
    std::string changed;
    for (const auto piece : pieces_of(steps_[step], text, at_start, changed, budget)) {
      cut(step + 1, piece, at_start, budget, word);
      at_start = false;
    }
  }

  std::vector<Step> steps_;
  Scanner scanner_ = nullptr;  // where it alone does all
};

}  // namespace mxtape
