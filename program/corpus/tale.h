#pragma once
#include <string>
#include <vector>

#include "program/corpus/chooser.h"
#include "program/corpus/words.h"

namespace mxtape::tales {

/// Somebody in a tale, or several who act as one (Gender::they).
struct Person {
  std::string name;  ///< empty for a group
  std::string kind;  ///< "weaver", "fox", "geese"
  Gender gender;
};

/// The grammar of one tale: title, opening, paragraphs, ending, blank line. Run with a Writer it tells a
/// tale, with a Reader it follows one. What was said is remembered (who takes part, who holds the treasure,
/// which land they are in, who was spoken of last) and decides what can be said next and how: docs/corpus.md.
class Tale {
 public:
  explicit Tale(Chooser& chooser) : chooser_(chooser), words_(words()) {}
  void tell();

 private:
  /// How a clause goes on: a new sentence, a new paragraph, the same subject again, another subject.
  enum Link : int { sentence, paragraph, same, other, relate };
  /// What a clause ended with, as far as a relative clause can follow.
  enum class Noun { none, item, one, many };

  // tale.cpp: the frame, and who can be spoken of
  void title();
  void opening();
  void ending();
  std::string reference(std::size_t who) const;  ///< "Anna", "the geese"
  /// Ways to name a subject, tagged 2 * index in cast_ + whether it is named by its kind.
  std::vector<Option> subjects(bool begins_sentence) const;
  /// The cast but for two of them, tagged first_cast_tag + index.
  std::vector<Option> others(std::size_t but, std::size_t and_but) const;
  /// Chooses a name or kind that nobody in this tale has, so that it says who is meant.
  Option pick_unused(const Table& table);
  void introduce();  ///< "a fox named Tarn", "three geese": one more in cast_

  // tale_clause.cpp: what somebody does
  Link clauses(int subject_tag);
  Link predicate(std::size_t subject, bool by_kind);
  std::vector<Option> verbs_of_the_moment(std::size_t subject, bool by_kind) const;
  Link link(Noun noun, int depth);
  Link relative_clause(Noun noun, int depth);
  Noun somebody(std::size_t but);
  Noun something();

  // tale_speech.cpp: what somebody says
  Link speech(std::size_t speaker);
  /// Up to but without its full stop. True if it ended inside single quotation marks.
  bool statement(std::size_t speaker, bool may_nest);
  void story_within();
  Link question(std::size_t speaker);

  static constexpr int first_cast_tag = 100;
  static constexpr std::size_t largest_cast = 5;
  Chooser& chooser_;
  const Words& words_;
  std::vector<Person> cast_;  ///< the hero first
  std::size_t topic_ = 0;     ///< whom a pronoun means
  std::size_t holder_ = 0;    ///< who has the treasure
  std::string treasure_;      ///< "silver key"
  Land land_ = town;
  int clauses_ = 0;  ///< of this sentence
};

inline constexpr const char* subject_pronouns[] = {"he", "she", "it", "they"};  // by Gender
inline constexpr const char* possessive_pronouns[] = {"his", "her", "its", "their"};
inline constexpr const char* was_or_were[] = {"was ", "was ", "was ", "were "};

std::string capitalized(std::string text);
std::string with_article(const std::string& noun);

}  // namespace mxtape::tales
