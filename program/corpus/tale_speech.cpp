#include <fmt/format.h>

#include "program/corpus/tale.h"

namespace mxtape::tales {

/// Some sentences in quotation marks; the mark that ends them ends the clause's sentence too.
Tale::Link Tale::speech(std::size_t speaker) {
  constexpr int most_sentences = 3;
  for (int told = 1;; ++told) {
    const bool nested = statement(speaker, told == 1);
    const char* inner = nested ? "'" : "";
    std::vector<Option> marks{{fmt::format(".{}\" ", inner), 50, sentence},
                              {fmt::format("!{}\" ", inner), 10, sentence},
                              {fmt::format(".{}\"\n", inner), 15, paragraph}};
    if (told < most_sentences && !nested) marks.push_back({". ", 30, same});
    const auto next = Link(chooser_.pick(marks).tag);
    if (next != same) return next;
  }
}

bool Tale::statement(std::size_t speaker, bool may_nest) {
  enum { feeling, unseen, wish, order, plan, stay, creature, story, saying_of, truth };
  std::vector<Option> openers{
      {"I am ", 20, feeling},    {"You are ", 10, feeling}, {"I have never seen ", 12, unseen},
      {"Bring me ", 10, wish},   {"Do not go ", 10, order}, {"I will go ", 12, plan},
      {"I will wait ", 8, stay}, {"The ", 30, creature},    {"Once there was ", 12, story}};
  if (may_nest) openers.push_back({"My ", 12, saying_of});
  openers.push_back({holder_ == speaker ? "I have the " + treasure_
                                        : fmt::format("Ask {} for the {}", reference(holder_), treasure_),
                     8, truth});
  const int tag = chooser_.pick(openers).tag;
  if (tag == feeling) chooser_.pick(words_.feelings);
  if (tag == unseen || tag == wish) something();
  if (tag == order || tag == plan) chooser_.pick(words_.going);
  if (tag == stay) chooser_.pick(words_.being);
  if (tag == story) story_within();
  if (tag == saying_of) {
    chooser_.pick(words_.relatives);
    chooser_.say(" always said, '");
    statement(speaker, false);
  }
  if (tag == creature) {
    const bool many = chooser_.pick(words_.creatures).tag == they;
    const std::vector<Option> live{{many ? "that live " : "that lives ", 600'000, 1}};
    if (chooser_.pick(words_.habits[many], live).tag == 1) {
      chooser_.pick(words_.being);
      chooser_.say(" ");
      chooser_.pick(words_.habits[many]);
    }
  }
  return tag == saying_of;
}

/// A tale within the tale: somebody of its own, with its own pronoun, and a treasure of its own.
void Tale::story_within() {
  chooser_.pick(words_.ages);
  chooser_.pick(words_.trades);
  chooser_.say(" named ");
  const auto name = pick_unused(words_.names);
  chooser_.say(" who owned ");
  const auto thing = chooser_.pick(words_.owned_things);
  chooser_.say(". ");
  chooser_.say(capitalized(subject_pronouns[name.tag]) + " ");
  chooser_.pick(words_.fates);
}

/// About the treasure. The one who has it may own up or keep silent, the others may tell.
Tale::Link Tale::question(std::size_t speaker) {
  enum { confess, ignorance, tell };
  chooser_.pick(std::vector<Option>{{"Where is the " + treasure_ + "?\" ", 3},
                                    {"Who has the " + treasure_ + "?\" ", 2}});
  const auto witnesses = others(speaker, holder_);
  std::vector<Option> answers{{"\"I have it,\" said ", 4, confess},
                              {"\"I do not know,\" said ", 3, ignorance}};
  if (!witnesses.empty())
    answers.push_back({fmt::format("\"{} {} it,\" said ", capitalized(reference(holder_)),
                                   cast_[holder_].gender == they ? "have" : "has"),
                       5, tell});
  const int tag = chooser_.pick(answers).tag;
  if (tag == confess) chooser_.say(reference(holder_));
  if (tag == ignorance) chooser_.pick(others(speaker, speaker));
  if (tag == tell) chooser_.pick(witnesses);
  return Link(chooser_.pick(std::vector<Option>{{". ", 4, sentence}, {".\n", 1, paragraph}}).tag);
}

}  // namespace mxtape::tales
