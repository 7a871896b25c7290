#include <gtest/gtest.h>

#include <cmath>

#include "kernels/calls_rows.h"
#include "tests/support/closeness.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/reference_rows.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

struct Extents {
  std::int64_t B, T, H, G, D, first_position = 0;
};
// Halves that are multiples of eight, and others; more heads than a block has warps; one head of each.
constexpr Extents extents[] = {
    {2, 5, 3, 1, 6}, {1, 7, 4, 2, 16, 3}, {2, 9, 12, 4, 64}, {1, 3, 1, 1, 130, 2}, {2, 2, 2, 2, 512}};
constexpr float eps = 1e-3f;

void PrintTo(const Extents& e, std::ostream* out) {
  *out << e.B << " x " << e.T << ", " << e.H << " + 2 x " << e.G << " heads of " << e.D << " from "
       << e.first_position;
}

struct Case {
  Extents e;
  std::int64_t rows, heads;  // of a row
  std::vector<float> x, dy, cos, sin, q_gain, k_gain;
  explicit Case(const Extents& e)
      : e(e),
        rows(e.B * e.T),
        heads(e.H + 2 * e.G),
        x(normals(rows * heads * e.D, 1)),
        dy(normals(rows * heads * e.D, 2)),
        q_gain(normals(e.D, 3)),
        k_gain(normals(e.D, 4)) {
    for (std::int64_t i = 0; i < (e.first_position + e.T) * (e.D / 2); ++i) {
      const double angle = 0.37 * double(i * i % 101);
      cos.push_back(float(std::cos(angle))), sin.push_back(float(std::sin(angle)));
    }
  }
  Shape shape() const { return {e.B, e.T, heads * e.D}; }
  Tensor table(const std::vector<float>& values) const {
    return upload(device(), {e.first_position + e.T, e.D / 2}, values);
  }
  /// f(place of the head's numbers, place of its row's angles, its number in the row).
  void for_heads(const auto& f) const {
    for (std::int64_t head = 0; head < rows * heads; ++head)
      f(std::size_t(head * e.D), std::size_t((e.first_position + head / heads % e.T) * (e.D / 2)),
        head % heads);
  }
  /// As the formula says, each product and sum rounded once.
  std::vector<float> turned(const std::vector<float>& from, float sign) const {
    std::vector<float> y = from;
    const auto half = std::size_t(e.D / 2);
    for_heads([&](std::size_t at, std::size_t angles, std::int64_t head) {
      if (head >= e.H + e.G) return;
      for (std::size_t i = 0; i < half; ++i) {
        const float a = from[at + i], b = from[at + half + i], c = cos[angles + i],
                    s = sign * sin[angles + i];
        y[at + i] = a * c - b * s;
        y[at + half + i] = b * c + a * s;
      }
    });
    return y;
  }
};

std::vector<float> turn(const Case& c, bool in_place) {
  const Tensor x = upload(device(), c.shape(), c.x), y = in_place ? x : device().empty(x.shape());
  device().run(call::Rotary{.y = y,
                            .x = x,
                            .cos = c.table(c.cos),
                            .sin = c.table(c.sin),
                            .heads = c.e.H,
                            .kv_heads = c.e.G,
                            .first_position = c.e.first_position});
  return download(device(), y);
}
std::vector<float> turn_back(const Case& c, bool in_place) {
  const Tensor dy = upload(device(), c.shape(), c.dy), dx = in_place ? dy : device().empty(dy.shape());
  device().run(call::RotaryBackward{.dx = dx,
                                    .dy = dy,
                                    .cos = c.table(c.cos),
                                    .sin = c.table(c.sin),
                                    .heads = c.e.H,
                                    .kv_heads = c.e.G,
                                    .first_position = c.e.first_position});
  return download(device(), dx);
}

TEST(Rotary, TurnsPairsOfHalvesWithOneRoundingAnOperationAndLeavesValuesAlone) {
  for (const Extents& e : extents) {
    const Case c(e);
    SCOPED_TRACE(testing::PrintToString(e));
    const std::vector<float> want = c.turned(c.x, 1), back = c.turned(c.dy, -1);
    for (const bool in_place : {false, true}) {
      EXPECT_EQ(turn(c, in_place), want);
      EXPECT_EQ(turn_back(c, in_place), back);
    }
  }
}

struct Normed {
  std::vector<float> y, rstd, dx, dq, dk;
};
Normed run(const Case& c, Write write = Write::overwrite) {
  Backend& d = device();
  const Extents& e = c.e;
  const Tensor x = upload(d, c.shape(), c.x), y = d.empty(x.shape()), rstd = d.empty({e.B, e.T, e.H + e.G}),
               cos = c.table(c.cos), sin = c.table(c.sin), q = upload(d, {e.D}, c.q_gain),
               k = upload(d, {e.D}, c.k_gain);
  d.run(call::Rotary{y, x, cos, sin, e.H, e.G, e.first_position, rstd, q, k, eps});
  const Tensor dx = upload(d, c.shape(), c.dy), dq = upload(d, {e.D}, c.q_gain),
               dk = upload(d, {e.D}, c.k_gain);
  d.run(call::RotaryBackward{dx, dx, cos, sin, e.H, e.G, e.first_position, dq, dk, x, rstd, q, k, write});
  return {download(d, y), download(d, rstd), download(d, dx), download(d, dq), download(d, dk)};
}

