#include <cmath>
#include <cstdio>
#include <numbers>
#include <numeric>

#include "core/files/in_file.h"
#include "program/models/cast.h"
#include "program/models/choices.h"
#include "program/models/layer_costs.h"
#include "program/models/trained_model.h"
#include "program/plot/gnuplot.h"
#include "program/records/run_name.h"
#include "program/show/command.h"
#include "program/show/progress.h"
#include "program/show/streams.h"
#include "train/evaluate.h"
#include "train/strided.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string checkpoint, device, data;
  std::vector<std::string> precisions{"f32", "bf16", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8", "mxfp4", "nvfp4"};
  std::int64_t windows = 0, stride = 0;
  bool weights_only = false, attention = false;
  std::string text, bos = "none", by, plot, choices;
};

struct Row {
  std::string precision;
  double bits, nats;
  const LayerLosses* by_layer = nullptr;
};

/// What `mxtape eval` measures a model on.
struct Measured {
  Scoring nats;  ///< of `tokens`
  double tokens = 1;
  std::optional<double> floor{};        ///< of the data, where it is known
  std::optional<std::int64_t> bytes{};  ///< of a text, unless it is ids
};

std::int32_t bos_of(const Tokenizer& tokenizer) {
  const auto before = tokenizer.template_before();
  require(before.size() == 1, ExitCode::usage,
          "--bos each: the tokenizer ({}) puts {} tokens in front of a text, want one; leave the option out",
          tokenizer.text(), before.size());
  return before.front();
}

/// A text in windows of the context, one every `stride` tokens (0: the context), with `bos_each` the
/// tokenizer's BOS in front of each; what that is goes to the report. Throws Error(usage) for a stride beyond
/// the context or a BOS that the tokenizer has not; Error(data) for a text that the tokenizer cannot encode,
/// or is shorter than two tokens.
Measured text_to_measure(const TrainedModel& trained, const std::string& source, std::int64_t stride,
                         bool bos_each, Report& out) {
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const std::string text = read_input(source), name = shown_name(source);
  const auto tokens = in_file(name, [&] { return tokenizer.encode(text); });
  const std::int64_t context = trained.model->config().context, count = std::int64_t(tokens.size());
  StrideOptions options{.window = context, .stride = stride ? stride : context, .pass = trained.next_pass()};
  require(options.stride <= context, ExitCode::usage,
          "--stride {}: the model's context has {} tokens; want 1 to {}", stride, context, context);
  std::string bos;
  if (bos_each) bos = tokenizer.decode(std::span(&options.bos.emplace(bos_of(tokenizer)), 1));
  const std::int64_t scored = count - (bos_each ? 0 : 1);
  require(scored >= 1, ExitCode::data, "{}: {} tokens, so none that can be scored; want at least {}{}", name,
          count, bos_each ? 1 : 2,
          count == 1 && tokenizer.template_before().size() == 1
              ? ", or --bos each, which puts a token in front of the first"
              : "");
  const auto windows = stride_windows(count, context, options.stride, bos_each);
  out.line("text        {}: {} bytes, {} tokens, {} scored", name, text.size(), count, scored);
  out.line("windows     {} of {} tokens, one every {}, {}", windows.size(), windows.front().inputs,
           options.stride, bos.empty() ? "without BOS" : bos + " in front of each");
  out.put("text", source, "bytes", text.size(), "tokens", count, "scored_tokens", scored, "windows",
          windows.size(), "window", windows.front().inputs, "stride", options.stride, "bos",
          Value(bos, "no token stands in front of a window"));
  const auto nats = [&trained, tokens, options](const std::string&, const auto& progress) mutable {
    options.progress = progress;
    const auto nll = strided_nll(*trained.backend, *trained.model, tokens, options);
    return std::accumulate(nll.begin(), nll.end(), 0.0);
  };
  const bool ids = tokenizer.kind() == Tokenizer::Kind::ids;
  return {.nats = nats,
          .tokens = double(scored),
          .bytes = ids ? std::nullopt : std::optional(std::int64_t(text.size()))};
}

