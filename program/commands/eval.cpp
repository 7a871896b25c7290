#include <algorithm>
#include <cmath>
#include <cstdio>

#include "program/cast.h"
#include "program/command.h"
#include "program/json/json_output.h"
#include "program/layer_costs.h"
#include "program/perplexity.h"
#include "program/plot/gnuplot.h"
#include "program/progress.h"
#include "program/run_name.h"
#include "program/trained_model.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string checkpoint, device, data;
  std::vector<std::string> precisions{"f32", "bf16", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8", "mxfp4", "nvfp4"};
  std::int64_t windows = 0;
  bool chosen = false;  ///< precisions were given
  bool weights_only = false, attention = false, json = false;
  std::string text, bos = "none", by, plot;
  std::int64_t stride = 0;
};

struct Row {
  std::string precision;
  double bits, loss;
  const LayerLosses* by_layer = nullptr;
};

/// The loss in f32; none of a packed model.
std::optional<double> f32_loss(const std::vector<Row>& rows) {
  return rows.front().precision == "f32" ? std::optional(rows.front().loss) : std::nullopt;
}

void print_table(const std::vector<Row>& rows, std::optional<double> floor) {
  std::size_t width = std::string_view("precision").size();
  for (const auto& row : rows) width = std::max(width, row.precision.size());
  const auto f32 = f32_loss(rows);
  fmt::print("\n{:<{}}  {:>6}  {:>9}  {:>10}", "precision", width, "bits", "loss", "perplexity");
  fmt::print("{}", f32 ? fmt::format("  {:>9}", "- f32") : "");
  fmt::print("{}\n", floor ? fmt::format("  {:>9}", "- floor") : "");
  for (const auto& row : rows) {
    fmt::print("{:<{}}  {:>6}  {:>9.4f}  {:>10.4f}", row.precision, width,
               row.bits > 0 ? fmt::format("{:.2f}", row.bits) : "", row.loss, std::exp(row.loss));
    fmt::print("{}", f32 ? fmt::format("  {:>+9.4f}", row.loss - *f32) : "");
    fmt::print("{}\n", floor ? fmt::format("  {:>9.4f}", row.loss - *floor) : "");
  }
  fmt::print("\nloss, differences: nats per token; bits: stored bits per element, scales included\n");
}

/// What was evaluated, on what.
struct Subject {
  std::string checkpoint, data;
  std::int64_t step, windows, all_windows, context;
  std::optional<double> floor;  ///< of the validation split
  bool packed = false;
};

void print_subject(const Subject& s) {
  fmt::print("{}{}, step {}\ndata        {}, {} of {} validation windows of {} tokens\n",
             s.packed ? "packed      " : "checkpoint  ", s.checkpoint, s.step, s.data, s.windows,
             s.all_windows, s.context);
}

void print_results_json(const Subject& s, const std::vector<Row>& rows) {
  Json json{{"checkpoint", s.checkpoint},   {"step", s.step},      {"data", s.data}, {"windows", s.windows},
            {"all_windows", s.all_windows}, {"context", s.context}};
  constexpr const char* unknown = "the data does not carry its entropy";
  put_number(json, "floor", s.floor, unknown);
  json["results"] = Json::array();
  for (const Row& row : rows) {
    Json& result = json["results"].emplace_back(Json{{"precision", row.precision}});
    put_number(result, "bits_per_element", row.bits > 0 ? std::optional(row.bits) : std::nullopt,
               "the recipe may have several formats");
    result["loss"] = row.loss;
    put_number(result, "perplexity", std::exp(row.loss), "above the largest double");
    const auto f32 = f32_loss(rows);
    put_number(result, "above_f32", f32 ? std::optional(row.loss - *f32) : std::nullopt,
               "a packed model has no f32 weights");
    put_number(result, "above_floor", s.floor ? std::optional(row.loss - *s.floor) : std::nullopt, unknown);
    if (row.by_layer) put_layers(result, *row.by_layer);
  }
  print_json(json);
}

