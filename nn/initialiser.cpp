#include "nn/initialiser.h"

#include <utility>

namespace mxtape {

Parameter Initialiser::normal(std::string name, Shape shape, float deviation, std::uint32_t tensor_id) const {
  Parameter p{.name = std::move(name), .value = backend.empty(shape), .decay = shape.rank >= 2};
  backend.run(call::Normal{p.value, deviation, {seed, Purpose::initialisation, tensor_id, 0, 0}});
  return p;
}

Parameter Initialiser::constant(std::string name, Shape shape, float value) const {
  Parameter p{.name = std::move(name), .value = backend.empty(shape), .decay = shape.rank >= 2};
  backend.fill(p.value, value);
  return p;
}

}  // namespace mxtape
