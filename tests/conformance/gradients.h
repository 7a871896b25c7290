#pragma once
#include <filesystem>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include "interop/hf_names.h"
#include "tests/conformance/imported.h"

namespace mxtape::conformance {

/// The gradients of a mean loss, by our names, in double.
using Gradients = std::map<std::string, std::vector<double>>;

/// Forward and backward of one batch: the loss; the gradients are in the parameters.
double forward_and_backward(TrainedModel&, const std::vector<std::int32_t>& inputs,
                            const std::vector<std::int32_t>& targets, std::int64_t batch, std::int64_t time);

/// A tensor of ours, put together from those of a set that has them under transformers' names with `prefix`
/// in front; empty if it has none of them.
std::vector<double> in_our_layout(const SafetensorsFile&, const std::string& prefix, const TensorPlan&);

/// Every gradient against the set's `grad.<name>`: norm-wise per tensor, |got - want| <= 1e-5 |want|.
Outcome compare_gradients(const std::filesystem::path& folder, const std::string& device);

}  // namespace mxtape::conformance
