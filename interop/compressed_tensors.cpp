// In the place of a weight are "weight_packed", two codes a byte, the first in the low half; "weight_scale",
// each row's scales; of NVFP4 "weight_global_scale", by which they are divided. Source:
// vllm-project/compressed-tensors, compressors/ and quantization/.
#include <nlohmann/json.hpp>

#include "data/byte_reader.h"
#include "interop/export.h"
#include "interop/hf_names.h"

namespace mxtape {

std::vector<StoredTensor> compressed_tensors(const TensorPlan& plan, const MxTensor& t, Quantizer& x,
                                             nlohmann::ordered_json& groups) {
  const bool nv = t.is_coded_as(nvfp4);
  if (!nv && !t.is_coded_as(mxfp4)) return {};
  require(!plan.parts[0].transposed, ExitCode::usage,
          "--to compressed-tensors: GPT-2 has no linear layers in transformers, so no codes; want --to gguf");
  // Readers round activations to MXFP4 by this rule. For NVFP4 they want a scale that somebody measured.
  const bool activations = !nv && x == mx(e2m1, 32, ScaleRule::even);
  auto& group = groups[nv ? "nvfp4" : activations ? "mxfp4-activations" : "mxfp4"];
  group["format"] = nv ? "nvfp4-pack-quantized" : "mxfp4-pack-quantized";
  nlohmann::ordered_json w{{"num_bits", 4}, {"type", "float"}, {"symmetric", true}, {"dynamic", false}};
  w["strategy"] = nv ? "tensor_group" : "group";
  w["group_size"] = t.quantizer.block.along;
  w["scale_dtype"] = nv ? "torch.float8_e4m3fn" : "torch.uint8";
  group["weights"] = w;
  if (activations) w["dynamic"] = true, group["input_activations"] = w, x = {};
  std::vector<StoredTensor> all;
  for (const TensorPart& part : plan.parts) {
    group["targets"].push_back(part.theirs.substr(0, part.theirs.rfind('.')));
    const MxTensor rows = t.slice(part.first_row, part.rows);
    const std::uint64_t n = std::uint64_t(part.rows);
    const auto add = [&](const char* name, TensorType type, const std::vector<std::uint8_t>& bytes) {
      all.push_back({{part.theirs + name, type, {n, bytes.size() / n}}, {bytes.begin(), bytes.end()}});
    };
    add("_packed", TensorType::u8, rows.codes);
    add("_scale", nv ? TensorType::f8_e4m3 : TensorType::u8, rows.scales);
    if (nv) all.push_back({{part.theirs + "_global_scale", TensorType::f32, {1}}});
    if (nv) append_bytes(all.back().bytes, 1 / t.multiplier);
  }
  return all;
}

}  // namespace mxtape
