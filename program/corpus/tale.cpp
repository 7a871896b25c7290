#include "program/corpus/tale.h"

namespace mxtape::tales {

std::string capitalized(std::string text) {
  if (text[0] >= 'a' && text[0] <= 'z') text[0] = char(text[0] - 'a' + 'A');
  return text;
}

std::string with_article(const std::string& noun) { return with_article({Option{noun}})[0].text; }

void Tale::tell() {
  constexpr int fewest_paragraphs = 2, most_paragraphs = 10;
  title();
  opening();
  for (int told = 0;; ++told) {
    std::vector<Option> end;
    const auto days = words_.days.total();
    if (told >= fewest_paragraphs)
      end.push_back({"At last ", told < most_paragraphs ? days / 4 : days * 1000, 1});
    if (chooser_.pick(words_.days, end).tag == 1) return ending();
    Link next = clauses(chooser_.pick(subjects(false)).tag);
    while (next == sentence) {
      const auto begin = chooser_.pick(words_.turns, subjects(true));
      next = clauses(begin.tag < 0 ? chooser_.pick(subjects(false)).tag : begin.tag);
    }
  }
}

void Tale::title() {
  const auto hero = chooser_.pick(words_.names);
  chooser_.say(" and the ");
  treasure_ = chooser_.pick(words_.materials).text;
  treasure_ += chooser_.pick(words_.things).text;
  chooser_.say("\n");
  cast_.push_back({hero.text, "", Gender(hero.tag)});
}

void Tale::opening() {
  chooser_.say("Once there was ");
  chooser_.pick(words_.ages);
  cast_[0].kind = chooser_.pick(words_.trades).text;
  chooser_.say(" named " + cast_[0].name + " who lived ");
  land_ = words_.places[std::size_t(chooser_.pick(words_.being).tag)];
  chooser_.say(". ");
  const std::string hero = capitalized(subject_pronouns[cast_[0].gender]),
                    own = possessive_pronouns[cast_[0].gender];
  const std::string a_treasure = with_article(treasure_);
  const auto start =
      chooser_.pick(std::vector<Option>{{hero + " owned " + a_treasure + " that " + own + " ", 3, 0},
                                        {hero + " had once owned " + a_treasure + ", but ", 2, 1}});
  if (start.tag == 0) {
    chooser_.pick(words_.relatives);
    chooser_.pick(words_.origins);
  } else {
    introduce();
    holder_ = 1;
    chooser_.say(" had stolen it");
  }
  chooser_.say(".\n");
}

void Tale::ending() {
  const auto& hero = cast_[0].name;
  if (holder_ == 0)
    chooser_.pick(std::vector<Option>{{hero + " carried the " + treasure_ + " home ", 3},
                                      {hero + " hung the " + treasure_ + " above the door ", 1},
                                      {hero + " threw the " + treasure_ + " into the sea ", 1}});
  else
    chooser_.pick(
        std::vector<Option>{{hero + " let " + reference(holder_) + " keep the " + treasure_ + " ", 2},
                            {hero + " went home without the " + treasure_ + " ", 3}});
  chooser_.pick(words_.endings);
  chooser_.say(".\n\n");
}

std::string Tale::reference(std::size_t who) const {
  return cast_[who].name.empty() ? "the " + cast_[who].kind : cast_[who].name;
}

std::vector<Option> Tale::subjects(bool begins_sentence) const {
  std::vector<Option> options;
  const auto add = [&](const std::string& text, std::uint64_t weight, std::size_t who, bool by_kind) {
    options.push_back({(begins_sentence ? capitalized(text) : text) + " ", weight, int(2 * who + by_kind)});
  };
  for (std::size_t who = 0; who < cast_.size(); ++who) {
    const bool central = who == 0 || who + 1 == cast_.size();
    const auto& person = cast_[who];
    if (!person.name.empty()) add(person.name, central ? 1'000'000 : 500'000, who, false);
    add("the " + person.kind, person.name.empty() ? 600'000 : 200'000, who, true);
  }
  add(subject_pronouns[cast_[topic_].gender], 2'500'000, topic_, false);
  return options;
}

std::vector<Option> Tale::others(std::size_t but, std::size_t and_but) const {
  std::vector<Option> options;
  for (std::size_t who = 0; who < cast_.size(); ++who)
    if (who != but && who != and_but) options.push_back({reference(who), 300'000, first_cast_tag + int(who)});
  return options;
}

Option Tale::pick_unused(const Table& table) {
  std::vector<std::string> used;
  for (const auto& person : cast_) {
    if (!person.name.empty()) used.push_back(person.name);
    used.push_back(person.kind);
  }
  return chooser_.pick(table.without_endings(used));
}

void Tale::introduce() {
  enum { trade, beast, flock, quality };  // tags of words_.strangers
  auto stranger = pick_unused(words_.strangers);
  if (stranger.tag == flock) return cast_.push_back({"", pick_unused(words_.flocks).text, they});
  std::string kind = stranger.text.substr(stranger.text.find(' ') + 1);
  if (stranger.tag == quality) {
    stranger = pick_unused(words_.strangers_bare);
    kind = stranger.text;
  }
  chooser_.say(" named ");
  const auto name = pick_unused(stranger.tag == trade ? words_.names : words_.beast_names);
  cast_.push_back({name.text, kind, Gender(name.tag)});
}

}  // namespace mxtape::tales