Measured windows_to_measure(const TrainedModel& trained, const Split& split, const EvaluateOptions& options,
                            std::int64_t all, const std::string& file, Report& out) {
  const std::int64_t windows = options.windows ? std::min(options.windows, all) : all;
  const std::int64_t context = trained.header.recipe.model.context;
  out.line("data        {}, {} of {} validation windows of {} tokens", file, windows, all, context);
  out.put("data", file, "windows", windows, "all_windows", all, "context", context);
  return {.nats = [&trained, &split, options = options](const std::string&, const auto& progress) mutable {
    options.progress = progress;
    return evaluate(*trained.backend, *trained.model, split, options).loss;
  }};
}

void fill(Report& out, const std::vector<Row>& rows, const Measured& m, bool text) {
  constexpr const char *no_bits = "the recipe may have several formats",
                       *no_f32 = "a packed model has no f32 weights",
                       *no_floor = "the data does not carry its entropy",
                       *ids = "the text is ids without their tokenizer";
  const bool has_f32 = rows.front().precision == "f32";
  const std::string above = has_f32 ? "- f32" : "";
  const auto rest =
      text ? fmt::format("bits_per_byte|bits/byte|>9.4f; |{}|>+9.4f", above)
           : fmt::format("above_f32|{}|>+9.4f; above_floor|{}|>9.4f; *", above, m.floor ? "- floor" : "");
  Table& table = out.table(
      "results",
      "precision|precision; bits_per_element|bits|>6.2f; loss|loss|>9.4f; perplexity|perplexity|>10.4f; " +
          rest);
  for (const Row& row : rows) {
    const auto known = [](bool is, double value) { return is ? std::optional(value) : std::nullopt; };
    const double loss = row.nats / m.tokens;
    const Value above_f32(known(has_f32, loss - rows.front().nats / m.tokens), no_f32);
    std::vector<Value> cells{row.precision, Value(known(row.bits > 0, row.bits), no_bits, ""), loss,
                             Value(std::exp(loss), "above the largest double")};
    if (text) {
      const double bits = row.nats / std::numbers::ln2 / double(m.bytes.value_or(1));
      cells.insert(cells.end(), {Value(known(m.bytes.has_value(), bits), ids, ""), above_f32});
    } else {
      const auto above_floor = known(m.floor.has_value(), loss - m.floor.value_or(0));
      cells.insert(cells.end(), {above_f32, Value(above_floor, no_floor),
                                 row.by_layer ? layers_of(*row.by_layer) : object()});
    }
    table.row(std::move(cells));
  }
  out.line(
      "\nloss, differences: nats per token; bits: per element, with the scales of whole blocks, but not of a "
      "whole axis");
}

