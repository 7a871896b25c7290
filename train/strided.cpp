#include "train/strided.h"

#include <algorithm>
#include <cmath>

#include "core/parallel.h"
#include "kernels/mx_transfer.h"
#include "train/evaluate.h"

namespace mxtape {
namespace {

/// -log softmax(logits)[target], sums in double.
double nll_of(std::span<const float> logits, std::int32_t target) {
  const double largest = double(*std::max_element(logits.begin(), logits.end()));
  double sum = 0;
  for (const float logit : logits) sum += std::exp(double(logit) - largest);
  return std::log(sum) + largest - double(logits[std::size_t(target)]);
}

}  // namespace

std::vector<StrideWindow> stride_windows(std::int64_t tokens, std::int64_t window, std::int64_t stride,
                                         bool bos) {
  const std::int64_t targets = bos ? tokens : tokens - 1, inputs = std::min(window, targets);
  std::vector<StrideWindow> windows;
  for (std::int64_t counted = 0, begin = 0; counted < targets; begin += stride) {
    begin = std::min(begin, targets - inputs);
    windows.push_back({begin, inputs, counted - begin});
    counted = begin + inputs;
  }
  return windows;
}

std::vector<double> strided_nll(Backend& backend, Model& model, std::span<const std::int32_t> tokens,
                                const StrideOptions& options) {
  const std::int64_t context = model.config().context, window = options.window ? options.window : context;
  const std::int64_t stride = options.stride ? options.stride : window, least = options.bos ? 1 : 2;
  require(window >= 1 && window <= context, ExitCode::usage,
          "a window of {} tokens; the model's context has {}", window, context);
  require(stride >= 1 && stride <= window, ExitCode::usage,
          "a stride of {} tokens; want 1 to {}, the window, or tokens between windows would not be counted",
          stride, window);
  require(std::int64_t(tokens.size()) >= least, ExitCode::data, "a text of {} tokens; want at least {}",
          tokens.size(), least);
  const auto windows = stride_windows(std::int64_t(tokens.size()), window, stride, options.bos.has_value());
  const std::int64_t vocabulary = model.config().vocabulary;
  std::vector<double> nll;
  for (std::size_t done = 0; done < windows.size(); ++done) {
    const auto& [begin, inputs, first_new] = windows[done];
    std::vector<std::int32_t> input(tokens.begin() + begin, tokens.begin() + begin + inputs);
    const std::int32_t* targets = tokens.data() + begin + 1;
    if (options.bos) {
      input.pop_back();
      input.insert(input.begin(), *options.bos);
      --targets;
    }
    Tape tape(backend, Tape::Mode::evaluation, options.pass);
    const Var result = model.forward(tape, upload_tokens(backend, input, {1, inputs}));
    const std::vector<float> logits = downloaded(  // of the rows that count
        backend, result.value.part(first_new * vocabulary, {inputs - first_new, vocabulary}));
    const std::size_t before = nll.size();
    nll.resize(before + std::size_t(inputs - first_new));
    if (options.likeliest) options.likeliest->resize(nll.size());
    const std::int64_t first = first_new;
    parallel_for(inputs - first, 1, [&](std::int64_t from, std::int64_t to) {
      for (std::int64_t i = from; i < to; ++i) {
        const auto row = std::span(logits).subspan(std::size_t(i * vocabulary), std::size_t(vocabulary));
        const std::int32_t target = targets[first + i];
        nll[before + std::size_t(i)] = nll_of(row, target);
        if (options.likeliest)
          (*options.likeliest)[before + std::size_t(i)] = std::ranges::max(row) == row[std::size_t(target)];
      }
    });
    if (options.progress) options.progress(std::int64_t(done) + 1, std::int64_t(windows.size()));
  }
  const auto bad = std::find_if_not(nll.begin(), nll.end(), [](double x) { return std::isfinite(x); });
  require(bad == nll.end(), ExitCode::diverged, "evaluation: -log p of a token is {}",
          bad == nll.end() ? 0 : *bad);
  return nll;
}

}  // namespace mxtape
