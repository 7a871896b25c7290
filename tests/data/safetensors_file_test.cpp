#include "data/safetensors/safetensors_file.h"

#include <gtest/gtest.h>

#include <cmath>
#include <fstream>
#include <functional>
#include <limits>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "data/safetensors/safetensors_folder.h"
#include "data/safetensors/safetensors_writer.h"
#include "tests/support/temporary_folder.h"

namespace mxtape {
namespace {

std::string refusal(const std::function<void()>& action, ExitCode code = ExitCode::data) {
  try {
    action();
  } catch (const Error& e) {
    EXPECT_EQ(int(e.code()), int(code)) << e.what();
    return e.what();
  }
  return "";
}

TensorInfo tensor(const std::string& name, TensorType type, std::vector<std::uint64_t> dims) {
  return {.name = name, .type = type, .dims = std::move(dims)};
}

/// One tensor of each type; half and bf16 hold numbers that they hold exactly.
void write_sample(const std::filesystem::path& path) {
  SafetensorsWriter writer(path,
                           {tensor("wide", TensorType::f32, {2, 2}), tensor("half", TensorType::f16, {3}),
                            tensor("none", TensorType::f32, {0}), tensor("brain", TensorType::bf16, {1, 2})});
  writer.write(std::vector<float>{1.5f, -0.f, 0x1p-149f, 3e38f, 0.5f});  // on into the next tensor
  writer.write(std::vector<float>{-65504, 0x1p-24f, 3, -0x1p100f});
  writer.finish();
}

std::vector<float> all_of(const SafetensorsFile& file, const std::string& name) {
  std::vector<float> values(file.at(name).count());
  file.read_f32(file.at(name), 0, values);
  return values;
}

TEST(Safetensors, WhatIsWrittenIsReadBackInAllThreeTypesWholeAndInParts) {
  const TemporaryFolder folder;
  write_sample(folder / "x.safetensors");
  const SafetensorsFile file(folder / "x.safetensors");
  EXPECT_EQ(file.metadata().at("format"), "pt");
  EXPECT_EQ(all_of(file, "wide"), (std::vector<float>{1.5f, -0.f, 0x1p-149f, 3e38f}));
  EXPECT_EQ(all_of(file, "half"), (std::vector<float>{0.5f, -65504, 0x1p-24f}));
  EXPECT_EQ(all_of(file, "brain"), (std::vector<float>{3, -0x1p100f}));
  EXPECT_TRUE(all_of(file, "none").empty());
  std::vector<float> two(2);
  file.read_f32(file.at("half"), 1, two);
  EXPECT_EQ(two, (std::vector<float>{-65504, 0x1p-24f}));
  EXPECT_EQ(file.at("wide").begin % 8, 0u);
  const auto bytes = read_whole(folder / "x.safetensors");
  EXPECT_EQ(std::to_integer<int>(bytes[0]) % 8, 0) << "the header is padded to 8";
}

TEST(Safetensors, ANumberBeyondTheTypeIsRefusedWhenItIsWritten) {
  const TemporaryFolder folder;
  for (const auto& [type, value] : {std::pair(TensorType::f16, 65520.f), {TensorType::bf16, 3.4e38f}}) {
    const auto path = folder / std::string(name_of(type));
    SafetensorsWriter writer(path, {tensor("t", type, {2})});
    const auto message = refusal([&] { writer.write(std::vector<float>{1, value}); });
    EXPECT_NE(message.find("'t' holds"), std::string::npos) << message;
    EXPECT_NE(message.find("element 1"), std::string::npos) << message;
  }
}

TEST(Safetensors, ANumberThatIsNotFiniteIsNamedByTensorAndElement) {
  const TemporaryFolder folder;
  {
    SafetensorsWriter writer(folder / "x",
                             {tensor("a", TensorType::f32, {2}), tensor("b", TensorType::f32, {3, 2})});
    writer.write(std::vector<float>{0, 0, 1, 2, 3, std::numeric_limits<float>::quiet_NaN(), 5, 6});
    writer.finish();
  }
  const SafetensorsFile file(folder / "x");
  EXPECT_EQ(all_of(file, "a").size(), 2u);
  const auto message = refusal([&] { (void)all_of(file, "b"); });
  EXPECT_NE(message.find("'b' holds nan at element 3"), std::string::npos) << message;
}

TEST(Safetensors, OtherTypesAreNotReadAsWeights) {
  const TemporaryFolder folder;
  const std::string json = R"({"a":{"dtype":"F64","shape":[1],"data_offsets":[0,8]}})";
  std::string bytes(8, '\0');
  bytes[0] = char(json.size());
  write_atomically(folder / "x", bytes + json + std::string(8, '\0'));
  const SafetensorsFile file(folder / "x");
  EXPECT_NE(refusal([&] { (void)all_of(file, "a"); }).find("'a' is F64; want F32, F16 or BF16"),
            std::string::npos);
  EXPECT_EQ(file.read_f64(file.at("a")), std::vector<double>{0});
}

TEST(Safetensors, WhatIsOftenFoundUnderTheNameIsCalledWhatItIs) {
  const TemporaryFolder folder;
  const auto found = [&](const std::string& bytes) {
    write_atomically(folder / "x", bytes);
    return refusal([&] { const SafetensorsFile file(folder / "x"); });
  };
  EXPECT_NE(found("").find("is empty"), std::string::npos);
  EXPECT_NE(
      found("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 1\n").find("Git LFS pointer of"),
      std::string::npos);
  EXPECT_NE(found("\n<!DOCTYPE html><html>").find("a page of HTML"), std::string::npos);
  EXPECT_NE(found("PK\x03\x04pickle....").find("torch.save()"), std::string::npos);
  EXPECT_NE(found("abc").find("3 bytes"), std::string::npos);
  EXPECT_NE(found(std::string(8, '\xff') + "{}").find("header of 18446744073709551615 bytes; 2 follow"),
            std::string::npos);
  EXPECT_NE(refusal([&] { const SafetensorsFile file(folder.path()); }).find("folder"), std::string::npos);
  EXPECT_NE(refusal([&] { const SafetensorsFile file(folder / "absent"); }).find("absent"),
            std::string::npos);
}

TEST(Safetensors, EveryByteChangedAndEveryTruncationIsReadOrRefusedAsData) {
  const TemporaryFolder folder;
  write_sample(folder / "good");
  const std::string good = read_whole_text(folder / "good");
  const auto read_all = [&](const std::string& bytes) {
    std::ofstream(folder / "x", std::ios::binary)
        << bytes;  // write_atomically() would wait for the disk each time
    return refusal([&] {
      const SafetensorsFile file(folder / "x");
      std::uint64_t data = 0;
      for (const TensorInfo& one : file.tensors()) data += one.end - one.begin;
      EXPECT_LT(data, good.size());
      for (const TensorInfo& one : file.tensors()) (void)all_of(file, one.name);
    });
  };
  ASSERT_EQ(read_all(good), "");
  for (std::size_t length = 0; length < good.size(); ++length)
    EXPECT_NE(read_all(good.substr(0, length)), "");
  EXPECT_NE(read_all(good + '\0'), "");
  for (std::size_t at = 0; at < good.size(); ++at)
    for (const int flip : {1, 2, 4, 8, 16, 32, 64, 128, 255}) {
      std::string altered = good;
      altered[at] = char(altered[at] ^ flip);
      (void)read_all(altered);
    }
}

TEST(Safetensors, AFileThatIsCutWhileItIsReadIsAnErrorAndNoSignal) {
  const TemporaryFolder folder;
  write_sample(folder / "x");
  const SafetensorsFile file(folder / "x");
  std::filesystem::resize_file(folder / "x", std::filesystem::file_size(folder / "x") - 6);
  EXPECT_EQ(all_of(file, "wide").size(), 4u);
  EXPECT_NE(refusal([&] { (void)all_of(file, "brain"); }).find("when it was opened"), std::string::npos);
}

TEST(SafetensorsFolder, ShardsAndTheirIndexHoldEveryTensorOnce) {
  const TemporaryFolder folder;
  const std::vector<TensorInfo> tensors{tensor("a", TensorType::f32, {4}), tensor("b", TensorType::f16, {2}),
                                        tensor("c", TensorType::bf16, {3})};
  const auto shards = plan_shards(tensors, 20);
  ASSERT_EQ(shards.size(), 2u);
  EXPECT_EQ(shards[0].tensors.size(), 2u);
  EXPECT_EQ(shards[1].name, "model-00002-of-00002.safetensors");
  float next = 0;
  for (const auto& shard : shards) {
    SafetensorsWriter writer(folder / shard.name, shard.tensors);
    for (const auto& one : shard.tensors)
      for (std::uint64_t i = 0; i < one.count(); ++i) writer.write(std::vector<float>{next++});
    writer.finish();
  }
  write_atomically(folder / "model.safetensors.index.json", index_of(shards));
  const SafetensorsFolder read(folder.path());
  EXPECT_EQ(read.source(), "model.safetensors.index.json, 2 shards");
  ASSERT_EQ(read.tensors().size(), 3u);
  std::vector<float> last(3);
  const auto& c = read.tensors().at("c");
  c.file->read_f32(*c.tensor, 0, last);
  EXPECT_EQ(last, (std::vector<float>{6, 7, 8}));

  const auto with_index = [&](const std::string& text) {
    write_atomically(folder / "model.safetensors.index.json", text);
    return refusal([&] { const SafetensorsFolder again(folder.path()); });
  };
  const std::string one = "model-00001-of-00002.safetensors", two = "model-00002-of-00002.safetensors";
  const auto map = [&](const std::string& a, const std::string& b, const std::string& last_one) {
    return R"({"weight_map":{"a":")" + a + R"(","b":")" + b + R"(","c":")" + last_one + R"("}})";
  };
  EXPECT_EQ(with_index(map(one, one, two)), "");
  EXPECT_NE(with_index(map(one, two, two)).find("'b'"), std::string::npos);
  EXPECT_NE(with_index(map(one, one, one)).find("'c' is listed"), std::string::npos);
  EXPECT_NE(with_index(map(one, one, "../" + two)).find("no name of a file beside it"), std::string::npos);
  EXPECT_NE(with_index(map(one, one, "/etc/passwd")).find("no name of a file beside it"), std::string::npos);
  EXPECT_NE(with_index(map(one, one, "absent.safetensors")).find("absent.safetensors"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":1}})").find("weight_map.a = 1; want a text"), std::string::npos);
  EXPECT_NE(with_index("{}").find("weight_map"), std::string::npos);
  EXPECT_NE(with_index(R"({"weight_map":{"a":"x","a":"y"}})").find("twice"), std::string::npos);
}

TEST(SafetensorsFolder, FilesOfTorchAreRefusedWithTheLinesThatConvertThem) {
  const TemporaryFolder folder;
  EXPECT_NE(refusal([&] { const SafetensorsFolder none(folder.path()); }).find("holds no model.safetensors"),
            std::string::npos);
  write_atomically(folder / "pytorch_model.bin", std::string("x"));
  const auto message = refusal([&] { const SafetensorsFolder none(folder.path()); });
  EXPECT_NE(message.find("pytorch_model.bin"), std::string::npos);
  EXPECT_NE(message.find("save_pretrained"), std::string::npos);
}

}  // namespace
}  // namespace mxtape
