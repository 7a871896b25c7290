#include <algorithm>
#include <cmath>
#include <cstdio>

#include "program/command.h"
#include "program/json/json_output.h"
#include "program/progress.h"
#include "program/resume.h"
#include "program/run_name.h"
#include "program/trained_model.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

struct Arguments {
  std::string checkpoint, device, data;
  std::vector<std::string> precisions{"f32", "bf16", "mxfp8_e4m3", "mxfp6_e2m3", "mxint8", "mxfp4", "nvfp4"};
  std::int64_t windows = 0;
  bool json = false;
};

/// Direct cast: weights and activations of every linear layer, the head's too, are rounded by `q`.
PrecisionPlan cast_plan(PrecisionPlan plan, const Quantizer& q) {
  for (auto& [name, quant] : plan.linear) {
    quant = LinearQuant{};
    quant.fprop_x = quant.fprop_w = q;
  }
  for (auto& [name, quant] : plan.attention) quant = AttentionQuant{};
  plan.parameters.clear();
  plan.activations = DType::f32;  // nothing else is rounded
  return plan;
}

struct Row {
  std::string precision;
  double bits, loss;
};

void print_table(const std::vector<Row>& rows, std::optional<double> floor) {
  std::size_t width = std::string_view("precision").size();
  for (const auto& row : rows) width = std::max(width, row.precision.size());
  fmt::print("\n{:<{}}  {:>6}  {:>9}  {:>10}  {:>9}", "precision", width, "bits", "loss", "perplexity",
             "- f32");
  fmt::print("{}\n", floor ? fmt::format("  {:>9}", "- floor") : "");
  for (const auto& row : rows) {
    fmt::print("{:<{}}  {:>6}  {:>9.4f}  {:>10.4f}  {:>+9.4f}", row.precision, width,
               row.bits > 0 ? fmt::format("{:.2f}", row.bits) : "", row.loss, std::exp(row.loss),
               row.loss - rows.front().loss);
    fmt::print("{}\n", floor ? fmt::format("  {:>9.4f}", row.loss - *floor) : "");
  }
  fmt::print("\nloss, differences: nats per token; bits: stored bits per element, scales included\n");
}

/// What was evaluated, on what.
struct Subject {
  std::string checkpoint, data;
  std::int64_t step, windows, all_windows, context;
  std::optional<double> floor;  ///< of the validation split
};

void print_subject(const Subject& s) {
  fmt::print("checkpoint  {}, step {}\ndata        {}, {} of {} validation windows of {} tokens\n",
             s.checkpoint, s.step, s.data, s.windows, s.all_windows, s.context);
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
    result["above_f32"] = row.loss - rows.front().loss;
    put_number(result, "above_floor", s.floor ? std::optional(row.loss - *s.floor) : std::nullopt, unknown);
  }
  print_json(json);
}

void run(const Arguments& arguments) {
  // Nothing for "recipe". Read before the work begins, so that a misspelt one costs no time.
  std::vector<std::pair<std::string, std::optional<Quantizer>>> formats;
  for (const auto& text : arguments.precisions)
    formats.emplace_back(text, text == "recipe" ? std::nullopt : std::optional(parse_quantizer(text)));

  const TrainedModel trained = load_trained_model(arguments.checkpoint, arguments.device);
  const Recipe& recipe = trained.header.recipe;
  const std::string file = arguments.data.empty() ? recipe.data.file : arguments.data;
  require(!arguments.data.empty() || std::filesystem::exists(file), ExitCode::data,
          "{}: no such file here; {} was trained with it{}: name it with --data FILE", file,
          trained.file.string(),
          std::filesystem::path(file).is_relative() ? ", from the folder where its path holds" : "");
  const TokenFile data = TokenFile::read(file);
  require_same_tokenizer(trained.header, trained.file, data, file);
  const PrecisionPlan own = precision_plan(recipe, trained.header.step);

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
                        .floor = data.floor};
  if (!arguments.json) print_subject(subject);
  std::vector<Row> rows;
  const auto add = [&](const std::string& name, double bits, const PrecisionPlan& plan) {
    if (is_screen(stdout) && !arguments.json)
      options.progress = [&](std::int64_t done, std::int64_t total) {
        fmt::print("\r\033[K{} {}/{}", name, done, total);
        if (done == total) fmt::print("\r\033[K");
        std::fflush(stdout);
      };
    trained.model->set_precision(plan);
    rows.push_back({name, bits, evaluate(*trained.backend, *trained.model, data.validation, options).loss});
  };
  add("f32", 32, cast_plan(own, f32_passthrough));
  for (const auto& [text, format] : formats) {
    if (format && format->is_identity()) continue;  // the first row already
    if (format)
      add(text, format->bits_per_element(), cast_plan(own, *format));
    else
      add(text, 0, own);
  }
  if (arguments.json)
    print_results_json(subject, rows);
  else
    print_table(rows, data.floor);
}

}  // namespace

void add_eval_command(CLI::App& app) {
  auto* command =
      app.add_subcommand("eval", "Loss and perplexity of a trained model, cast into number formats");
  auto a = std::make_shared<Arguments>();
  command->add_option("checkpoint", a->checkpoint, run_name_help)->required();
  command->add_option("--device", a->device, "cpu or cuda; default: the device of the checkpoint's recipe");
  repeatable(command->add_option(
                 "--precision", a->precisions,
                 "a format for weights and activations of all linear layers (mxtape formats lists them), or "
                 "'recipe' for the precision it was trained with; may be repeated; f32 is always there"))
      ->capture_default_str();
  command->add_option("--data", a->data, "another token file than the recipe's");
  command->add_option("--windows", a->windows, "most validation windows; 0: as the recipe says")
      ->check(whole(0))
      ->capture_default_str();
  add_json_option(*command, a->json);
  command->callback([a] { run(*a); });
}

}  // namespace mxtape
