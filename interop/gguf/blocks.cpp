#include <algorithm>
#include <cstring>

#include "data/half.h"
#include "formats/codec/block_codec.h"
#include "interop/gguf/format.h"

namespace mxtape {

std::string blocks_of_row(const GgufType& type, const MxTensor& t, std::int64_t row) {
  const Quantizer& q = t.quantizer;
  const BlockExtent extent = block_extent(q.block, t.rows, t.cols, t.axis);
  const std::int64_t first = row / extent.rows * ((t.cols + extent.cols - 1) / extent.cols);
  const std::size_t unit = type.numbers / type.scales, half = unit / 2;
  CodeReader reader{t.codes.data() + row * t.cols * q.element.bits() / 8, q.element.bits()};
  std::vector<std::uint32_t> codes(type.numbers);
  std::string bytes;
  for (std::size_t c = 0; c < std::size_t(t.cols); c += type.numbers) {
    for (auto& code : codes) code = reader.take();
    for (std::size_t u = 0; u < type.scales; ++u) {
      const std::int64_t block = first + std::int64_t(c + u * unit) / extent.cols;
      const float scale = load_scale(t.scales.data(), block, q).scale;
      const std::uint32_t bits = type.id == GgufType::mxfp4   ? encode_exponent(scale)
                                 : type.id == GgufType::nvfp4 ? encode(e4m3, scale)
                                                              : half_of_f32(scale / 64).value_or(0);
      bytes += char(bits & 255);
      if (type.id == GgufType::q8_0) bytes += char(bits >> 8);
    }
    if (type.id == GgufType::q8_0) bytes.append(codes.begin(), codes.end());
    for (std::size_t j = 0; type.id != GgufType::q8_0 && j < type.numbers / 2; ++j) {
      const std::size_t low = j / half * unit + j % half;
      bytes += char(codes[low] | codes[low + half] << 4);
    }
  }
  return bytes;
}

std::vector<float> values_of_blocks(const GgufType& type, std::string_view blocks) {
  const std::size_t unit = type.numbers / std::max<std::size_t>(type.scales, 1), half = (unit + 1) / 2;
  std::vector<float> values(blocks.size() / type.bytes * type.numbers);
  for (std::size_t i = 0; i < values.size(); ++i) {
    const char* const block = &blocks[i / type.numbers * type.bytes];
    const std::size_t u = i % type.numbers / unit, j = i % unit;  // number j of scale u
    const auto byte = [&](std::size_t at) { return std::uint8_t(block[at]); };
    const auto bits = std::uint16_t(byte(0) | byte(1) << 8);
    if (type.id == GgufType::f32) {
      std::memcpy(&values[i], block, sizeof(float));
    } else if (type.numbers == 1) {
      values[i] = type.id == GgufType::f16 ? f32_of_half(bits) : to_f32(bf16{bits});
    } else if (type.id == GgufType::q8_0) {
      values[i] = float(std::int8_t(block[2 + j])) * f32_of_half(bits);
    } else {
      const float scale = type.id == GgufType::mxfp4 ? decode_exponent(byte(0)) : decode(e4m3, byte(u));
      values[i] = decode(e2m1, byte(type.scales + u * half + j % half) >> (j < half ? 0 : 4)) * scale;
    }
  }
  return values;
}

}  // namespace mxtape
