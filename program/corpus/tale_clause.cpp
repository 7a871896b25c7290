#include <fmt/format.h>

#include "program/corpus/tale.h"

namespace mxtape::tales {
namespace {

constexpr int most_clauses = 3, deepest_relative = 3;

// Tags of words_.verbs, and of those of the moment.
enum : int { going, seeing, dealing, resting };
enum : int { being = 4, saying, asking, meeting, giving, taking, thinking, showing, that_clause };

}  // namespace

Tale::Link Tale::clauses(int subject_tag) {
  clauses_ = 0;
  for (Link next = other;;) {
    const auto subject = std::size_t(subject_tag / 2);
    topic_ = subject;
    next = predicate(subject, next == other && subject_tag % 2);
    if (next == sentence || next == paragraph) return next;
    ++clauses_;
    if (next == other) subject_tag = chooser_.pick(subjects(false)).tag;
  }
}

std::vector<Option> Tale::verbs_of_the_moment(std::size_t subject, bool by_kind) const {
  const std::string the_treasure = "the " + treasure_;
  std::vector<Option> verbs{{was_or_were[cast_[subject].gender], 400'000, being},
                            {"said, \"", 300'000, saying},
                            {"whispered, \"", 100'000, saying},
                            {"cried, \"", 100'000, saying}};
  if (cast_.size() < largest_cast) verbs.push_back({"met ", 900'000 / std::uint64_t(cast_.size()), meeting});
  if (by_kind && cast_.size() > 1) verbs.push_back({"that ", 400'000, that_clause});
  if (subject == holder_) {
    verbs.push_back({"held up " + the_treasure, 80'000, showing});
    if (cast_.size() > 1) verbs.push_back({"gave " + the_treasure + " to ", 200'000, giving});
  } else {
    verbs.push_back({"asked, \"", 200'000, asking});
    verbs.push_back({"took " + the_treasure + " from " + reference(holder_), 150'000, taking});
    verbs.push_back({"thought of " + the_treasure, 80'000, thinking});
  }
  return verbs;
}

Tale::Link Tale::predicate(std::size_t subject, bool by_kind) {
  const auto verb = chooser_.pick(words_.verbs, verbs_of_the_moment(subject, by_kind));
  if (verb.tag >= first_possession) {
    chooser_.say(fmt::format("{} ", possessive_pronouns[cast_[subject].gender]));
    chooser_.pick(words_.belongings[std::size_t(verb.tag - first_possession)]);
  }
  if (verb.tag == seeing) return link(something(), 0);
  if (verb.tag == dealing) return link(somebody(subject), 0);
  if (verb.tag == saying) return speech(subject);
  if (verb.tag == asking) return question(subject);
  if (verb.tag == meeting) {
    introduce();
    return link(cast_.back().gender == they ? Noun::many : Noun::one, 0);
  }
  if (verb.tag ==
      that_clause) {  // the fox that Anna feared was ...: the verb agrees across the clause between
    chooser_.pick(others(subject, subject));
    chooser_.say(" ");
    chooser_.pick(words_.dealings);
    return predicate(subject, false);
  }
  if (verb.tag == going) land_ = words_.places[std::size_t(chooser_.pick(words_.going).tag)];
  if (verb.tag == resting) chooser_.pick(words_.manners);
  if (verb.tag == being) chooser_.pick(words_.feelings);
  if (verb.tag == giving) holder_ = std::size_t(chooser_.pick(others(subject, subject)).tag - first_cast_tag);
  if (verb.tag == taking) holder_ = subject;
  return link(Noun::none, 0);
}

Tale::Noun Tale::somebody(std::size_t but) {
  enum { trade, beast, flock, quality };
  const auto who = chooser_.pick(words_.strangers, others(but, but));
  if (who.tag == flock) chooser_.pick(words_.flocks);
  if (who.tag == quality) chooser_.pick(words_.strangers_bare);
  return who.tag >= first_cast_tag ? Noun::none : who.tag == flock ? Noun::many : Noun::one;
}

Tale::Noun Tale::something() {
  const auto sight = chooser_.pick(words_.sights[land_]);
  if (sight.tag == 1) chooser_.pick(words_.sights_bare[land_]);
  return Noun::item;
}

Tale::Link Tale::link(Noun noun, int depth) {
  std::vector<Option> options{{". ", 60, sentence}, {".\n", 15, paragraph}};
  if (clauses_ < most_clauses) {
    options.push_back({" and ", 25, same});
    options.push_back({", but ", 8, other});
    options.push_back({" while ", 5, other});
    options.push_back({" because ", 7, other});
  }
  if (depth < deepest_relative && noun != Noun::none)
    options.push_back({noun == Noun::item ? " that " : " who ", 30, relate});
  const auto next = Link(chooser_.pick(options).tag);
  return next == relate ? relative_clause(noun, depth + 1) : next;
}

Tale::Link Tale::relative_clause(Noun noun, int depth) {
  enum { done_to, lived = 50, had_seen, felt, knew, belonged, lay, somebody_had };  // 0: words_.dealings
  if (noun == Noun::item) {
    std::vector<Option> verbs{{"had belonged to ", 300'000, belonged}, {"lay ", 200'000, lay}};
    for (auto& owner : others(cast_.size(), cast_.size()))
      verbs.push_back({owner.text + " had ", owner.weight / 2, somebody_had});
    const int tag = chooser_.pick(verbs).tag;
    if (tag == belonged) return link(somebody(cast_.size()), depth);
    chooser_.pick(tag == lay ? words_.being : words_.losses);
    return link(Noun::none, depth);
  }
  const std::vector<Option> more{{"lived ", 100'000, lived},
                                 {"had never seen ", 60'000, had_seen},
                                 {was_or_were[noun == Noun::many ? they : it], 80'000, felt},
                                 {"knew where the " + treasure_ + " was", 30'000, knew}};
  const int tag = chooser_.pick(words_.dealings, more).tag;
  if (tag == done_to) return link(somebody(cast_.size()), depth);
  if (tag == had_seen) return link(something(), depth);
  if (tag == lived) chooser_.pick(words_.being);
  if (tag == felt) chooser_.pick(words_.feelings);
  return link(Noun::none, depth);
}

}  // namespace mxtape::tales
