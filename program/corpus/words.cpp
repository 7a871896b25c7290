#include "program/corpus/words.h"

#include <algorithm>

namespace mxtape::tales {
namespace {

constexpr char trades[] =
    "weaver, miller, shepherd, tailor, baker, hunter, fisher, potter, smith, gardener, carpenter, soldier, "
    "singer, cook, sailor, painter, healer, tinker, farmer, cobbler, drummer, scribe, glazier, mason, piper, "
    "merchant, ferryman, clockmaker, beekeeper, woodcutter, candlemaker, dyer, juggler, teacher, swineherd, "
    "lacemaker, innkeeper, bookbinder, roper, cooper";
constexpr char beasts[] =
    "fox, wolf, owl, bear, hare, raven, heron, cat, dog, otter, badger, goat, hedgehog, crow, frog, donkey, "
    "swan, mouse, stag, lynx, toad, weasel, magpie, squirrel, snail, eagle, beaver, mole, stork, ox";
constexpr char flocks[] =
    "geese, soldiers, sisters, sparrows, pilgrims, wolves, children, goats, robbers, ravens, monks, sailors, "
    "mice, musicians, foxes, merchants, widows, crows, giants, travellers";
constexpr char qualities[] =
    "clever, small, hungry, tired, grey, proud, quiet, brave, lame, kind, strange, tall, blind, cheerful, "
    "lonely, ragged, gentle, humble, greedy, sly";
constexpr char colours[] =
    "red, broken, small, black, heavy, wooden, yellow, strange, old, empty, blue, rusty, painted, forgotten, "
    "bright, crooked, narrow, shining, torn, dusty";

constexpr char dealings[] =
    "feared, loved, helped, followed, woke, trusted, deceived, fed, greeted, married, chased, forgave, "
    "taught, saved, admired, warned, mocked, envied, comforted, betrayed";
constexpr char materials[] =
    "silver, golden, glass, iron, wooden, copper, ivory, crystal, paper, velvet, stone, tin, amber, marble, "
    "leather, bronze";
constexpr char things[] =
    "key, ring, cup, bell, crown, flute, comb, apple, mirror, box, lamp, needle, spoon, coin, book, sword, "
    "egg, harp, button, thimble, compass, feather, mask, spindle";

/// What one does with one's own, and with which of it.
struct PossessionWords {
  const char *verb, *nouns;
};
constexpr PossessionWords possession_words[] = {
    {"closed ", "eyes, window, book, door"}, {"packed ", "bag, tools, bread"},
    {"told ", "story, dream, secret"},       {"forgot ", "promise, name, supper"},
    {"counted ", "coins, days, teeth"},      {"washed ", "hands, face, shirt"},
    {"opened ", "purse, letter, eyes"},      {"lost ", "courage, way, hat"},
    {"kept ", "promise, secret, word"},      {"hid ", "tears, face, money"}};

struct LandWords {
  const char *places, *going, *being, *sights;
};
// By Land. Prepositions end where the place's noun begins.
constexpr LandWords land_words[lands] = {
    {"river, lake, ford, harbour, marsh, waterfall, well, island, spring, pond, canal, bay",
     "to the , across the , along the ", "by the , near the ",
     "boat, net, ferry, fish, bridge, oar, bucket, anchor, barrel, shell, raft, rope, reed, lantern, pearl, "
     "ship"},
    {"forest, clearing, thicket, orchard, grove, hollow, glade, pinewood, hedge, ravine, vineyard, bramble "
     "patch",
     "into the , through the , to the ", "in the , near the ",
     "nest, cabin, path, stump, mushroom, trap, spring, birch, fire, cart, oak, axe, feather, acorn, hive, "
     "snare"},
    {"mountain, ridge, cave, tower, cliff, pass, quarry, meadow, ruin, moor, summit, windmill",
     "up to the , towards the , past the ", "below the , near the ",
     "stone, cairn, staircase, gate, beacon, bell, flag, footprint, wall, sword, kite, arch, iron ring, "
     "ladder, horn, shadow"},
    {"market, village, castle, chapel, inn, mill, square, bakery, garden, smithy, school, stable",
     "to the , back to the , around the ", "behind the , near the ",
     "loaf, clock, basket, letter, drum, mirror, coat, apple, door, candle, broom, wheel, kettle, crown, "
     "fiddle, umbrella"}};

std::vector<Place> all_places() {
  std::vector<Place> places;
  for (int land = 0; land < lands; ++land)
    for (const auto& option : zipf(land_words[land].places)) places.push_back({option.text, Land(land)});
  return places;
}

/// Every preposition of a land before every place of it.
Table place_phrases(const char* LandWords::*prepositions) {
  std::vector<Option> phrases;
  int place = 0;
  for (const auto& land : land_words)
    for (const auto& noun : zipf(land.places)) {
      for (const auto& preposition : zipf(land.*prepositions))
        phrases.push_back({preposition.text + noun.text, noun.weight * preposition.weight / 100000, place});
      ++place;
    }
  return Table(phrases);
}

std::vector<Table> all_sights(bool bare) {
  std::vector<Table> tables;
  for (const auto& land : land_words) {
    const auto nouns = zipf(land.sights);
    tables.push_back(bare ? Table(nouns)
                          : mix({{with_article(nouns), 2}, {with_article(zipf(colours, 1, "", " ")), 1}}));
  }
  return tables;
}

std::vector<Option> possessions() {
  std::vector<Option> verbs;
  for (const auto& [verb, nouns] : possession_words)
    verbs.push_back({verb, 1'000'000 / (verbs.size() + 3), first_possession + int(verbs.size())});
  return verbs;
}

std::vector<Table> all_belongings() {
  std::vector<Table> tables;
  for (const auto& [verb, nouns] : possession_words) tables.emplace_back(zipf(nouns));
  return tables;
}

std::vector<Option> owned_things() {
  std::vector<Option> all;
  for (const auto& material : with_article(zipf(materials, 0, "", " ")))
    for (const auto& thing : zipf(things))
      all.push_back({material.text + thing.text, material.weight * thing.weight / 100'000, 0});
  return all;
}

Words build() {
  const auto people = zipf(trades, 0), animals = zipf(beasts, 1);
  return {
      .names =
          mix({{zipf("Anna, Marta, Elsa, Greta, Clara, Rosa, Ida, Nora, Lena, Vera, Olga, Paula, Sofia, "
                     "Maud, Tilda, Agnes, Bertha, Dora, Flora, Hedda, Irma, Johanna, Katrin, Ludmila, Mina, "
                     "Nell, Ottilie, Petra, Ruth, Sigrid, Thea, Ursula, Wilma, Yvette, Zelda",
                     she),
                1},
               {zipf("Hans, Peter, Karl, Otto, Emil, Bruno, Felix, Jakob, Anton, Oskar, Hugo, Konrad, "
                     "Viktor, Ludwig, Moritz, Niklas, Albert, Bernard, Casper, David, Erik, Franz, Gustav, "
                     "Henrik, Ivan, Julius, Leo, Max, Oliver, Philip, Roland, Stefan, Thomas, Ulrich, Walter",
                     he),
                1}}),
      .beast_names = Table(
          zipf("Tarn, Bramble, Moss, Pepper, Ember, Flint, Nettle, Thistle, Rust, Soot, Willow, Hazel, "
               "Juniper, Clover, Sorrel, Fern, Quill, Mistral, Barley, Copper, Velvet, Shadow, Birch, Ginger",
               it)),
      .trades = Table(people),
      .beasts = Table(animals),
      .flocks = Table(zipf(flocks)),
      .ages = Table(with_article(
          zipf("young, poor, old, clever, lonely, cheerful, stubborn, humble, quiet, idle", 0, "", " "))),
      .strangers = mix({{with_article(people), 5},
                        {with_article(animals), 5},
                        {zipf("two, three, seven, some", 2, "", " "), 2},
                        {with_article(zipf(qualities, 3, "", " ")), 6}}),
      .strangers_bare = mix({{people, 1}, {animals, 1}}),
      .materials = Table(zipf(materials, 0, "", " ")),
      .things = Table(zipf(things)),
      .places = all_places(),
      .going = place_phrases(&LandWords::going),
      .being = place_phrases(&LandWords::being),
      .sights = all_sights(false),
      .sights_bare = all_sights(true),
      .verbs = mix(
          {{zipf(
                "walked, ran, hurried, crept, rode, wandered, went, travelled, flew, danced, limped, marched",
                0, "", " "),
            5},
           {zipf("saw, found, painted, bought, dreamed of, looked for, broke, sold, mended, stumbled over, "
                 "drew, stole, heard about, dug up",
                 1, "", " "),
            5},
           {zipf(dealings, 2, "", " "), 4},
           {zipf("wept, slept, sang, laughed, waited, sat, stood there, trembled, prayed, whistled, snored, "
                 "read",
                 3, "", " "),
            3},
           {possessions(), 3}}),
      .dealings = Table(zipf(dealings, 0, "", " ")),
      .belongings = all_belongings(),
      .losses = Table(
          zipf("lost, made, forgotten, wanted, hidden, broken, bought, painted, left behind, thrown away")),
      .origins = Table(zipf("had made, had found, had carved, had left behind, had hidden for years, had won "
                            "in a bet, had brought from far away, had never shown to anyone",
                            0, " ")),
      .owned_things = Table(owned_things()),
      .fates = Table(zipf(
          "sold it to a stranger, lost it in the sea, gave it to the moon, broke it on the first day, hid it "
          "so well that nobody found it, dreamed of it every night, forgot where it was, never let it go, "
          "traded it for a loaf, buried it under a stone, used it only once, threw it into the fire")),
      .feelings = Table(zipf("hungry, tired, afraid, glad, sad, angry, cold, happy, lost, thirsty, ashamed, "
                             "proud, silent, restless, content, sleepy, curious, jealous, surprised, lonely, "
                             "brave, merry, worried, grateful, weary")),
      .manners = Table(zipf("softly, for a long time, all night, without a word, like a child, until dawn, "
                            "bitterly, alone, in the rain, with joy, under the stars, as if nothing had "
                            "happened, by the fire, quietly, again and again, in the dark")),
      .days = Table(
          zipf("The next morning, One evening, After three days, That night, In the spring, On the seventh "
               "day, At noon, Before sunrise, When the snow fell, Late in autumn, A week later, On market "
               "day, At midnight, When the moon rose, Early one Sunday, After the harvest",
               0, "", " ")),
      .turns = Table(
          zipf("Then, Soon, Suddenly, Later, After a while, Once more, Without a sound, Meanwhile, Far away, "
               "Little by little, Again, Now, From that hour on, In the end, For a moment, Every evening",
               -1, "", " ")),
      .relatives = Table(
          zipf("mother, father, grandmother, brother, uncle, aunt, sister, grandfather, master, godmother")),
      .creatures = mix({{zipf("fox, wolf, owl, king, moon, river, wind, queen, bear, miller, frog, thief, "
                              "bee, giant, witch, crow, horse, star",
                              it, "", " "),
                         1},
                        {zipf("foxes, wolves, owls, kings, rivers, winds, queens, bears, millers, frogs, "
                              "thieves, bees, giants, witches, crows, horses, stars",
                              they, "", " "),
                         1}}),
      .habits = {Table(zipf("sleeps, sings, waits, dances, listens, remembers, forgives, laughs, returns, "
                            "hides, dreams, wanders, weeps, forgets, sees everything, never lies")),
                 Table(zipf("sleep, sing, wait, dance, listen, remember, forgive, laugh, return, hide, "
                            "dream, wander, weep, forget, see everything, never lie"))},
      .endings =
          Table(zipf("and lived there in peace, and slept for three days, and told the story to everyone, "
                     "and never left again, and planted an apple tree, and danced until morning, and nobody "
                     "asked any questions, and baked bread for the whole village, and the bells rang all "
                     "night, and was never hungry again, and that was enough, and the snow began to fall")),
  };
}

}  // namespace

std::vector<Option> zipf(std::string_view list, int tag, std::string_view before, std::string_view after) {
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

std::vector<Option> with_article(std::vector<Option> options) {
  for (auto& option : options) {
    const bool vowel = std::string_view("aeiou").find(option.text[0]) != std::string_view::npos;
    option.text.insert(0, vowel ? "an " : "a ");
  }
  return options;
}

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

const Words& words() {
  static const Words built = build();
  return built;
}

}  // namespace mxtape::tales
