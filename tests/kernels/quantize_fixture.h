#pragma once
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <random>
#include <string>
#include <vector>

#include "core/error.h"
#include "core/parallel.h"
#include "formats/quantize.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/rounded.h"
#include "tests/support/tensors.h"

namespace mxtape::test {

/// What a test tensor is made of. Rare blocks take other ways through the kernels than common ones.
enum class Content { normal, spread, specials };

inline std::vector<float> content(Content kind, std::int64_t count, std::uint64_t seed) {
  std::mt19937_64 random(seed);
  std::normal_distribution<float> normal;
  std::vector<float> x(static_cast<std::size_t>(count));
  for (float& v : x) v = normal(random);
  if (kind == Content::normal) return x;
  // Runs of 1 to 80 elements share an exponent from all that f32 has; some runs are zero.
  for (std::size_t i = 0; i < x.size();) {
    const std::size_t end = std::min(x.size(), i + 1 + random() % 80);
    const int exponent = random() % 4 ? int(random() % 40) - 20 : int(random() % 290) - 150;
    const bool zero = random() % 8 == 0;
    for (; i < end; ++i) x[i] = zero ? std::copysign(0.0f, x[i]) : std::ldexp(x[i], exponent);
  }
  if (kind == Content::spread) return x;
  const float special[] = {std::nanf(""),   -std::nanf(""), INFINITY,   -INFINITY,
                           0x1.fffffep127f, -0x1p-149f,     0x1.5p-134f};
  for (std::size_t i = 0; i < x.size(); i += 1 + random() % 200)
    x[i] = special[random() % std::size(special)];
  return x;
}

struct Case {
  std::string quantizer;
  std::int64_t rows, cols;
  Content kind = Content::normal;
};

inline bool same(float a, float b) { return bits_of(a) == bits_of(b) || (std::isnan(a) && std::isnan(b)); }

/// Makes `check` once per way that the device has of computing: the CPU's instruction sets.
template <class Check>
void on_every_tier(const Check& check) {
  if (tested_device != TestedDevice::cpu) return check();
  const cpu::Tier best = cpu::tier();
  for (const cpu::Tier tier : tiers_of_this_machine()) {
    cpu::set_tier(tier);
    check();
  }
  cpu::set_tier(best);
}

/// On the lockstep host, which takes a second for what a GPU does in no time, each shape has one content.
inline bool is_in_turn(Content kind, std::size_t shape) {
  return tested_device != TestedDevice::lockstep || shape % 3 == std::size_t(kind);
}

// Every way through the kernels: whole and ragged tiles, vectors and blocks, one row, one column.
inline const std::vector<std::array<std::int64_t, 2>> shapes{{64, 256}, {1, 1},    {1, 33},  {33, 1},
                                                             {70, 300}, {128, 96}, {65, 47}, {3, 2500}};

class Quantize : public testing::Test {
 protected:
  ~Quantize() override { set_threads(threads_before); }

  Rounded copy_for(const Quantizer& q, Axis axis, Shape shape) { return room_for(device(), q, axis, shape); }
  Tensor upload_as(DType dtype, Shape shape, std::vector<float>& values) {
    if (dtype == DType::f32) return upload(device(), shape, values);
    std::vector<bf16> narrow;
    for (float& v : values) v = to_f32(narrow.emplace_back(to_bf16(v)));
    return upload(device(), shape, narrow);
  }
  Tensor normal(Shape shape, std::uint64_t seed) {
    const Tensor x = device().empty(shape);
    device().run(call::Normal{x, 1, {.seed = seed, .purpose = Purpose::initialisation}});
    return x;
  }

  void expect_copy(const Rounded& copy, const std::vector<float>& x, const DrawKey& key) {
    const std::int64_t rows = copy.elements.rows(), cols = copy.elements.cols();
    const std::string text = to_text(copy.by.quantizer);
    std::vector<float> want(x.size());
    const float multiplier =
        quantize_reference(want.data(), x.data(), rows, cols, copy.by.axis, copy.by.quantizer, key);
    EXPECT_TRUE(!copy.multiplier || same(download(device(), copy.multiplier)[0], multiplier)) << text;
    const bool narrow = copy.elements.dtype() == DType::bf16;
    const std::vector<float> got = download(device(), copy.elements);
    int differences = 0;
    for (std::size_t i = 0; i < x.size(); ++i) {
      const float wanted = narrow ? to_f32(to_bf16(want[i])) : want[i];
      if (same(got[i], wanted) || ++differences > 3) continue;
      ADD_FAILURE() << text << " along " << (copy.by.axis == Axis::row ? "rows" : "columns") << " of ["
                    << rows << ", " << cols << "] at row " << i / std::size_t(cols) << ", column "
                    << i % std::size_t(cols) << ": x " << x[i] << ", got " << got[i] << ", want " << wanted
                    << " (seed " << key.seed << ", " << cpu::name_of(cpu::tier()) << ")";
    }
  }

  /// Both copies in one call, or one alone, equal the definition, the multiplier too.
  void expect_definition(const Case& c, const DrawKey& key, bool alone = false) {
    const Quantizer q = parse_quantizer(c.quantizer);
    const Shape shape{c.rows, c.cols};
    auto host = content(c.kind, c.rows * c.cols, key.seed);
    const Tensor x = upload_as(key.seed % 2 ? DType::f32 : DType::bf16, shape, host);
    Rounded copies[] = {copy_for(q, Axis::row, shape), copy_for(q, Axis::column, shape)};
    if (alone) {
      for (Rounded& copy : copies) quantize(device(), {&copy, 1}, x, key);
    } else {
      quantize(device(), copies, x, key);
    }
    for (const Rounded& copy : copies) expect_copy(copy, host, key);
  }

  /// The same of each, for every content and shape, on every tier.
  void expect_definitions(std::uint64_t seed, std::initializer_list<const char*> quantizers) {
    on_every_tier([&] {
      for (const char* q : quantizers)
        for (const Content kind : {Content::normal, Content::spread, Content::specials})
          for (std::size_t i = 0; i < shapes.size(); ++i) {
            const auto [rows, cols] = shapes[i];
            ++seed;
            if (!is_in_turn(kind, i)) continue;
            expect_definition({q, rows, cols, kind}, {.seed = seed}, seed % 5 == 0);
            if (HasFailure()) return;
          }
    });
  }

  const int threads_before = threads();
};

}  // namespace mxtape::test
