#include "program/models/model_text.h"

#include "nn/model.h"

namespace mxtape {

std::string model_text(const ModelConfig& m) {
  std::string text = fmt::format("layers {}, heads {}", m.layers, m.heads);
  if (m.key_heads() != m.heads) text += fmt::format(" (keys {})", m.key_heads());
  if (m.heads * m.head_channels() != m.width) text += fmt::format(" of {}", m.head_channels());
  text += fmt::format(", width {}, context {}, vocabulary {}", m.width, m.context, m.vocabulary);
  if (m.norm == NormKind::rms) text += ", rms norm";
  if (m.positions == Positions::rope) text += ", rope";
  if (m.qk_norm) text += ", qk norm";
  if (m.mlp == MlpKind::swiglu) text += ", swiglu";
  return text + fmt::format(": {} parameters", parameter_count(m));
}

}  // namespace mxtape
