#include "train/saved/weight_average.h"

#include "autograd/weight_average.h"

namespace mxtape {

void read_averages(const Hdf5Reader& file, Backend& backend, std::span<Parameter* const> parameters) {
  begin_averages(backend, parameters, false);
  for (Parameter* p : parameters) {
    if (!file.has(average_of(*p))) continue;
    const std::vector<float> values = file.read_f32(average_of(*p));
    require(std::ssize(values) == p->value.count(), ExitCode::data,
            "{}: '{}' has {} numbers, the model wants {}", file.path().string(), average_of(*p),
            values.size(), p->value.count());
    if (!p->average) p->average = backend.empty(p->value.shape());
    backend.upload(p->average, values.data());
  }
}

std::vector<Tensor> averages_to_go_on(Backend& backend, std::span<Parameter* const> parameters, bool keeps,
                                      bool loaded) {
  if (!loaded) begin_averages(backend, parameters, false);
  std::vector<Tensor> averages;
  for (Parameter* p : parameters) {
    if (!keeps) p->average = {};
    if (p->average) averages.push_back(p->average);
  }
  return averages;
}

}  // namespace mxtape
