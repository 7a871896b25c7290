#include "program/models/choices.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <sstream>

#include "data/json/json_file.h"
#include "data/json/json_section.h"
#include "program/show/streams.h"
#include "train/strided.h"

namespace mxtape {
namespace {

/// A context and a choice behind it, of which the last `scored` tokens count.
struct Continuation {
  std::vector<std::int32_t> tokens;
  std::int64_t scored = 0, characters = 0;
};
struct ChoiceItem {
  std::vector<Continuation> choices{};  ///< one: a last word
  std::int64_t answer = 0;
  bool cut = false;  ///< a context was too long: its first tokens are left out
};

/// White space at the context's end goes to the continuation, as tokenizers have it in front of words. A
/// token that would join both is cut as the context alone is.
void add_choice(ChoiceItem& item, const Tokenizer& tokenizer, std::int64_t most, const std::string& context,
                const std::string& between, const std::string& choice) {
  const auto inside = [](char byte) { return (byte & 0xc0) == 0x80; };  // of a character of several bytes
  const std::string bare = context.substr(0, context.find_last_not_of(" \t\n\v\f\r") + 1);
  const auto whole = tokenizer.encode(context + between + choice);
  Continuation c{.tokens = tokenizer.encode(bare)};
  c.scored = std::ssize(whole) - std::ssize(c.tokens);
  c.characters = std::ssize(choice) - std::ranges::count_if(choice, inside);
  if (c.scored > 0) c.tokens.insert(c.tokens.end(), whole.end() - c.scored, whole.end());
  if (bare.empty()) {
    const auto begin = tokenizer.template_before();
    c.tokens.insert(c.tokens.begin(), begin.empty() ? tokenizer.special("<|endoftext|>") : begin.front());
    require(c.tokens[0] >= 0, ExitCode::data,
            "no context, and the tokenizer ({}) has no token that begins a text", tokenizer.text());
  }
  require(c.scored >= 1 && c.scored <= most, ExitCode::data,
          "a continuation of {} tokens; want 1 to {}, the model's context", c.scored, most);
  const auto beyond = std::max<std::int64_t>(0, std::int64_t(c.tokens.size()) - most - 1);
  c.tokens.erase(c.tokens.begin(), c.tokens.begin() + beyond);
  item.cut |= beyond > 0;
  item.choices.push_back(std::move(c));
}

ChoiceItem item_of(const std::string& line, const Tokenizer& tokenizer, std::int64_t most) {
  const nlohmann::json json = parse_json_strictly(line);
  JsonSection fields(json, "item");
  const std::string context = fields.text("context"), between = fields.text_or("delimiter", " ");
  ChoiceItem item;
  for (const auto& choice : fields.array("choices")) {
    if (!choice.is_string() || choice == "") fields.wrong("choices", choice, "texts");
    add_choice(item, tokenizer, most, context, between, choice);
  }
  if (item.choices.empty()) fields.wrong("choices", json["choices"], "a text or more");
  if (item.choices.size() > 1)
    item.answer = fields.integer("answer", 0, std::int64_t(item.choices.size()) - 1);
  fields.done();
  return item;
}

std::vector<ChoiceItem> read_choices(const std::string& file, const Tokenizer& tokenizer, std::int64_t most) {
  std::istringstream lines(read_input(file));
  std::vector<ChoiceItem> items;
  for (std::string line; std::getline(lines, line);) try {
      items.push_back(item_of(line, tokenizer, most));
    } catch (const Error& e) {
      fail(e.code(), "{}: line {}: {}", shown_name(file), items.size() + 1, e.what());
    }
  require(!items.empty(), ExitCode::data, "{}: is empty; want a JSON object in each line", shown_name(file));
  return items;
}

}  // namespace

Scoring choices_to_score(const TrainedModel& trained, const std::string& file, Report& out) {
  const std::int64_t context = trained.model->config().context;
  const auto items = read_choices(file, trained.header.tokenizer, context);
  const auto words = std::ranges::count_if(items, [](const auto& item) { return item.choices.size() == 1; });
  const auto cut = std::ranges::count(items, true, &ChoiceItem::cut);
  out.line("choices     {}: {} items, {} of them a last word", file, items.size(), words);
  if (cut) out.line("cut         {} contexts on the left: with a choice, above {} tokens", cut, context);
  out.put("choices", file, "items", items.size(), "last_words", words, "context", context, "cut", cut);
  Table* table = nullptr;
  return [&trained, &out, items, words, table](const std::string& precision, const auto& look) mutable {
    if (!table)
      table = &out.table("results",
                         "precision|precision; accuracy|acc|>8.4f; accuracy_normalised|acc norm|>8.4f; "
                         "last_word_accuracy|last word|>9.4f; last_word_perplexity|perplexity|>11.4f; items");
    std::vector<Value> scored;
    double right = 0, right_by_length = 0, right_words = 0, word_nats = 0;
    for (const ChoiceItem& item : items) {
      std::vector<double> scores, by_length;
      std::vector<char> likeliest;
      for (const Continuation& c : item.choices) {
        const auto nats = strided_nll(*trained.backend, *trained.model, c.tokens,
                                      {.pass = trained.next_pass(), .likeliest = &likeliest});
        scores.push_back(-std::accumulate(nats.end() - c.scored, nats.end(), 0.0));
        by_length.push_back(scores.back() / double(c.characters));
      }
      const auto best = [](const auto& of) { return std::ranges::max_element(of) - of.begin(); };
      if (item.choices.size() > 1) {
        right += best(scores) == item.answer, right_by_length += best(by_length) == item.answer;
      } else {
        right_words += std::count(likeliest.end() - item.choices[0].scored, likeliest.end(), 0) == 0;
        word_nats -= scores[0];
      }
      scored.push_back(object("line", scored.size() + 1, "log_likelihoods", scores));
      look(std::int64_t(scored.size()), std::int64_t(items.size()));
    }
    const auto of = [](double count, double value) {
      return Value(count > 0 ? std::optional(value) : std::nullopt, "the file has no such item");
    };
    const double w = double(words), c = double(items.size()) - w;
    table->row({precision, of(c, right / c), of(c, right_by_length / c), of(w, right_words / w),
                of(w, std::exp(word_nats / w)), scored});
    return word_nats;
  };
}

}  // namespace mxtape
