#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>

#include "core/error.h"
#include "formats/text/peer_names.h"
#include "tests/formats/random_quantizer.h"

namespace mxtape {
namespace {

using namespace test;

std::string error_of(std::string_view text) {
  try {
    (void)parse_quantizer(text);
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::usage);
    return e.what();
  }
  return "no error";
}

TEST(Text, RandomQuantizersAreWrittenAndReadBackAsTheyWere) {
  for_all("parse(to_text(q)) == q", 5000, random_quantizer, [](const Quantizer& q) {
    const Quantizer back = parse_quantizer(to_text(q));
    if (!(back == q)) ADD_FAILURE() << to_text(q) << " -> " << to_text(back);
    return back == q;
  });
}

TEST(Text, PresetsAndElementsAreTheirOwnShortestText) {
  for (const Preset& preset : presets) {
    EXPECT_EQ(parse_quantizer(preset.name), preset.quantizer) << preset.name;
    EXPECT_LE(to_text(preset.quantizer).size(), preset.name.size());
  }
  for (const NamedFormat& row : element_formats) EXPECT_EQ(to_text(plain_cast(row.format)), row.name);
  EXPECT_EQ(to_text(mx(e2m1, 32, ScaleRule::even)), "mxfp4 rule=even");
}

TEST(Text, EveryRoundingAndScaleRuleIsReadAndStandsInTheDocsWithItsMeaning) {
  const auto page = [](const char* name) {
    std::ifstream file(std::string(MXTAPE_SOURCE "/docs/") + name);
    return std::string(std::istreambuf_iterator<char>(file), {});
  };
  const std::string formats = page("formats.md"), numerics = page("numerics.md");
  // The page's list has an item for each key, with the default first: "* `rule=floor`, `ceil`, ...".
  const auto stands_in_item = [&](const std::string& key, std::string_view word) {
    const auto begin = formats.find(fmt::format("* `{}=", key));
    const std::string item =
        formats.substr(std::min(begin, formats.size()), formats.find("\n* ", begin) - begin);
    return item.find(fmt::format("`{}`", word)) != std::string::npos ||
           item.find(fmt::format("`{}={}`", key, word)) != std::string::npos;
  };
  for (const NamedRule& row : scale_rules) {
    EXPECT_EQ(parse_quantizer(fmt::format("mxfp4 rule={}", row.name)).rule, row.value);
    EXPECT_NE(numerics.find(fmt::format("| `{}` | {} |", row.name, row.delta)), std::string::npos)
        << row.name;
    EXPECT_TRUE(stands_in_item("rule", row.name)) << row.name;
  }
  for (const NamedRounding& row : roundings) {
    EXPECT_EQ(parse_quantizer(fmt::format("mxfp4 round={}", row.name)).rounding, row.value);
    EXPECT_NE(numerics.find(fmt::format("| `{}` | {} |", row.name, row.meaning)), std::string::npos)
        << row.name;
    EXPECT_TRUE(stands_in_item("round", row.name)) << row.name;
  }
}

TEST(Text, WordsMayStandInAnotherOrderAndBlocksHaveNames) {
  EXPECT_EQ(parse_quantizer("e2m1 rule=even block=32 scale=e8m0 round=stochastic"),
            parse_quantizer("mxfp4 round=stochastic rule=even"));
  EXPECT_EQ(parse_quantizer("mxfp4 block=32x1"), mxfp4);
  EXPECT_EQ(parse_quantizer("mxfp4 block=axis").block, (BlockShape{0, 1}));
  EXPECT_EQ(parse_quantizer("mxfp4 block=tensor").block, (BlockShape{0, 0}));
  EXPECT_EQ(parse_quantizer("e4m3 emax=auto specials=ieee").element.emax, 7);
  EXPECT_EQ(to_text(parse_quantizer("int8 scale=e8m0 rule=ceil overflow=nan")),
            "mxint8 rule=ceil overflow=nan");  // the only blocks that are beyond e8m0
}

TEST(Text, MistakesNameTheWordWhatIsKnownAndTheNearestName) {
  EXPECT_EQ(
      error_of("mxpf4"),
      "quantizer 'mxpf4': no such format; did you mean 'mxfp4'? (also any e<x>m<y> with x from 1 to 8 and "
      "y to 22, int<n> with n from 2 to 24)");
  EXPECT_NE(error_of("MXFP4").find("did you mean 'mxfp4'?"), std::string::npos);
  EXPECT_EQ(error_of("mxfp4 blok=3"), "quantizer 'mxfp4 blok=3': unknown word 'blok'; did you mean 'block'?");
  EXPECT_EQ(error_of("mxfp4 rule=up"),
            "quantizer 'mxfp4 rule=up': rule=up is not known; known: floor ceil even rceil rfloor rnearest");
  EXPECT_EQ(error_of("mxfp4 rule=even rule=ceil"),
            "quantizer 'mxfp4 rule=even rule=ceil': 'rule' is given twice");
  EXPECT_EQ(error_of("mxfp4 block"), "quantizer 'mxfp4 block': 'block' needs a value");
  EXPECT_EQ(error_of("bf16 block=32"),
            "quantizer 'bf16 block=32': 'block' has no effect here; is scale=e8m0 missing?");
  EXPECT_EQ(
      error_of("mxfp4 alpha=3"),
      "quantizer 'mxfp4 alpha=3': alpha=3; want a number in (0, 2] whose reciprocal is an f32, so above "
      "2^-128");
  EXPECT_NO_THROW((void)parse_quantizer("mxfp4 alpha=3e-39"));  // 1.02 x 2^-128
  EXPECT_EQ(error_of("mxfp4 sr.bits=33 round=stochastic"),
            "quantizer 'mxfp4 sr.bits=33 round=stochastic': sr.bits=33; want 8 to 32");
  EXPECT_EQ(error_of(""), "quantizer: empty; want a format such as mxfp4 or e2m1 block=32 scale=e8m0");
  for (const char* text : {"e9m1",
                           "e0m3",
                           "e04m3",
                           "int1",
                           "int25",
                           "e8m0",
                           "mxfp4 scale=e12m0",
                           "mxfp4 scale=e10m0 overflow=nan",
                           "bf16 scale=e10m0",
                           "mxfp4 scale=int8",
                           "f32 round=stochastic",
                           "mxfp4 alpha=2.9387358770557188e-39",
                           "mxfp4 alpha=2",
                           "mxfp4 block=0",
                           "mxfp4 block=-3",
                           "mxfp4 block=3x",
                           "mxfp4 4o6",
                           "nvfp4 offset=fp16",
                           "bf16 specials=none",
                           "e2m1 range=full",
                           "mxfp4 sr.bits=8",
                           "nvfp4 rule=even",
                           "e1m0 specials=nan",
                           "e1m1 specials=ieee",
                           "nvfp4 scale=ue1m0",
                           "e3m0 scale=e8m0 tie=code round=away",
                           "e4m3 emax=3",
                           "mxfp8 emax=3 rule=rceil",
                           "mxfp4 overflow=nan",
                           "bf16 scale=bf16",
                           "bf16 scale=f32",
                           "int16 scale=e8m0 range=full offset=int",
                           "int17 scale=e8m0 offset=int",
                           "e7m2 scale=e7m2",
                           "e7m2 scale=e4m3 eden",
                           "nvfp4 flush",
                           "mxfp4 scale=f32 flush",
                           "e2m1 specials=nan scale=e4m3 4o6"})
    EXPECT_NE(error_of(text), "no error") << text;
}

TEST(Text, NamesOfPeersThatMeanTheSameAreReadAndOursAreWritten) {
  for (const auto& [theirs, ours] : {std::pair("mxfp4_e2m1", "mxfp4"),
                                     {"mxfp8e4m3", "mxfp8"},
                                     {"fp16", "f16"},
                                     {"bfloat16", "bf16"},
                                     {"e4m3fn", "e4m3"}}) {
    EXPECT_EQ(parse_quantizer(theirs), parse_quantizer(ours));
    EXPECT_EQ(to_text(parse_quantizer(theirs)), ours);
  }
  EXPECT_EQ(parse_quantizer("mxfp4_e2m1 rule=even"), parse_quantizer("mxfp4 rule=even"));
  EXPECT_EQ(parse_quantizer("e4m3fn scale=e8m0"), mxfp8_e4m3);
}

TEST(Text, NamesOfPeersThatLeaveTheScaleOpenAreAnsweredWithBothOfOurs) {
  EXPECT_EQ(
      error_of("fp4_e2m1 rule=even"),
      "quantizer 'fp4_e2m1 rule=even': 'fp4_e2m1' leaves open whether blocks have a scale; write 'mxfp4' "
      "for blocks of 32 with one, 'e2m1' for a plain cast");
  EXPECT_NE(error_of("float8_e4m3fn").find("'mxfp8_e4m3' for blocks of 32 with one, 'e4m3'"),
            std::string::npos);
  EXPECT_NE(error_of("float4_e2m1fn_x2").find("'mxfp4'"), std::string::npos);
  EXPECT_NE(error_of("float8_e8m0fnu").find("scale=e8m0"), std::string::npos);
  EXPECT_NE(error_of("float8_e4m3fnuz").find("no such element here"), std::string::npos);
}

TEST(Text, EveryNameInTheTableOfPeersIsOfOneKindAndPointsToFormatsThatThereAre) {
  for (const PeerName& row : peer_names) {
    EXPECT_EQ(int(row.is_exact()) + int(!row.element.empty()) + int(!row.remark.empty()), 1) << row.name;
    EXPECT_EQ(row.element.empty(), row.blocks.empty()) << row.name;
    for (const std::string_view ours : {row.ours, row.element, row.blocks})
      if (!ours.empty()) {
        EXPECT_NO_THROW((void)parse_quantizer(ours)) << row.name;
      }
    if (!row.element.empty()) {
      EXPECT_EQ(parse_quantizer(row.element).element, parse_quantizer(row.blocks).element) << row.name;
    }
    EXPECT_FALSE(parse_element(row.name)) << row.name << " is a name of ours";
    for (const Preset& preset : presets) EXPECT_NE(row.name, preset.name);
  }
}

}  // namespace
}  // namespace mxtape