void run(const Arguments& arguments) {
  require(!arguments.text.empty() || (arguments.stride == 0 && arguments.bos == "none"), ExitCode::usage,
          "eval: --stride and --bos are of a text: want --text FILE with them");
  require(
      arguments.text.empty() || (arguments.data.empty() && arguments.windows == 0 && arguments.by.empty()),
      ExitCode::usage,
      "eval: --text takes the whole of a text; want it, or --data, --windows and --by, of a token file");
  if (!arguments.plot.empty()) gnuplot::require_stem("--plot", arguments.plot);
  if (!arguments.text.empty())
    return evaluate_text({.run = arguments.checkpoint,
                          .device = arguments.device,
                          .text = arguments.text,
                          .stride = arguments.stride,
                          .bos_each = arguments.bos == "each",
                          .precisions = arguments.precisions,
                          .chosen = arguments.chosen,
                          .weights_only = arguments.weights_only,
                          .attention = arguments.attention,
                          .json = arguments.json});
  // Read before the work begins, so that a misspelt one costs no time.
  check_attention(arguments.attention, arguments.weights_only, arguments.precisions);
  std::vector<std::pair<Cast, double>> casts;
  for (const auto& text : arguments.precisions) {
    const Cast cast{text, arguments.weights_only, arguments.attention};
    casts.emplace_back(cast, cast.bits_per_element());
  }
  const TrainedModel trained = load_trained_model(arguments.checkpoint, arguments.device);
  require(trained.packed_as.empty() || (!arguments.chosen && !arguments.weights_only && !arguments.attention),
          ExitCode::usage,
          "{}: its weights are packed in precision '{}' and can be evaluated in no other: leave --precision, "
          "--weights-only and --attention out, or take the checkpoint",
          trained.file.string(), trained.packed_as);
  const Recipe& recipe = trained.header.recipe;
  const auto [file, data] = read_data_of(trained, arguments.data);

  const std::int64_t all = Windows(data.validation, recipe.model.context).count();
  EvaluateOptions options{
      .windows = arguments.windows ? arguments.windows : validation_windows(recipe.train, all),
      .batch_size = recipe.train.batch_size,
      .pass = trained.next_pass()};
  const Subject subject{.checkpoint = trained.file.string(),
                        .data = file,
                        .step = trained.header.step,
                        .windows = options.windows ? std::min(options.windows, all) : all,
                        .all_windows = all,
                        .context = recipe.model.context,
                        .floor = data.floor,
                        .packed = !trained.packed_as.empty()};
  if (!arguments.json) print_subject(subject);
  std::vector<Row> rows;
  LayerCosts costs;
  const auto quantized = std::count_if(casts.begin(), casts.end(), [](auto& c) { return !c.first.is_f32(); });
  PassProgress progress(stdout, subject.packed ? 1 : 1 + std::size_t(quantized), !arguments.json);
  options.progress = [&](std::int64_t done, std::int64_t total) { progress.look(done, total); };
  const auto add = [&](const std::string& name, double bits, const std::optional<Cast>& cast) {
    progress.begin(name);
    if (cast) trained.model->set_precision(cast_plan(recipe, trained.header.step, *cast));
    rows.push_back({name, bits, evaluate(*trained.backend, *trained.model, data.validation, options).loss});
  };
  if (subject.packed) {
    add(trained.packed_as, 0, {});
  } else if (!arguments.by.empty()) {
    std::vector<Cast> rounding;
    for (const auto& cast : casts) rounding.push_back(cast.first);
    costs = layer_costs(trained, data.validation, options, rounding, arguments.json ? stderr : stdout);
    rows.push_back({"f32", 32, costs.f32});
    for (std::size_t i = 0; i < casts.size(); ++i)
      rows.push_back(
          {rounding[i].text(), casts[i].second, costs.precisions[i].all.loss, &costs.precisions[i]});
  } else {
    add("f32", 32, Cast{"f32"});
    for (const auto& [cast, bits] : casts)
      if (!cast.is_f32()) add(cast.text(), bits, cast);
  }
  progress.end();
  if (arguments.json)
    print_results_json(subject, rows);
  else
    print_table(rows, data.floor);
  if (!arguments.json && !arguments.by.empty()) fmt::print("\n{}", layer_table(costs));
  if (arguments.plot.empty()) return;
  std::fflush(stdout);
  gnuplot::write_pictures(arguments.plot, [&](const std::string& terminal, const auto& output) {
    return layer_script(costs, terminal, output, subject.checkpoint);
  });
  if (!arguments.json) fmt::print("wrote {0}.svg and {0}.png\n", arguments.plot);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("eval", "Loss and perplexity of a trained model, cast into number formats");
  auto a = std::make_shared<Arguments>();
  command->add_option("checkpoint", a->checkpoint, model_name_help)->required();
  command->add_option("--device", a->device, "cpu or cuda; default: the device of the checkpoint's recipe");
  auto* precision =
      repeatable(command->add_option("--precision", a->precisions,
                                     precision_help + std::string("; may be repeated; f32 is always there")))
          ->capture_default_str();
  command->add_flag("--weights-only", a->weights_only, "leave the activations in f32");
  command->add_flag("--attention", a->attention, attention_help);
  command->add_option("--data", a->data, "another token file than the recipe's");
  command->add_option("--windows", a->windows, "most validation windows; 0: as the recipe says")
      ->check(whole(0))
      ->capture_default_str();
  auto* by = command
                 ->add_option("--by", a->by,
                              "layer: what each layer alone costs too, all others in f32; one pass over the "
                              "windows for each")
                 ->check(CLI::IsMember({"layer"}))
                 ->needs(precision);
  command->add_option("--plot", a->plot, "with --by: draw it as bars; files without .svg and .png")
      ->needs(by);
  command->add_option("--text", a->text,
                      "instead of a token file: a text, scored whole; prints bits per byte too");
  command
      ->add_option(
          "--stride", a->stride,
          "with --text: a window of the context every so many tokens; 0: the context. Each token counts once")
      ->check(whole(0))
      ->capture_default_str();
  command->add_option("--bos", a->bos, "with --text: each: the tokenizer's BOS in front of each window")
      ->check(CLI::IsMember({"none", "each"}))
      ->capture_default_str();
  add_json_option(*command, a->json);
  command->callback([=] {
    a->chosen = !precision->empty();
    run(*a);
  });
}

}  // namespace mxtape