/// The heads [n, D] of queries, or of keys, one behind the other.
std::vector<float> heads_of(const Case& c, const std::vector<float>& from, bool queries) {
  std::vector<float> all;
  c.for_heads([&](std::size_t at, std::size_t, std::int64_t head) {
    if (queries ? head < c.e.H : head >= c.e.H && head < c.e.H + c.e.G)
      all.insert(all.end(), from.begin() + std::ptrdiff_t(at),
                 from.begin() + std::ptrdiff_t(at) + std::ptrdiff_t(c.e.D));
  });
  return all;
}
std::vector<float> rstd_of(const Case& c, const std::vector<float>& rstd, bool queries) {
  std::vector<float> all;
  for (std::int64_t i = 0; i < std::int64_t(rstd.size()); ++i)
    if ((i % (c.e.H + c.e.G) < c.e.H) == queries) all.push_back(rstd[std::size_t(i)]);
  return all;
}
std::vector<float> values_of(const Case& c, const std::vector<float>& from) {
  std::vector<float> all;
  c.for_heads([&](std::size_t at, std::size_t, std::int64_t head) {
    if (head >= c.e.H + c.e.G)
      all.insert(all.end(), from.begin() + std::ptrdiff_t(at),
                 from.begin() + std::ptrdiff_t(at) + std::ptrdiff_t(c.e.D));
  });
  return all;
}

/// Of normed heads, turned: the norms' bounds go through the turn, whose operations have theirs.
Reference turned(const Case& c, const Reference& normed, bool queries) {
  Reference y;
  const auto D = std::size_t(c.e.D), half = D / 2, of_row = std::size_t(queries ? c.e.H : c.e.G);
  for (std::size_t head = 0; head < normed.value.size() / D; ++head) {
    const std::size_t angles = (std::size_t(c.e.first_position) + head / of_row % std::size_t(c.e.T)) * half;
    for (std::size_t j = 0; j < D; ++j) {
      const std::size_t i = j % half, a = head * D + i, b = a + half;
      const double cos = c.cos[angles + i], sin = c.sin[angles + i];
      const double first = j < half ? cos : sin, second = j < half ? -sin : cos;
      const auto& v = normed.value;
      y.push(v[a] * first + v[b] * second, std::abs(first) * normed.bound[a] +
                                               std::abs(second) * normed.bound[b] +
                                               gamma(2) * (std::abs(v[a] * first) + std::abs(v[b] * second)));
    }
  }
  return y;
}

TEST(Rotary, NormsHeadsBeforeItTurnsThemWithinRoundingErrors) {
  for (const Extents& e : extents) {
    const Case c(e);
    SCOPED_TRACE(testing::PrintToString(e));
    const Normed got = run(c);
    const std::vector<float> back = c.turned(c.dy, -1);
    for (const bool queries : {true, false}) {
      const auto& gain = queries ? c.q_gain : c.k_gain;
      const auto x = heads_of(c, c.x, queries);
      const auto [normed, rstd] = reference::rms_norm(x, gain, eps);
      const Reference y = turned(c, normed, queries);
      EXPECT_TRUE(within(heads_of(c, got.y, queries), y.value, y.bound)) << queries;
      const auto used = rstd_of(c, got.rstd, queries);
      EXPECT_TRUE(within(used, rstd.value, rstd.bound)) << queries;
      const auto [dx, dgain] = reference::rms_norm_backward(heads_of(c, back, queries), x, used, gain);
      EXPECT_TRUE(within(heads_of(c, got.dx, queries), dx.value, dx.bound)) << queries;
      EXPECT_TRUE(within(queries ? got.dq : got.dk, dgain.value, dgain.bound)) << queries;
      const auto added = reference::rms_norm_backward(heads_of(c, back, queries), x, used, gain, gain).dgain;
      const Normed more = run(c, Write::accumulate);
      EXPECT_TRUE(within(queries ? more.dq : more.dk, added.value, added.bound)) << queries;
      EXPECT_FALSE(within(queries ? got.dk : got.dq, dgain.value, dgain.bound)) << queries;
    }
    EXPECT_EQ(values_of(c, got.y), values_of(c, c.x));
    EXPECT_EQ(values_of(c, got.dx), values_of(c, c.dy));
  }
}

TEST(Rotary, TheBoundsSeeEpsAndAPositionThatIsOneOff) {
  Case c(extents[2]);
  const Normed got = run(c);
  const auto x = heads_of(c, c.x, true);
  const Reference y = turned(c, reference::rms_norm(x, c.q_gain, eps).y, true);
  EXPECT_FALSE(within(heads_of(c, got.y, true),
                      turned(c, reference::rms_norm(x, c.q_gain, eps * 1.01).y, true).value, y.bound));
  c.cos.insert(c.cos.begin(), c.cos.begin(), c.cos.begin() + std::ptrdiff_t(c.e.D / 2));
  c.sin.insert(c.sin.begin(), c.sin.begin(), c.sin.begin() + std::ptrdiff_t(c.e.D / 2));
  EXPECT_FALSE(within(heads_of(c, got.y, true),
                      turned(c, reference::rms_norm(x, c.q_gain, eps).y, true).value, y.bound));
}

TEST(Rotary, HeadsThatNoWarpOfTheGpuHoldsAreRefused) {
  if (device_is_cpu()) GTEST_SKIP() << "the CPU has no limit";
  try {
    run(Case({1, 1, 1, 1, 514}));
    FAIL();
  } catch (const Error& e) {
    EXPECT_STREQ(e.what(), "cuda: rotary: heads of 514 with norms; at most 512 fit into a warp's registers");
  }
}

TEST(Rotary, TiersAndThreadCountsGiveTheSameBits) {
  const Case c({2, 45, 6, 2, 40});
  expect_same_bits_everywhere([&] {
    Normed got = run(c);
    for (const auto* part : {&got.rstd, &got.dx, &got.dq, &got.dk}) append(got.y, *part);
    append(got.y, turn(c, true));
    return append(got.y, turn_back(c, false));
  });
}

}  // namespace
}  // namespace mxtape::test
