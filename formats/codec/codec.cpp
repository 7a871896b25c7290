#include "formats/codec/codec.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "formats/scale.h"

namespace mxtape {

std::vector<float> values_of(const ElementFormat& f) {
  std::vector<float> values;
  const float lowest = grid_of(f).lowest;
  for (std::uint64_t code = 0; code < std::uint64_t{1} << f.bits(); ++code) {
    const float value = decode(f, std::uint32_t(code));
    if (std::isfinite(value) && value >= lowest) values.push_back(value == 0 ? 0 : value);
  }
  std::sort(values.begin(), values.end());
  values.erase(std::unique(values.begin(), values.end()), values.end());
  return values;
}

std::uint8_t cast_e8m0_up(float x) {
  if (!(x <= 0x1p127f) || x < 0) return 0xff;
  if (x == 0) return 0;
  const int e = shared_exponent({0x7fffffu, 0}, x);
  return encode_exponent(scale_of_exponent(e < -127 ? -127 : e));
}

std::uint8_t cast_e8m0_nearest(float x) {
  if (!(x > 0) || std::isinf(x)) return 0xff;
  const std::uint32_t half = x < 0x1p-126f ? 0x3fffffu : 0x400000u;
  return std::uint8_t((bits_of(x) + half) >> 23);
}

std::vector<std::uint8_t> pack_bits(std::span<const std::uint32_t> codes, int bits) {
  std::vector<std::uint8_t> bytes((codes.size() * std::size_t(bits) + 7) / 8);
  CodeWriter writer{bytes.data(), bits};
  for (const std::uint32_t code : codes) writer.put(code);
  writer.finish();
  return bytes;
}

std::vector<std::uint32_t> unpack_bits(std::span<const std::uint8_t> bytes, int bits, std::int64_t count) {
  require(std::int64_t(bytes.size()) == (count * bits + 7) / 8, ExitCode::data,
          "packed codes: {} bytes for {} codes of {} bits", bytes.size(), count, bits);
  std::vector<std::uint32_t> codes;
  codes.reserve(std::size_t(count));
  CodeReader reader{bytes.data(), bits};
  for (std::int64_t i = 0; i < count; ++i) codes.push_back(reader.take());
  return codes;
}

}  // namespace mxtape
