#include "train/post_training/diffuse_model.h"

#include <algorithm>
#include <cmath>
#include <map>

#include "core/files/in_file.h"
#include "kernels/mx_transfer.h"
#include "kernels/observers/forwarding_backend.h"
#include "train/evaluate.h"
#include "train/post_training/diffuse.h"
#include "train/post_training/gram.h"

namespace mxtape {
namespace {

/// Ends a pass whose rest nobody needs.
struct AllDone {};

bool is_diffused(const LinearWeight& weight) { return !weight.quant.fprop_w.is_identity() && !weight.tied; }

std::vector<LinearWeight> weights_to_diffuse(Model& model) {
  std::vector<LinearWeight> weights;
  for (LinearWeight& weight : model.linear_weights()) {
    if (!is_diffused(weight)) continue;
    require(!weight.parameter.fixed, ExitCode::usage, "layer '{}': its weight is packed; take the checkpoint",
            weight.layer);
    require(weight.quant.fprop_rotation.size == 0, ExitCode::usage,
            "layer '{}': its weight is rotated before it is rounded, and what is kept is not rotated; error "
            "diffusion wants a precision without rotation in fprop",
            weight.layer);
    require(!weight.quant.fprop_w.has_group_scale(), ExitCode::usage,
            "layer '{}': format '{}' has a scale of many blocks, which cannot be decided before the last of "
            "them is reached; want outer=tensor or another scale",
            weight.layer, to_text(weight.quant.fprop_w));
    weights.push_back(std::move(weight));
  }
  return weights;
}

/// Hands a forward pass on, and replaces the weight of each layer when its GEMM comes: everything that the
/// inputs depend on has been replaced by then.
class DiffusingBackend final : public ForwardingBackend {
 public:
  DiffusingBackend(Backend& inner, const std::vector<LinearWeight>& weights, const DiffusionOptions& options)
      : ForwardingBackend(inner), options_(options), all_(weights.size()) {
    for (const LinearWeight& weight : weights) to_do_.emplace(weight.layer, &weight);
  }

  void enter(std::string_view layer, bool backward) override {
    layer_ = layer;
    inner_.enter(layer, backward);
  }

  void dispatch(AnyCall any) override {
    const auto* const gemm = any.as<call::Gemm>();
    const auto found = gemm && gemm->a.site.slot == Slot::fprop_x ? to_do_.find(layer_) : to_do_.end();
    if (found == to_do_.end()) return inner_.dispatch(any);
    at_place(fmt::format("layer '{}'", layer_), [&] { replace(*found->second, *gemm); });
    to_do_.erase(found);
    if (options_.progress) options_.progress(done_.size(), all_);
    if (to_do_.empty()) throw AllDone();
    inner_.dispatch(any);
  }

  std::vector<LayerDiffusion> done() && { return std::move(done_); }

 private:
  void replace(const LinearWeight& weight, const call::Gemm& gemm) {
    const Quantizer& q = weight.quant.fprop_w;
    const Tensor& value = weight.parameter.value;
    const std::int64_t n = value.shape()[0], k = value.shape()[1];
    require(gemm.a.layout == Layout::values, "diffusion: a GEMM of codes; want compute.gemm = library");
    Gram gram(k);
    gram.add(downloaded(inner_, gemm.a.elements).data(), gemm.a.elements.count() / k);
    const std::vector<float> w = downloaded(inner_, value);
    Diffused diffused = diffuse(w.data(), n, k, q, error_paths(gram, options_.damping));
    done_.push_back({weight.layer, to_text(q), n, k,
                     relative_error(gram, w, cast_directly(w.data(), n, k, q)),
                     relative_error(gram, w, diffused.values), gram.dead(), diffused.moved});
    inner_.upload(value, diffused.values.data());
    // The copy that this GEMM reads, as later passes will make it.
    inner_.run(call::Quantize{.to = {&gemm.b, 1}, .x = value});
  }

  static double relative_error(const Gram& gram, const std::vector<float>& w, std::vector<float> q) {
    const auto n = std::int64_t(w.size()) / gram.features();
    const double whole = gram.squared_output(w.data(), n);
    std::transform(w.begin(), w.end(), q.begin(), q.begin(), std::minus());
    return whole > 0 ? std::sqrt(gram.squared_output(q.data(), n) / whole) : 0;
  }

  const DiffusionOptions& options_;
  std::map<std::string, const LinearWeight*, std::less<>> to_do_;
  std::size_t all_;
  std::vector<LayerDiffusion> done_;
  std::string layer_;
};

}  // namespace

std::vector<LayerDiffusion> diffuse_weights(Backend& backend, Model& model, const Batch& calibration,
                                            const PassKey& pass, const DiffusionOptions& options) {
  const std::vector<LinearWeight> weights = weights_to_diffuse(model);
  DiffusingBackend diffusing(backend, weights, options);
  const auto forget_copies = [&] {
    for (const LinearWeight& w : weights) w.parameter.written(w.parameter.version);
  };
  forget_copies();  // those of an earlier precision, or of codes
  if (weights.empty()) return {};
  bool all_done = false;
  try {
    Tape tape(diffusing, Tape::Mode::evaluation, pass);
    model.forward(tape, upload_tokens(backend, calibration.inputs, {calibration.batch, calibration.time}));
  } catch (const AllDone&) {
    all_done = true;
  }
  require(all_done, "diffusion: a layer of the model took no part in its forward pass");
  forget_copies();
  return std::move(diffusing).done();
}

std::vector<std::string> layers_to_diffuse(Model& model) {
  std::vector<std::string> names;
  for (const LinearWeight& weight : weights_to_diffuse(model)) names.push_back(weight.layer);
  return names;
}

std::int64_t diffusion_bytes(Model& model, std::int64_t tokens) {
  std::int64_t most = 0;
  for (const LinearWeight& weight : weights_to_diffuse(model)) {
    const Shape shape = weight.parameter.value.shape();
    most = std::max(most, diffusion_bytes(shape[0], shape[1]) + 4 * tokens * shape[1]);
  }
  return most;
}

}  // namespace mxtape
