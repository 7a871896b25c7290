// results.json that somebody edited.
#include <gtest/gtest.h>

#include <fstream>
#include <nlohmann/json.hpp>

#include "tests/program/referee/judged_results.h"
#include "tests/support/temporary_folder.h"

namespace mxtape::referee::test {
namespace {

/// Something in every list.
Results full_results() {
  Results r = results();
  r.asked.families = {{"mx", {1, 2}}}, r.asked.tune = {9};
  r.asked.steps_to = {2}, r.runs[0].spikes = {{.step = 4, .z = 7}},
  r.runs[0].curve = {{.step = 4, .loss = 3}};
  r.tunes = {{.arm = 2, .value = 0.004, .loss = 1.9, .runs = 2, .best = true}};
  r.switches = {{.arm = 1, .step = 30, .steps = 50}}, r.not_run = {"nothing"};
  r.times.steps = {{.size = 1, .arm = 1, .ms = 3, .runs = 3}}, r.times.runs.resize(r.runs.size());
  judge(r), add_steps_to(r);
  return r;
}

class ResultsFile : public testing::Test {
 protected:
  static constexpr const char* long_lists[] = {"/runs",
                                               "/times/runs",
                                               "/gaps",
                                               "/efficiencies",
                                               "/steps_to",
                                               "/times/seconds_to",
                                               "/contrast_results",
                                               "/law/residuals"};

  ResultsFile() {  // one of a kind is enough, and read in a tenth of the time
    for (const char* list : long_lists)
      whole_.at(Json::json_pointer(list)).get_ref<Json::array_t&>().resize(2);
  }
  /// The error's text; empty: it reads.
  std::string error_of(const Json& json) const {
    std::ofstream(folder_ / "results.json") << json;
    try {
      page(read_results(folder_ / "results.json"));
      return "";
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      return e.what();
    }
  }
  /// Calls `visit` with each value and where it is: "/runs/3/arm".
  template <class Visit>
  static void each(Json& json, const std::string& place, const Visit& visit) {
    if (json.is_object())
      for (auto& [key, value] : json.items()) each(value, place + "/" + key, visit);
    else if (json.is_array() && !json.empty() && !json.front().is_number_float())
      each(json.back(), fmt::format("{}/{}", place, json.size() - 1), visit);
    else
      visit(json, place);
  }

  const TemporaryFolder folder_;
  Json whole_ = Json::parse(json_text(value_of(full_results())));
};

TEST_F(ResultsFile, AnIndexOfNothingIsRefusedByItsPlace) {
  int indices = 0;
  each(whole_, "", [&](Json& value, const std::string& place) {
    const std::string name = place.substr(place.rfind('/') + 1);
    const bool index = name == "arm" || name == "point" || name == "size" || name == "contrast" ||
                       name == "baseline" || place.substr(0, place.rfind('/')).ends_with("/arms");
    if (!index || !value.is_number()) return;
    const Json was = value;
    for (const Json& bad : {Json(99), Json(-1), Json(0.5), Json(true)}) {
      value = bad;
      const std::string error = error_of(whole_);
      EXPECT_NE(error.find(fmt::format("/results.json: {}: ", place)), std::string::npos) << error;
    }
    value = was, ++indices;
  });
  EXPECT_EQ(indices, 24) << "in every list that has them, but correlations";
  EXPECT_EQ(error_of(whole_), "");
  whole_["runs"][1]["arm"] = 3;
  EXPECT_TRUE(error_of(whole_).ends_with(
      "/results.json: /runs/1/arm: 3; want an index below 3; want the results.json of a sweep"))
      << error_of(whole_);
}

TEST_F(ResultsFile, AValueOfAnotherTypeIsRefusedByItsPlace) {
  each(whole_, "", [&](Json& value, const std::string& place) {
    if (place.ends_with("_reason")) return;
    const Json was = value;
    value = Json{{"another", "type"}};
    EXPECT_NE(error_of(whole_).find(": " + place), std::string::npos) << place << ": " << error_of(whole_);
    value = was;
  });
}

TEST_F(ResultsFile, ASeedIsAnIntegerFromZeroOn) {
  for (const Json& bad : {Json(-1), Json(0.5), Json(true)}) {
    whole_["runs"][1]["seed"] = bad;
    EXPECT_NE(error_of(whole_).find("/runs/1/seed: " + bad.dump() + " is no integer >= 0; want"),
              std::string::npos)
        << error_of(whole_);
  }
}

TEST_F(ResultsFile, ListsThatBelongTogetherAreAsLong) {
  const auto refuses = [&](const char* pointer, const char* message) {
    Json shorter = whole_;
    Json& list = shorter[Json::json_pointer(pointer)];
    list.erase(list.size() - 1);
    EXPECT_NE(error_of(shorter).find(message), std::string::npos) << pointer << ": " << error_of(shorter);
  };
  refuses("/times/runs", "/times/runs: want one for each of /runs");
  refuses("/times/seconds_to", "/times/seconds_to: want one for each of /steps_to");
  for (const char* list : long_lists) whole_[Json::json_pointer(list)] = Json::array();
  whole_["points"] = Json::array();
  EXPECT_NE(error_of(whole_).find("/points: there are none"), std::string::npos) << error_of(whole_);
}

}  // namespace
}  // namespace mxtape::referee::test
