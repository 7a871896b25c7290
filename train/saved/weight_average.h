#pragma once
#include <array>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "autograd/parameter.h"
#include "data/hdf5/hdf5.h"
#include "kernels/backend.h"

namespace mxtape {

/// Its average's place in a checkpoint.
inline constexpr std::string_view average_group = "optimizer/average/";
/// Of all that a checkpoint holds of a parameter; averages, where the run keeps them, of matrices.
inline constexpr std::array<std::string_view, 4> groups_of_state{"parameters/", "optimizer/m/",
                                                                 "optimizer/v/", average_group};
inline std::string average_of(const Parameter& p) { return std::string(average_group) + p.name; }

/// After the weights: the averages that the file holds. One that it lacks begins at its weight.
void read_averages(const Hdf5Reader&, Backend&, std::span<Parameter* const>);

/// A run that keeps none drops those of its file; one whose moments are zero has no past: averages begin at
/// the weights, as where `loaded` is false. Returns them.
std::vector<Tensor> averages_to_go_on(Backend&, std::span<Parameter* const>, bool keeps, bool loaded);

}  // namespace mxtape
