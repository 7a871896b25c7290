#include "data/npy.h"

#include <gtest/gtest.h>

#include <cmath>
#include <cstring>
#include <string>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

/// A version-1 file by hand, as NumPy writes it.
std::string npy(const std::string& descr, const std::string& shape, const std::string& data,
                const std::string& order = "False") {
  std::string header = "{'descr': '" + descr + "', 'fortran_order': " + order + ", 'shape': " + shape + ", }";
  header.append((64 - (11 + header.size()) % 64) % 64, ' ');
  header += '\n';
  std::string file("\x93NUMPY\x01\x00", 8);
  file += char(header.size() & 0xff);
  file += char(header.size() >> 8);
  return file + header + data;
}

template <class T>
std::string bytes_of(const std::vector<T>& values) {
  std::string bytes(values.size() * sizeof(T), '\0');
  std::memcpy(bytes.data(), values.data(), bytes.size());
  return bytes;
}

TEST(Npy, EveryTypeIsReadAsF32) {
  const TemporaryFolder folder;
  const auto path = folder / "x.npy";
  const auto values = [&](const std::string& descr, const std::string& data) {
    write_atomically(path, npy(descr, "(2, 1)", data));
    const NpyArray array = read_npy(path);
    EXPECT_EQ(array.dims, (std::vector<std::int64_t>{2, 1}));
    return array.values;
  };
  const std::vector<float> want{1, -2};
  EXPECT_EQ(values("<f4", bytes_of<float>({1, -2})), want);
  EXPECT_EQ(values("<f8", bytes_of<double>({1, -2})), want);
  EXPECT_EQ(values("<f2", bytes_of<std::uint16_t>({0x3c00, 0xc000})), want);
  EXPECT_EQ(values("|i1", bytes_of<std::int8_t>({1, -2})), want);
  EXPECT_EQ(values("<i2", bytes_of<std::int16_t>({1, -2})), want);
  EXPECT_EQ(values("<i4", bytes_of<std::int32_t>({1, -2})), want);
  EXPECT_EQ(values("<i8", bytes_of<std::int64_t>({1, -2})), want);
  EXPECT_EQ(values("|u1", bytes_of<std::uint8_t>({1, 255})), (std::vector<float>{1, 255}));
  EXPECT_EQ(values("<u2", bytes_of<std::uint16_t>({1, 65535})), (std::vector<float>{1, 65535}));
  EXPECT_EQ(values("<u4", bytes_of<std::uint32_t>({1, 1u << 31})), (std::vector<float>{1, 0x1p31f}));
  EXPECT_EQ(values("<u8", bytes_of<std::uint64_t>({1, std::uint64_t{1} << 63})),
            (std::vector<float>{1, 0x1p63f}));
  EXPECT_EQ(values("<f2", bytes_of<std::uint16_t>({0x0001, 0x7bff})), (std::vector<float>{0x1p-24f, 65504}));
}

TEST(Npy, WhatIsWrittenComesBack) {
  const TemporaryFolder folder;
  const std::vector<float> values{0.1f, -0.0f, 3e38f, 1e-45f, 5, 6};
  for (const std::vector<std::int64_t>& dims : {std::vector<std::int64_t>{2, 3}, {6}, {1, 2, 3}}) {
    write_npy(folder / "x.npy", dims, values);
    const NpyArray array = read_npy(folder / "x.npy");
    EXPECT_EQ(array.dims, dims);
    EXPECT_EQ(array.values, values);
  }
}

TEST(Npy, BrokenFilesSayWhatIsWrong) {
  const TemporaryFolder folder;
  const auto error = [&](const std::string& content) -> std::string {
    write_atomically(folder / "x.npy", content);
    try {
      (void)read_npy(folder / "x.npy");
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::data);
      return e.what();
    }
    return "no error";
  };
  const std::string good = npy("<f4", "(2,)", bytes_of<float>({1, 2}));
  EXPECT_EQ(error(good), "no error");
  EXPECT_NE(error(good.substr(0, good.size() - 1)).find("2 elements of 4 bytes has 7 bytes"),
            std::string::npos);
  EXPECT_NE(error("text").find("\\x93NUMPY"), std::string::npos);
  EXPECT_NE(error(good.substr(0, 40)).find("header"), std::string::npos);
  EXPECT_NE(error(npy("<c8", "(1,)", "12345678")).find("type"), std::string::npos);
  EXPECT_NE(error(npy(">f4", "(1,)", "1234")).find("little-endian"), std::string::npos);
  EXPECT_NE(error(npy("<f4", "(1,)", "1234", "True")).find("Fortran"), std::string::npos);
  EXPECT_NE(error(npy("<f4", "(4611686018427387904, 4)", "1234")), "no error");
  EXPECT_EQ(error(npy("<f8", "(2,)", bytes_of<double>({1, -1e39}))),
            (folder / "x.npy").string() + ": holds -1e+39 at element 1; want numbers in f32's range");
  EXPECT_EQ(error(npy("<f8", "(2,)", bytes_of<double>({3.4e38, -INFINITY}))), "no error")
      << "what is infinite there is here";
}

}  // namespace
}  // namespace mxtape
