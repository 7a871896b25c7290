// eval --choices: log-likelihoods against those of texts, accuracies against a count here, and all of it
// against EleutherAI's lm-evaluation-harness where MXTAPE_PYTHON names a Python that has it.
#include <cmath>
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

class Choices : public ProgramTest {
 protected:
  Choices() {  // in f32, in which sample draws and eval scores
    EXPECT_EQ(run({"train", "tiny.toml", "--precision.weights=f32", "--precision.activations=f32",
                   "--precision.gradients=f32"}),
              0)
        << output_;
  }

  /// The document of `eval --choices` in f32.
  Json scored(const std::vector<Json>& items) {
    std::string lines;
    for (const Json& item : items) lines += item.dump() + "\n";
    write_atomically(folder_ / "c.jsonl", lines);
    EXPECT_EQ(run({"eval", "runs/tiny", "--choices", "c.jsonl", "--precision", "f32", "--json"}), 0)
        << output_;
    return Json::parse(output_);
  }
  static double score(const Json& scored, std::size_t item, std::size_t choice) {
    return scored["results"][0]["items"][item]["log_likelihoods"][choice];
  }
  /// -log p of all characters of a text but the first.
  double nats(const std::string& text) {
    write_atomically(folder_ / "text.txt", text);
    EXPECT_EQ(run({"eval", "runs/tiny", "--text", "text.txt", "--precision", "f32", "--json"}), 0) << output_;
    const Json json = Json::parse(output_);
    return json["results"][0]["loss"].get<double>() * json["scored_tokens"].get<double>();
  }
};

// Passes of other lengths add in another order: some hundred roundings of f32.
constexpr double roundings = 1e-5;

TEST_F(Choices, ALogLikelihoodIsThatOfTheWholeTextLessThatOfTheContext) {
  const Json json = scored({{{"context", "the cat"}, {"choices", {"sat", "the hat"}}, {"answer", 0}},
                            {{"context", "the  "}, {"choices", {"cat"}}, {"delimiter", ""}}});
  EXPECT_EQ(json["items"], 2);
  EXPECT_EQ(json["last_words"], 1);
  EXPECT_EQ(json["cut"], 0);
  const double cat = nats("the cat");
  EXPECT_NEAR(score(json, 0, 0), cat - nats("the cat sat"), roundings * 20);
  EXPECT_NEAR(score(json, 0, 1), cat - nats("the cat the hat"), roundings * 40);
  EXPECT_NEAR(score(json, 1, 0), nats("the") - nats("the  cat"), roundings * 20)
      << "blanks at the end of a context are scored";
  EXPECT_NEAR(json["results"][0]["last_word_perplexity"].get<double>() * std::exp(score(json, 1, 0)), 1,
              1e-12);
}

TEST_F(Choices, AccuraciesCountTheLikeliestChoiceAndTheLikeliestOneByCharacter) {
  std::vector<Json> items;
  for (int answer = 0; answer < 3; ++answer)
    for (const char* const context : {"the", "the cat", "a", "sat"})
      items.push_back({{"context", context}, {"choices", {"cat", "cat the cat", "t"}}, {"answer", answer}});
  const Json json = scored(items);
  double right = 0, by_length = 0;
  for (std::size_t i = 0; i < items.size(); ++i) {
    std::size_t best = 0, best_by_length = 0;
    const double characters[] = {3, 11, 1};
    for (std::size_t k = 1; k < 3; ++k) {
      if (score(json, i, k) > score(json, i, best)) best = k;
      if (score(json, i, k) / characters[k] > score(json, i, best_by_length) / characters[best_by_length])
        best_by_length = k;
    }
    right += items[i]["answer"] == best;
    by_length += items[i]["answer"] == best_by_length;
  }
  EXPECT_EQ(json["results"][0]["accuracy"], right / 12);
  EXPECT_EQ(json["results"][0]["accuracy_normalised"], by_length / 12);
  EXPECT_NE(score(json, 0, 0) > score(json, 0, 1), score(json, 0, 0) / 3 > score(json, 0, 1) / 11)
      << "the two accuracies are told apart";
  EXPECT_TRUE(json["results"][0]["last_word_accuracy"].is_null());
}

TEST_F(Choices, ALastWordIsRightIfItIsWhatTheModelSaysGreedily) {
  ASSERT_EQ(run({"sample", "runs/tiny", "--prompt", "the", "--tokens", "4", "--temperature", "0", "--json"}),
            0);
  std::string text = Json::parse(output_)["samples"][0]["text"];
  const auto accuracy = [&] {
    return scored(
        {{{"context", "the"}, {"delimiter", ""}, {"choices", {text}}}})["results"][0]["last_word_accuracy"];
  };
  EXPECT_EQ(accuracy(), 1) << text;
  text.back() = text.back() == 't' ? 'a' : 't';
  EXPECT_EQ(accuracy(), 0) << text;
}

