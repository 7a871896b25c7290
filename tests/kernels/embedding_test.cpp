#include <gtest/gtest.h>

#include "kernels/calls_rows.h"
#include "tests/support/device.h"
#include "tests/support/every_tier.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

struct Case {
  std::int64_t B, T, C, V, positions;  // 0 positions: none
};
constexpr Case cases[] = {{2, 7, 1, 3, 7},       {3, 50, 65, 9, 64},   {1, 1, 5, 2, 0},
                          {5, 64, 130, 200, 64}, {2, 33, 264, 40, 33}, {37, 130, 8, 11, 130}};

struct Lookup {
  std::vector<float> table, positions, dy;
  std::vector<std::int32_t> tokens;
  explicit Lookup(const Case& c)
      : table(normals(c.V * c.C, 1)),
        positions(normals(c.positions * c.C, 2)),
        dy(normals(c.B * c.T * c.C, 3)),
        tokens(random_tokens(c.B * c.T, std::int32_t(c.V), 4)) {}
};

struct Gradients {
  std::vector<float> table, positions;
};
Gradients backward(const Case& c, const Lookup& in, Write write) {
  const Tensor table = upload(device(), {c.V, c.C}, in.table);
  const Tensor positions = c.positions ? upload(device(), {c.positions, c.C}, in.positions) : Tensor{};
  device().run(call::EmbeddingBackward{table, positions, upload(device(), {c.B, c.T, c.C}, in.dy),
                                       upload(device(), {c.B, c.T}, in.tokens), write, write});
  return {download(device(), table), positions ? download(device(), positions) : std::vector<float>{}};
}

TEST(Embedding, IsTheTokensRowPlusThePositionsRow) {
  for (const Case& c : cases) {
    const Lookup in(c);
    const Tensor y = device().empty({c.B, c.T, c.C});
    device().run(call::Embedding{y, upload(device(), {c.V, c.C}, in.table),
                                 c.positions ? upload(device(), {c.positions, c.C}, in.positions) : Tensor{},
                                 upload(device(), {c.B, c.T}, in.tokens)});
    const std::vector<float> got = download(device(), y);
    for (std::int64_t r = 0; r < c.B * c.T; ++r)
      for (std::int64_t i = 0; i < c.C; ++i) {
        const float row = in.table[std::size_t(in.tokens[std::size_t(r)] * c.C + i)];
        const float want = c.positions ? row + in.positions[std::size_t(r % c.T * c.C + i)] : row;
        ASSERT_EQ(got[std::size_t(r * c.C + i)], want) << r << " " << i;
      }
  }
}

// Sums in the order of the rows are a definition, so there is no tolerance.
TEST(Embedding, BackwardSumsInTheOrderOfTheRows) {
  for (const Case& c : cases)
    for (const Write write : {Write::overwrite, Write::accumulate}) {
      const Lookup in(c);
      const Gradients got = backward(c, in, write);
      std::vector<float> table(in.table.size()), positions(in.positions.size());
      if (write == Write::accumulate) table = in.table, positions = in.positions;
      for (std::int64_t r = 0; r < c.B * c.T; ++r)
        for (std::int64_t i = 0; i < c.C; ++i) {
          const float g = in.dy[std::size_t(r * c.C + i)];
          table[std::size_t(in.tokens[std::size_t(r)] * c.C + i)] += g;
          if (c.positions) positions[std::size_t(r % c.T * c.C + i)] += g;
        }
      EXPECT_EQ(got.table, table);
      EXPECT_EQ(got.positions, positions);
    }
}

TEST(Embedding, TiersAndThreadCountsGiveTheSameBits) {
  const Case& c = cases[3];
  const Lookup in(c);
  expect_same_bits_everywhere([&] {
    Gradients g = backward(c, in, Write::overwrite);
    return append(g.table, g.positions);
  });
}

}  // namespace
}  // namespace mxtape::test
