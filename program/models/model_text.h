#pragma once
#include <string>

#include "nn/config.h"

namespace mxtape {

/// "layers 4, heads 4 (keys 2), width 128, context 64, vocabulary 65, rms norm, rope, swiglu: 795904
/// parameters". What GPT-2 has too is not named.
std::string model_text(const ModelConfig&);

}  // namespace mxtape
