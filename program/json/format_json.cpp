#include "program/json/format_json.h"

#include "formats/telemetry/statistics.h"

namespace mxtape {

void put_storage(Json& object, const Quantizer& q) {
  object["bits_per_element"] = q.bits_per_element();
  put_number(object, "bits_per_block", bits_per_block(q),
             q.scale == ScaleKind::none ? "no blocks" : "a block is as large as the tensor's axis");
  object["saved_against_f32"] = memory_saved(q, 32);
  object["saved_against_bf16"] = memory_saved(q, 16);
}

}  // namespace mxtape
