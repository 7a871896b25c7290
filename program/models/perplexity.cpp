#include "program/models/perplexity.h"

#include <numeric>

#include "program/show/text_input.h"
#include "train/strided.h"

namespace mxtape {
namespace {

std::int32_t bos_of(const Tokenizer& tokenizer) {
  const auto before = tokenizer.template_before();
  require(before.size() == 1, ExitCode::usage,
          "--bos each: the tokenizer ({}) puts {} tokens in front of a text, want one; leave the option out",
          tokenizer.text(), before.size());
  return before.front();
}

}  // namespace

Measured text_to_measure(const TrainedModel& trained, const std::string& source, std::int64_t stride,
                         bool bos_each, Report& out) {
  const Tokenizer& tokenizer = trained.header.tokenizer;
  const std::string text = read_input(source);
  std::vector<std::int32_t> tokens;
  try {
    tokens = tokenizer.encode(text);
  } catch (const Error& e) {
    fail(e.code(), "{}: {}", source, e.what());
  }
  const std::int64_t context = trained.model->config().context, count = std::int64_t(tokens.size());
  StrideOptions options{.window = context, .stride = stride ? stride : context, .pass = trained.next_pass()};
  require(options.stride <= context, ExitCode::usage,
          "--stride {}: the model's context has {} tokens; want 1 to {}", stride, context, context);
  std::string bos;
  if (bos_each) {
    options.bos = bos_of(tokenizer);
    bos = tokenizer.decode(std::span(&*options.bos, 1));
  }
  const std::int64_t scored = count - (bos_each ? 0 : 1);
  require(scored >= 1, ExitCode::data, "{}: {} tokens, so none that can be scored; want at least {}{}",
          source, count, bos_each ? 1 : 2,
          count == 1 ? ", or --bos each, which puts a token in front of the first" : "");
  const std::size_t windows = stride_windows(count, context, options.stride, bos_each).size();
  out.line("text        {}: {} bytes, {} tokens, {} scored", source, text.size(), count, scored);
  out.line("windows     {} of {} tokens, one every {}, {}", windows, context, options.stride,
           bos.empty() ? "without BOS" : bos + " in front of each");
  out.put("text", source, "bytes", text.size(), "tokens", count, "scored_tokens", scored, "windows", windows,
          "window", context, "stride", options.stride, "bos",
          Value(bos, "no token stands in front of a window"));
  const auto nats = [&trained, tokens, options](const Measured::Progress& progress) mutable {
    options.progress = progress;
    const auto nll = strided_nll(*trained.backend, *trained.model, tokens, options);
    return std::accumulate(nll.begin(), nll.end(), 0.0);
  };
  const bool ids = tokenizer.kind() == Tokenizer::Kind::ids;
  return {.nats = nats,
          .tokens = double(scored),
          .bytes = ids ? std::nullopt : std::optional(std::int64_t(text.size()))};
}

}  // namespace mxtape