Report run(const Arguments& arguments, const Given& given) {
  if (!arguments.plot.empty()) gnuplot::require_stem("--plot", arguments.plot);
  // Read before the work begins, so that a misspelt one costs no time.
  check_attention(arguments.attention, arguments.weights_only, arguments.precisions);
  std::vector<Cast> casts, all_casts{{"f32"}};
  for (const auto& text : arguments.precisions) {
    casts.push_back({text, arguments.weights_only, arguments.attention});
    (void)casts.back().bits_per_element();
    if (!casts.back().is_f32()) all_casts.push_back(casts.back());
  }
  const TrainedModel trained = load_trained_model(arguments.checkpoint, arguments.device);
  require(
      trained.packed_as.empty() || (!given("--precision") && !arguments.weights_only && !arguments.attention),
      ExitCode::usage,
      "{}: its weights are packed in precision '{}' and can be evaluated in no other: leave --precision, "
      "--weights-only and --attention out, or take the checkpoint",
      trained.file.string(), trained.packed_as);
  const Recipe& recipe = trained.header.recipe;
  const bool packed = !trained.packed_as.empty(), of_text = !arguments.text.empty();
  Report out;
  out.line("{}{}, step {}", packed ? "packed      " : "checkpoint  ", trained.file.string(),
           trained.header.step);
  out.put("checkpoint", trained.file.string(), "step", trained.header.step);
  EvaluateOptions options{.batch_size = recipe.train.batch_size, .pass = trained.next_pass()};
  std::optional<MeasuredData> data;
  Measured measured;
  if (!arguments.choices.empty()) {
    measured.nats = choices_to_score(trained, arguments.choices, out);
  } else if (of_text) {
    measured = text_to_measure(trained, arguments.text, arguments.stride, arguments.bos == "each", out);
  } else {
    data = read_data_of(trained, arguments.data);
    const std::int64_t all =
        in_file(data->file, [&] { return Windows(data->tokens.validation, recipe.model.context).count(); });
    options.windows = arguments.windows ? arguments.windows : validation_windows(recipe.train, all);
    measured = windows_to_measure(trained, data->tokens.validation, options, all, data->file, out);
    measured.floor = data->tokens.floor;
    out.put("floor", Value(measured.floor, "the data does not carry its entropy"));
  }
  out.show(given.json);
  out.line("");
  std::vector<Row> rows;
  LayerCosts costs;
  PassProgress progress(stdout, packed ? 1 : all_casts.size(), !given.json);
  const auto look = [&](std::int64_t done, std::int64_t total) { progress.look(done, total); };
  const auto add = [&](const std::string& name, double bits, const std::optional<Cast>& cast) {
    progress.begin(name);
    if (cast) trained.model->set_precision(cast_plan(recipe, trained.header.step, *cast));
    rows.push_back({name, bits, measured.nats(name, look)});
  };
  if (packed) {
    const std::string& as = trained.packed_as;  // as Cast::text() says it
    const auto end = std::min(as.rfind(", weights only"), as.rfind(", attention too"));
    add(as, Cast{as.substr(0, end)}.bits_per_element(), {});
  } else if (!arguments.by.empty()) {
    options.progress = look;
    costs = layer_costs(trained, data->tokens.validation, options, casts, given.json ? stderr : stdout);
    rows.push_back({"f32", 32, costs.f32});
    for (std::size_t i = 0; i < casts.size(); ++i)
      rows.push_back(
          {casts[i].text(), casts[i].bits_per_element(), costs.precisions[i].all.loss, &costs.precisions[i]});
  } else {
    for (const Cast& cast : all_casts) add(cast.text(), cast.bits_per_element(), cast);
  }
  progress.end();
  if (arguments.choices.empty()) fill(out, rows, measured, of_text);
  if (!arguments.by.empty()) out.text("\n" + layer_table(costs));
  if (arguments.plot.empty()) return out;
  out.show(given.json);
  try {
    gnuplot::write_pictures(arguments.plot, [&](const std::string& terminal, const auto& output) {
      return layer_script(costs, terminal, output, trained.file.string());
    });
    out.line("wrote {0}.svg and {0}.png", arguments.plot);
  } catch (const Error& e) {  // what was measured is printed all the same
    out.problems.push_back(e);
  }
  return out;
}

Options options(Arguments& a) {
  return {
      {"checkpoint", &a.checkpoint, model_name_help},
      device_of_run_option(a.device),
      {"--precision", &a.precisions, precision_help + std::string("; may be repeated; f32 is always there")},
      {"--weights-only", &a.weights_only, "leave the activations in f32"},
      {"--attention", &a.attention, attention_help},
      {"--data", &a.data, "another token file than the recipe's"},
      {"--windows", &a.windows, "most validation windows; 0: as the recipe says"},
      {"--by", &a.by,
       "layer: what each layer alone costs too, all others in f32; one pass over the windows for each",
       one_of("layer").needs("--precision")},
      {"--plot", &a.plot, "with --by: draw it as bars; files without .svg and .png", needs("--by")},
      {"--text", &a.text, "a text (-: standard input) instead of a token file, with bits per byte",
       excludes("--data --windows --by --choices")},
      {"--stride", &a.stride,
       "with --text: a window of the context every so many tokens; 0: the context. Each token counts once",
       needs("--text")},
      {"--bos", &a.bos, "with --text: each: the tokenizer's BOS in front of each window",
       one_of("none each").needs("--text")},
      {"--choices", &a.choices,
       "instead of a token file: JSON lines of contexts with continuations, or last words; prints accuracies",
       excludes("--data --windows --by")}};
}

}  // namespace

Command commands::eval() {
  return {"eval", "Loss and perplexity of a trained model, cast into number formats", with(options, run)};
}

}  // namespace mxtape
