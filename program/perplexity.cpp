#include "program/perplexity.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>

#include "program/cast.h"
#include "program/json/json_output.h"
#include "program/progress.h"
#include "program/text_input.h"
#include "program/trained_model.h"
#include "train/perplexity/strided.h"

namespace mxtape {
namespace {

struct Row {
  std::string precision;
  double bits, nats;  ///< nats: of all scored tokens
};

/// What was scored, and how.
struct Scored {
  std::int64_t tokens = 0, scored = 0, bytes = 0, window = 0, stride = 0, windows = 0;
  bool ids = false;  ///< the text is ids, so its bytes say nothing
  std::string bos;   ///< as text; empty: none
};

std::int32_t bos_of(const Tokenizer& tokenizer) {
  const auto before = tokenizer.template_before();
  require(before.size() == 1, ExitCode::usage,
          "--bos each: the tokenizer ({}) puts {} tokens in front of a text, want one; leave the option out",
          tokenizer.text(), before.size());
  return before.front();
}

double per_byte(const Row& row, const Scored& s) { return row.nats / std::numbers::ln2 / double(s.bytes); }

void print_table(const std::vector<Row>& rows, const Scored& s) {
  std::size_t width = std::string_view("precision").size();
  for (const Row& row : rows) width = std::max(width, row.precision.size());
  const bool has_f32 = rows.front().precision == "f32";
  fmt::print("\n{:<{}}  {:>6}  {:>9}  {:>10}  {:>9}{}\n", "precision", width, "bits", "loss", "perplexity",
             "bits/byte", has_f32 ? fmt::format("  {:>9}", "- f32") : "");
  for (const Row& row : rows) {
    const double loss = row.nats / double(s.scored), first = rows.front().nats / double(s.scored);
    fmt::print("{:<{}}  {:>6}  {:>9.4f}  {:>10.4f}  {:>9}{}\n", row.precision, width,
               row.bits > 0 ? fmt::format("{:.2f}", row.bits) : "", loss, std::exp(loss),
               s.ids ? "" : fmt::format("{:.4f}", per_byte(row, s)),
               has_f32 ? fmt::format("  {:>+9.4f}", loss - first) : "");
  }
  fmt::print("\nloss, differences: nats per token; bits: stored bits per element, scales included\n");
}

void print_subject(const TextEvaluation& request, const TrainedModel& trained, const Scored& s) {
  fmt::print("{}{}, step {}\n", trained.packed_as.empty() ? "checkpoint  " : "packed      ",
             trained.file.string(), trained.header.step);
  fmt::print("text        {}: {} bytes, {} tokens, {} scored\n", request.text, s.bytes, s.tokens, s.scored);
  fmt::print("windows     {} of {} tokens, one every {}, {}\n", s.windows, s.window, s.stride,
             s.bos.empty() ? "without BOS" : s.bos + " in front of each");
}

void print_as_json(const TextEvaluation& request, const TrainedModel& trained, const std::vector<Row>& rows,
                   const Scored& s) {
  Json json{{"checkpoint", trained.file.string()},
            {"step", trained.header.step},
            {"text", request.text},
            {"bytes", s.bytes},
            {"tokens", s.tokens},
            {"scored_tokens", s.scored},
            {"windows", s.windows},
            {"window", s.window},
            {"stride", s.stride}};
  put_if_known(json, "bos", s.bos, "no token stands in front of a window");
  json["results"] = Json::array();
  for (const Row& row : rows) {
    Json& result = json["results"].emplace_back(Json{{"precision", row.precision}});
    put_number(result, "bits_per_element", row.bits > 0 ? std::optional(row.bits) : std::nullopt,
               "the recipe may have several formats");
    result["loss"] = row.nats / double(s.scored);
    put_number(result, "perplexity", std::exp(row.nats / double(s.scored)), "above the largest double");
    put_number(result, "bits_per_byte", s.ids ? std::nullopt : std::optional(per_byte(row, s)),
               "the text is ids without their tokenizer");
  }
  print_json(json);
}

}  // namespace

void evaluate_text(const TextEvaluation& request) {
  // Read before the work begins, so that a misspelt one costs no time.
  check_attention(request.attention, request.weights_only, request.precisions);
  std::vector<std::pair<Cast, double>> casts;
  for (const auto& text : request.precisions) {
    const Cast cast{text, request.weights_only, request.attention};
    casts.emplace_back(cast, cast.bits_per_element());
  }
  const TrainedModel trained = load_trained_model(request.run, request.device);
  const bool packed = !trained.packed_as.empty();
  require(!packed || (!request.chosen && !request.weights_only && !request.attention), ExitCode::usage,
          "{}: its weights are packed in precision '{}' and can be evaluated in no other: leave --precision, "
          "--weights-only and --attention out, or take the checkpoint",
          trained.file.string(), trained.packed_as);
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const std::string text = read_input(request.text);
  std::vector<std::int32_t> tokens;
  try {
    tokens = tokenizer.encode(text);
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", request.text, e.what());
  }
  StrideOptions options{
      .window = trained.model->config().context, .stride = request.stride, .pass = trained.next_pass()};
  if (options.stride == 0) options.stride = options.window;
  require(options.stride <= options.window, ExitCode::usage,
          "--stride {}: the model's context has {} tokens; want 1 to {}", options.stride, options.window,
          options.window);
  Scored scored{.tokens = std::int64_t(tokens.size()),
                .bytes = std::int64_t(text.size()),
                .window = options.window,
                .stride = options.stride,
                .ids = tokenizer.kind() == Tokenizer::Kind::ids,
                .bos = ""};
  if (request.bos_each) {
    options.bos = bos_of(tokenizer);
    scored.bos = tokenizer.decode(std::span(&*options.bos, 1));
  }
  scored.scored = scored.tokens - (request.bos_each ? 0 : 1);
  require(scored.scored >= 1, ExitCode::data, "{}: {} tokens, so none that can be scored; want at least {}{}",
          request.text, scored.tokens, request.bos_each ? 1 : 2,
          scored.tokens == 1 ? ", or --bos each, which puts a token in front of the first" : "");
  scored.windows =
      std::int64_t(stride_windows(scored.tokens, options.window, options.stride, request.bos_each).size());
  if (!request.json) print_subject(request, trained, scored);
  std::vector<Row> rows;
  const auto quantized = std::count_if(casts.begin(), casts.end(), [](auto& c) { return !c.first.is_f32(); });
  PassProgress progress(stdout, packed ? 1 : 1 + std::size_t(quantized), !request.json);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.look(done, total); };
  const auto add = [&](const std::string& name, double bits, const std::optional<Cast>& cast) {
    progress.begin(name);
    if (cast) trained.model->set_precision(cast_plan(trained.header.recipe, trained.header.step, *cast));
    const auto nll = strided_nll(*trained.backend, *trained.model, tokens, options);
    rows.push_back({name, bits, std::accumulate(nll.begin(), nll.end(), 0.0)});
  };
  if (packed) {
    add(trained.packed_as, 0, {});
  } else {
    add("f32", 32, Cast{"f32"});
    for (const auto& [cast, bits] : casts)
      if (!cast.is_f32()) add(cast.text(), bits, cast);
  }
  progress.end();
  if (request.json) return print_as_json(request, trained, rows, scored);
  print_table(rows, scored);
}

}  // namespace mxtape
