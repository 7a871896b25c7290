#include <algorithm>
#include <numeric>

#include "core/error.h"
#include "core/text/nearest_name.h"
#include "recipes/referee/referee_file.h"

namespace mxtape {

Contrast read_contrast(const std::string& text, const std::vector<std::string>& arms,
                       const std::string& place) {
  Contrast sum{text, {}, {}};
  double sign = 1;
  for (std::size_t begin = 0; begin <= text.size();) {
    const std::size_t end = std::min({text.find(" - ", begin), text.find(" + ", begin), text.size()});
    const std::string name = text.substr(begin, end - begin);
    const auto found = std::ranges::find(arms, name);
    const std::vector<std::string_view> known(arms.begin(), arms.end());
    require(found != arms.end(), ExitCode::usage, "{}: contrasts: '{}' is no arm{}", place, name,
            suggestion(name, known));
    sum.arms.push_back(std::size_t(found - arms.begin()));
    sum.weights.push_back(sign);
    if (end < text.size()) sign = text[end + 1] == '+' ? 1 : -1;
    begin = end + 3;
  }
  require(std::accumulate(sum.weights.begin(), sum.weights.end(), 0.0) == 0, ExitCode::usage,
          "{}: contrasts: \"{}\" adds {} and takes away {}; want as many of both, as in \"a - b - c + d\"",
          place, text, std::ranges::count(sum.weights, 1), std::ranges::count(sum.weights, -1));
  return sum;
}

}  // namespace mxtape
