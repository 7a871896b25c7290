#include "program/corpus/words.h"

#include <algorithm>
#include <sstream>

#include "core/error.h"
#include "core/text/sections.h"

namespace mxtape {
extern const std::string_view corpus_words;  // words.txt, which the build puts into the program
}  // namespace mxtape

namespace mxtape::tales {
namespace {

/// Of words.txt.
std::string list(std::string_view name) {
  std::string text(section_of(corpus_words, name));
  std::ranges::replace(text, '\n', ' ');
  return text;
}

std::string list_of(Land land, std::string_view what) {
  constexpr std::string_view names[lands] = {"water", "wood", "hill", "town"};
  return list(fmt::format("{} of {}", what, names[land]));
}

/// Words as options with weights 1000000 / (rank + 3), in the order given: Zipf's law with a flat head.
std::vector<Option> zipf(std::string_view list, int tag = 0, std::string_view before = {},
                         std::string_view after = {}) {
  constexpr std::string_view separator = ", ";
  std::vector<Option> options;
  for (std::size_t start = 0, rank = 0; start <= list.size(); ++rank) {
    const auto end = std::min(list.find(separator, start), list.size());
    options.push_back(
        {std::string(before) + std::string(list.substr(start, end - start)) + std::string(after),
         1'000'000 / (rank + 3), tag});
    start = end + separator.size();
  }
  return options;
}

/// Several lists as one choice: list i gets the share `shares[i] / sum`, divided by the words' weights.
struct Part {
  std::vector<Option> options;
  std::uint64_t share;
};
Table mix(const std::vector<Part>& parts) {
  std::vector<Option> all;
  for (const auto& [options, share] : parts) {
    std::uint64_t total = 0;
    for (const auto& option : options) total += option.weight;
    for (auto option : options) {
      option.weight = 1 + 100'000 * share * option.weight / total;
      all.push_back(option);
    }
  }
  return Table(all);
}

/// What one does with one's own, and with which of it.
struct Possessions {
  std::vector<Option> verbs;
  std::vector<Table> belongings;
};
Possessions possessions() {
  Possessions all;
  std::istringstream lines{std::string(section_of(corpus_words, "possessions"))};
  for (std::string line; std::getline(lines, line);) {
    const std::size_t colon = line.find(": "), rank = all.verbs.size();
    all.verbs.push_back({line.substr(0, colon) + " ", 1'000'000 / (rank + 3), first_possession + int(rank)});
    all.belongings.emplace_back(zipf(line.substr(colon + 2)));
  }
  return all;
}

std::vector<Land> all_places() {
  std::vector<Land> places;
  for (int land = 0; land < lands; ++land)
    places.insert(places.end(), zipf(list_of(Land(land), "places")).size(), Land(land));
  return places;
}

/// Every preposition of a land before every place of it.
Table place_phrases(std::string_view prepositions) {
  std::vector<Option> phrases;
  int place = 0;
  for (int land = 0; land < lands; ++land)
    for (const auto& noun : zipf(list_of(Land(land), "places"))) {
      for (const auto& preposition : zipf(list_of(Land(land), prepositions), 0, "", " "))
        phrases.push_back({preposition.text + noun.text, noun.weight * preposition.weight / 100000, place});
      ++place;
    }
  return Table(phrases);
}

std::vector<Table> all_sights(bool bare) {
  std::vector<Table> tables;
  for (int land = 0; land < lands; ++land) {
    const auto nouns = zipf(list_of(Land(land), "sights"));
    tables.push_back(
        bare ? Table(nouns)
             : mix({{with_article(nouns), 2}, {with_article(zipf(list("colours"), 1, "", " ")), 1}}));
  }
  return tables;
}

std::vector<Option> owned_things() {
  std::vector<Option> all;
  for (const auto& material : with_article(zipf(list("materials"), 0, "", " ")))
    for (const auto& thing : zipf(list("things")))
      all.push_back({material.text + thing.text, material.weight * thing.weight / 100'000, 0});
  return all;
}

Words build() {
  const auto people = zipf(list("trades"), 0), animals = zipf(list("beasts"), 1);
  const auto [verbs, belongings] = possessions();
  return {
      .names = mix({{zipf(list("women"), she), 1}, {zipf(list("men"), he), 1}}),
      .beast_names = Table(zipf(list("beast names"), it)),
      .trades = Table(people),
      .flocks = Table(zipf(list("flocks"))),
      .ages = Table(with_article(zipf(list("ages"), 0, "", " "))),
      .strangers = mix({{with_article(people), 5},
                        {with_article(animals), 5},
                        {zipf(list("numbers"), 2, "", " "), 2},
                        {with_article(zipf(list("qualities"), 3, "", " ")), 6}}),
      .strangers_bare = mix({{people, 1}, {animals, 1}}),
      .materials = Table(zipf(list("materials"), 0, "", " ")),
      .things = Table(zipf(list("things"))),
      .places = all_places(),
      .going = place_phrases("going"),
      .being = place_phrases("being"),
      .sights = all_sights(false),
      .sights_bare = all_sights(true),
      .verbs = mix({{zipf(list("going verbs"), 0, "", " "), 5},
                    {zipf(list("finding verbs"), 1, "", " "), 5},
                    {zipf(list("dealings"), 2, "", " "), 4},
                    {zipf(list("resting verbs"), 3, "", " "), 3},
                    {verbs, 3}}),
      .dealings = Table(zipf(list("dealings"), 0, "", " ")),
      .belongings = belongings,
      .losses = Table(zipf(list("losses"))),
      .origins = Table(zipf(list("origins"), 0, " ")),
      .owned_things = Table(owned_things()),
      .fates = Table(zipf(list("fates"))),
      .feelings = Table(zipf(list("feelings"))),
      .manners = Table(zipf(list("manners"))),
      .days = Table(zipf(list("days"), 0, "", " ")),
      .turns = Table(zipf(list("turns"), -1, "", " ")),
      .relatives = Table(zipf(list("relatives"))),
      .creatures =
          mix({{zipf(list("creatures"), it, "", " "), 1}, {zipf(list("many creatures"), they, "", " "), 1}}),
      .habits = {Table(zipf(list("habits"))), Table(zipf(list("habits of many")))},
      .endings = Table(zipf(list("endings"))),
  };
}

}  // namespace

std::vector<Option> with_article(std::vector<Option> options) {
  for (auto& option : options) {
    const bool vowel = std::string_view("aeiou").find(option.text[0]) != std::string_view::npos;
    option.text.insert(0, vowel ? "an " : "a ");
  }
  return options;
}

const Words& words() {
  static const Words built = build();
  return built;
}

}  // namespace mxtape::tales