TEST_F(Choices, AContextBeyondTheModelsLosesItsFirstTokensAndTheOutputSaysHowMany) {
  const std::string end = "the cat sat th";  // with a blank and "e" 16 tokens, and one is not read
  const Json whole = scored({{{"context", "the the " + end}, {"choices", {"e", "a"}}, {"answer", 1}}}),
             rest = scored({{{"context", "e " + end.substr(1)}, {"choices", {"e", "a"}}, {"answer", 1}}});
  EXPECT_EQ(whole["cut"], 1);
  EXPECT_EQ(run({"eval", "runs/tiny", "--choices", "c.jsonl", "--precision", "f32"}), 0);
  const Json kept =
      scored({{{"context", ("the the " + end).substr(7)}, {"choices", {"e", "a"}}, {"answer", 1}}});
  EXPECT_EQ(kept["cut"], 0);
  EXPECT_EQ(score(whole, 0, 0), score(kept, 0, 0));
  EXPECT_NE(score(whole, 0, 0), score(rest, 0, 0));
}

TEST_F(Choices, WhatALineLacksOrHasTooMuchOfIsRefusedByItsNumber) {
  const auto refused = [&](const std::string& line, const std::string& message) {
    write_atomically(folder_ / "bad.jsonl", "{\"context\": \"the\", \"choices\": [\"cat\"]}\n" + line + "\n");
    EXPECT_EQ(run({"eval", "runs/tiny", "--choices", "bad.jsonl"}), int(ExitCode::data)) << line;
    EXPECT_TRUE(says("bad.jsonl: line 2: " + message));
    EXPECT_FALSE(says("precision")) << "before anything is measured";
  };
  refused("the cat", "parse error");
  refused("[]", "item: is []; want an object");
  refused("", "parse error");
  refused(R"({"choices": ["a"]})", "item.context is missing");
  refused(R"({"context": "the", "choices": "a"})", "item.choices = \"a\"; want a list");
  refused(R"({"context": "the", "choices": ["a", ""]})", "item.choices = \"\"; want texts");
  refused(R"({"context": "the", "choices": []})", "item.choices = []; want a text or more");
  refused(R"({"context": "the", "choices": ["a", "t"]})", "item.answer is missing");
  refused(R"({"context": "the", "choices": ["a", "t"], "answer": 2})", "item.answer = 2; want");
  refused(R"({"context": "the", "choices": ["a", "t"], "answer": 1, "gold": 1})",
          "item: the key \"gold\" is not understood");
  refused(R"({"context": "", "choices": ["a"]})", "no context, and the tokenizer");
  refused(R"({"context": "the", "choices": ["the cat sat the cat"]})",
          "a continuation of 20 tokens; want 1 to 16, the model's context");
  refused(R"({"context": "the", "choices": ["\u00e9"]})", "");
  write_atomically(folder_ / "empty.jsonl", std::string());
  EXPECT_EQ(run({"eval", "runs/tiny", "--choices", "empty.jsonl"}), int(ExitCode::data));
  EXPECT_TRUE(says("empty.jsonl: is empty; want a JSON object in each line"));
  EXPECT_EQ(run({"eval", "runs/tiny", "--choices", "bad.jsonl", "--windows", "3"}), int(ExitCode::usage));
}

TEST_F(Choices, TheUsualHarnessCountsTheSame) {
  const char* const given = std::getenv("MXTAPE_PYTHON");
  const std::string python = given ? given : "python3";
  if (std::system((python + " -c 'import lm_eval, torch' 2> /dev/null").c_str()) != 0)
    GTEST_SKIP() << python << " has no lm-eval with torch; MXTAPE_PYTHON names one that has";
  ASSERT_EQ(run({"export", "runs/tiny", "--to", "hf", "-o", "hf"}), 0) << output_;
  std::vector<Json> items;
  for (int answer = 0; answer < 3; ++answer)
    for (const char* const context : {"the", "the cat ", "the cat sat the cat sat", "sat"}) {
      items.push_back({{"context", context}, {"choices", {"cat", "cat the cat", "t"}}, {"answer", answer}});
      items.push_back({{"context", context}, {"choices", {"the"}}, {"delimiter", answer ? " " : ""}});
    }
  const Json ours = scored(items);
  const std::string command = "cd '" + folder_.path().string() + "' && " + python +
                              " '" MXTAPE_SOURCE
                              "/tests/interop/check_choices.py' hf c.jsonl 16 > their.json 2> err.txt";
  ASSERT_EQ(std::system(command.c_str()), 0) << command;
  std::ifstream file(folder_ / "their.json");
  const Json theirs = Json::parse(file);
  for (const char* const key : {"accuracy", "accuracy_normalised", "last_word_accuracy"})
    EXPECT_EQ(theirs[key], ours["results"][0][key]) << key;
  for (std::size_t i = 0; i < items.size(); ++i)
    for (std::size_t k = 0; k < items[i]["choices"].size(); ++k)
      EXPECT_NEAR(theirs["log_likelihoods"][i][k].get<double>(), score(ours, i, k), roundings * 40);
}

}  // namespace
}  // namespace mxtape::test
