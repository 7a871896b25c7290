#include "program/show/format_json.h"

#include <cmath>
#include <optional>

#include "formats/codec/codec.h"
#include "formats/telemetry/statistics.h"

namespace mxtape {

void put_storage(Json& object, const Quantizer& q) {
  object["bits_per_element"] = q.bits_per_element();
  put(object, "bits_per_block",
      {bits_per_block(q),
       q.scale == ScaleKind::none ? "no blocks" : "a block is as large as the tensor's axis"});
  object["saved_against_f32"] = memory_saved(q, 32);
  object["saved_against_bf16"] = memory_saved(q, 16);
}

void put_numbers(Json& object, const ElementFormat& f) {
  object["largest"] = double(f.max_finite());
  const std::optional<double> none;
  put(object, "smallest_normal",
      {f.is_integer() ? none : std::ldexp(1.0, f.min_exponent()), "integers have no exponents"});
  object["smallest_positive"] = double(f.min_positive());
  if (f.bits() > most_listed_bits)
    put(object, "values", {nullptr, "more than are listed"});
  else
    object["values"] = values_of(f);
}

}  // namespace mxtape
