#pragma once
#include <cmath>
#include <vector>

#include <fmt/format.h>

#include "formats/quantizer.h"
#include "tests/support/for_all.h"

namespace mxtape::test {

inline ElementFormat random_element(Random& random) {
  const auto pick = std::size_t(integer_in(random, 0, std::int64_t(element_formats.size()) + 2));
  ElementFormat f =
      pick < element_formats.size()
          ? element_formats[pick].format
          : *parse_element(std::vector<const char*>{"e2m2", "e5m1", "int5"}[pick - element_formats.size()]);
  if (f.is_integer() && random() % 2) f.full_range = true;
  if (f.is_integer() && random() % 3 == 0) {
    const bool full = f.full_range;
    f = int_format(f.bits(), int(integer_in(random, 1, 4)));
    f.full_range = full;
  }
  if (f == e3m0 && random() % 2) f.tie = TieRule::code;
  return f;
}

/// Any value that does not contradict itself and whose unused fields are at their defaults.
inline Quantizer random_quantizer(Random& random) {
  const auto one_of = [&](std::initializer_list<int> values) {
    return *(values.begin() + integer_in(random, 0, std::int64_t(values.size()) - 1));
  };
  Quantizer q;
  q.element = random_element(random);
  q.scale = ScaleKind(integer_in(random, 0, q.element.exponent_bits == 8 ? 1 : 3));
  if (q.is_identity()) return q;
  q.rounding = roundings[std::size_t(integer_in(random, 0, roundings.size() - 1))].value;
  if (q.rounding != Rounding::even) q.element.tie = TieRule::significand;
  const auto with_sr_bits = [&] {
    if (q.is_stochastic()) q.sr_bits = std::uint8_t(integer_in(random, 8, 32));
    return q;
  };
  if (q.scale == ScaleKind::none) return with_sr_bits();
  q.block = {one_of({0, 1, 16, 32, 5}), one_of({1, 1, 0, 16, 3})};
  if (q.scale == ScaleKind::power_of_two) {
    q.scale_bits = std::uint8_t(one_of({8, 8, 5, 2, q.element.exponent_bits < 8 ? 10 : 8}));
    q.rule = scale_rules[std::size_t(integer_in(random, 0, scale_rules.size() - 1))].value;
    if (q.scale_bits < 8 && q.element.exponent_bits < 8) q.overflow = ScaleOverflow(integer_in(random, 0, 1));
  }
  if (q.scale == ScaleKind::floating) {
    const char* const scales[] = {"e4m3", "e4m3", "e5m2", "ue5m3", "bf16", "e8m1", "e3m4"};
    const Quantizer of_scale =
        parse_quantizer(fmt::format("e2m1 scale={}", scales[integer_in(random, 0, 6)]));
    q.scale_format = of_scale.scale_format;
    q.scale_sign = of_scale.scale_sign;
    q.outer = of_scale.outer;
    if (q.outer == OuterScale::tensor && random() % 3 == 0) {
      q.outer = random() % 2 ? OuterScale::none : OuterScale::group;
      if (q.outer == OuterScale::group && q.block.along > 0 && random() % 2)
        q.outer_along = q.block.along * std::int32_t(integer_in(random, 1, 4));
    }
    if (random() % 3 == 0)
      q.scale_rounding = ScaleRounding(integer_in(random, 0, q.rounding == Rounding::stochastic ? 2 : 3));
    q.eden = q.rounding != Rounding::stochastic && q.element.exponent_bits < 7 && random() % 4 == 0;
  }
  q.search = q.scale == ScaleKind::power_of_two && random() % 4 == 0;
  if (random() % 4 == 0) {
    q.statistic = Statistic::rms;
    q.clip = float(one_of({1, 2, 3}));
  }
  q.flush_subnormals = q.scale == ScaleKind::power_of_two && random() % 4 == 0;
  const bool is_e2m1 = q.element == e2m1;
  if (is_e2m1 && q.scale != ScaleKind::power_of_two) q.four_over_six = random() % 2;
  if (random() % 4 == 0) q.alpha = float(one_of({1, 2, 3})) / 4;
  if (q.four_over_six || q.search) q.absolute_error = random() % 2;
  const bool may_move = q.statistic == Statistic::amax && !q.search && !q.eden;
  if (may_move && q.element.is_integer() && q.element.bits() + q.element.full_range <= 16 && random() % 3 == 0)
    q.offset = Offset::zero_point;
  else if (may_move && !q.has_multiplier() && !q.has_group_scale() && random() % 3 == 0)
    q.offset = Offset::midpoint;
  q.ema = q.rounding == Rounding::even && q.offset == Offset::none && !q.eden &&
          q.scale_rounding != ScaleRounding::stochastic && q.element.exponent_bits < 8 && random() % 2 == 0;
  return with_sr_bits();
}

/// One that can be packed.
inline Quantizer random_packable(Random& random) {
  Quantizer q = random_quantizer(random);
  while (q.has_group_scale()) q = random_quantizer(random);
  return q;
}

/// Standard normal-like numbers over many binades, with zeros.
inline std::vector<float> random_values(Random& random, std::int64_t count) {
  std::vector<float> x;
  for (std::int64_t i = 0; i < count; ++i) {
    const double u = double(random() >> 11) * 0x1p-53 - 0.5;
    const auto exponent = int(integer_in(random, -6, 6));
    x.push_back(random() % 20 == 0 ? 0.0f : float(std::ldexp(u, exponent)));
  }
  return x;
}

}  // namespace mxtape::test
