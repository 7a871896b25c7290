#pragma once
#include <string>
#include <vector>

#include "program/corpus/chooser.h"

namespace mxtape::tales {

enum Gender : int { he, she, it, they };

/// The same words with "a " or "an " before them.
std::vector<Option> with_article(std::vector<Option>);

/// Landscapes, which decide the prepositions and what there is to see.
enum Land : int { water, wood, hill, town, lands };

/// First of the tags of verbs like "closed ", which want something of one's own.
inline constexpr int first_possession = 200;

/// Every list of words, built and checked once.
struct Words {
  Table names;                     ///< tag: Gender (he or she)
  Table beast_names;               ///< tag: it
  Table trades;                    ///< "weaver"
  Table flocks;                    ///< "geese": more than one of a kind
  Table ages;                      ///< "a young ", "an old "
  Table strangers;                 ///< tag 0 "a weaver", 1 "a fox", 2 "three " before a flock, 3 "a clever "
  Table strangers_bare;            ///< after tag 3: tag 0 "weaver", 1 "fox"
  Table materials;                 ///< "silver "
  Table things;                    ///< "key"
  std::vector<Land> places;        ///< where each lies
  Table going;                     ///< "to the river", tag: index into places
  Table being;                     ///< "by the river", tag: index into places
  std::vector<Table> sights;       ///< by Land: "a boat", tag 0; "a red ", tag 1
  std::vector<Table> sights_bare;  ///< by Land, after tag 1: "boat"
  Table verbs;                    ///< of main clauses, by tag: where to, what, whom, how; first_possession on
  Table dealings;                 ///< "feared ": what one does to somebody
  std::vector<Table> belongings;  ///< "eyes": after "closed her", by tag - first_possession
  Table losses;                   ///< "forgotten": what somebody had done with a thing
  Table origins;                  ///< " had carved"
  Table owned_things;             ///< "a glass harp"
  Table fates;                    ///< what became of it
  Table feelings;                 ///< "hungry"
  Table manners;                  ///< "softly"
  Table days;                     ///< "The next morning ": begins a paragraph
  Table turns;                    ///< "Then ": begins a sentence; tag -1
  Table relatives;                ///< "mother": whom one quotes
  Table creatures;                ///< "fox " tag it, "foxes " tag they: subjects of the present tense
  Table habits[2];                ///< "sleeps" for one, "sleep" for many
  Table endings;                  ///< "and lived there in peace"
};

const Words& words();

}  // namespace mxtape::tales
