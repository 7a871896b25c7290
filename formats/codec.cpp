#include "formats/codec.h"

#include <algorithm>
#include <cmath>

#include "core/error.h"
#include "core/host_device.h"
#include "formats/scale.h"

namespace mxtape {
namespace {

std::uint32_t low_bits(int count) { return count >= 32 ? ~0u : (1u << count) - 1; }

}  // namespace

bool has_nan(const ElementFormat& f) { return f.specials != Specials::none; }

std::uint32_t encode(const ElementFormat& f, float value) {
  const int bits = f.bits(), y = f.mantissa_bits;
  if (f.is_integer()) {
    if (std::isnan(value)) return 0;
    return std::uint32_t(std::lrint(std::ldexp(double(value), -f.unit_exponent))) & low_bits(bits);
  }
  const std::uint32_t sign = std::signbit(value) ? 1u << (bits - 1) : 0;
  const std::uint32_t top = low_bits(f.exponent_bits) << y;
  if (std::isnan(value) || (std::isinf(value) && f.specials != Specials::ieee)) {
    if (f.specials == Specials::none) return 1u << (bits - 1);
    // The quiet NaN: all ones where that is the only one, else the highest mantissa bit.
    return sign | top | (f.specials == Specials::nan_only ? low_bits(y) : 1u << (y - 1));
  }
  if (std::isinf(value)) return sign | top;
  const double magnitude = std::fabs(double(value));
  const int exponent = magnitude == 0 ? f.min_exponent() : std::max(std::ilogb(magnitude), f.min_exponent());
  const auto steps = std::uint32_t(std::ldexp(magnitude, y - exponent));
  // Normal numbers have steps >= 2^y, whose leading 1 adds itself to the exponent field.
  return sign | ((std::uint32_t(exponent - f.min_exponent()) << y) + steps);
}

float decode(const ElementFormat& f, std::uint32_t code) {
  const int bits = f.bits(), y = f.mantissa_bits;
  const std::uint32_t sign_bit = 1u << (bits - 1);
  const std::uint32_t magnitude = code & low_bits(bits - 1);
  if (f.is_integer()) {
    const double steps = double(magnitude) - ((code & sign_bit) != 0 ? double(sign_bit) : 0);
    return float(std::ldexp(steps, f.unit_exponent));
  }
  const float sign = (code & sign_bit) != 0 ? -1.0f : 1.0f;
  const std::uint32_t field = magnitude >> y, mantissa = magnitude & low_bits(y);
  const std::uint32_t top = low_bits(f.exponent_bits);
  if (f.specials == Specials::ieee && field == top)
    return std::copysign(mantissa == 0 ? INFINITY : NAN, sign);
  if (f.specials == Specials::nan_only && field == top && mantissa == low_bits(y))
    return std::copysign(NAN, sign);
  const double steps = field == 0 ? mantissa : mantissa + (1u << y);
  const int exponent = f.min_exponent() + (field == 0 ? 0 : int(field) - 1);
  return sign * float(std::ldexp(steps, exponent - y));
}

std::uint8_t encode_exponent(float scale, int bits) {
  if (std::isnan(scale)) return std::uint8_t(low_bits(bits));
  return std::uint8_t(std::ilogb(scale) + (1 << (bits - 1)) - 1);
}

float decode_exponent(std::uint8_t code, int bits) {
  if (code == low_bits(bits)) return NAN;
  return scale_of_exponent(int(code) - (1 << (bits - 1)) + 1);
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
  std::vector<std::uint8_t> bytes;
  bytes.reserve((codes.size() * std::size_t(bits) + 7) / 8);
  std::uint64_t held = 0;
  int count = 0;
  for (const std::uint32_t code : codes) {
    held |= std::uint64_t(code & low_bits(bits)) << count;
    for (count += bits; count >= 8; count -= 8, held >>= 8) bytes.push_back(std::uint8_t(held));
  }
  if (count > 0) bytes.push_back(std::uint8_t(held));
  return bytes;
}

std::vector<std::uint32_t> unpack_bits(std::span<const std::uint8_t> bytes, int bits, std::int64_t count) {
  require(std::int64_t(bytes.size()) == (count * bits + 7) / 8, ExitCode::data,
          "packed codes: {} bytes for {} codes of {} bits", bytes.size(), count, bits);
  std::vector<std::uint32_t> codes;
  codes.reserve(std::size_t(count));
  std::uint64_t held = 0;
  int available = 0;
  std::size_t next = 0;
  for (std::int64_t i = 0; i < count; ++i) {
    for (; available < bits; available += 8) held |= std::uint64_t(bytes[next++]) << available;
    codes.push_back(std::uint32_t(held) & low_bits(bits));
    held >>= bits;
    available -= bits;
  }
  return codes;
}

}  // namespace mxtape
