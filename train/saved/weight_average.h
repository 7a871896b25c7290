#pragma once
#include <array>

#include "autograd/weight_average.h"
#include "data/hdf5/hdf5.h"

namespace mxtape {

/// Its average's place in a checkpoint.
inline constexpr std::string_view average_group = "optimizer/average/";
/// Of all that a checkpoint holds of a parameter; averages, where the run keeps them, of matrices.
inline constexpr std::array<std::string_view, 4> groups_of_state{"parameters/", "optimizer/m/",
                                                                 "optimizer/v/", average_group};
inline std::string average_of(const Parameter& p) { return std::string(average_group) + p.name; }

/// After the weights: the averages that the file holds. One that it lacks begins at its weight.
inline void read_averages(const Hdf5Reader& file, Backend& backend, std::span<Parameter* const> parameters) {
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

/// A run that keeps none drops those of its file; one whose moments are zero has no past: averages begin at
/// the weights, as where `loaded` is false. Returns them.
inline std::vector<Tensor> averages_to_go_on(Backend& backend, std::span<Parameter* const> parameters,
                                             bool keeps, bool loaded) {
  if (!loaded) begin_averages(backend, parameters, false);
  std::vector<Tensor> averages;
  for (Parameter* p : parameters) {
    if (!keeps) p->average = {};
    if (p->average) averages.push_back(p->average);
  }
  return averages;
}

}  // namespace mxtape
