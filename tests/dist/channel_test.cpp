#include "dist/pairs/channel.h"

#include <gtest/gtest.h>

#include <cstring>
#include <tuple>

namespace mxtape {
namespace {

struct Ends {
  Socket a, b;
  Ends() { std::tie(a, b) = socket_pair(); }
};

std::string head(std::uint64_t kind, std::uint64_t bytes) {
  std::string text(16, 0);
  std::memcpy(text.data(), &kind, 8);
  std::memcpy(text.data() + 8, &bytes, 8);
  return text;
}

TEST(Channel, MessagesArriveWholeAndInOrderHoweverTheyAreCut) {
  Ends ends;
  Channel channel(std::move(ends.b));
  const std::string all = head(0, 5) + "hello" + head(0, 0) + head(1, 1) + "7";
  for (const char byte : all) {
    ASSERT_EQ(ends.a.write(&byte, 1), 1);
    channel.serve();
  }
  ASSERT_EQ(channel.messages.size(), 3u);
  EXPECT_EQ(channel.messages[0].text, "hello");
  EXPECT_EQ(channel.messages[1].text, "");
  EXPECT_EQ(channel.messages[2].kind, Channel::Kind::last_words);
  EXPECT_TRUE(channel.is_open());
}

TEST(Channel, ALongMessageTakesTurnsWithItsReader) {
  Ends ends;
  Channel from(std::move(ends.a)), to(std::move(ends.b));
  std::string text(std::size_t{5} << 20, 0);
  for (std::size_t i = 0; i < text.size(); ++i) text[i] = char(i * 7 + i / 255);
  from.send(Channel::Kind::text, text);
  from.send(Channel::Kind::text, "after");
  from.serve();
  EXPECT_TRUE(from.sends());  // more than the system keeps
  for (int i = 0; i < 100'000 && to.messages.size() < 2; ++i) from.serve(), to.serve();
  ASSERT_EQ(to.messages.size(), 2u);
  EXPECT_TRUE(to.messages[0].text == text);
  EXPECT_EQ(to.messages[1].text, "after");
  EXPECT_FALSE(from.sends());
}

TEST(Channel, WhatCameBeforeTheEndCanBeRead) {
  Ends ends;
  Channel channel(std::move(ends.b));
  ends.a.write((head(0, 2) + "ok").data(), 18);
  ends.a.close();
  channel.serve();
  EXPECT_FALSE(channel.is_open());
  ASSERT_EQ(channel.messages.size(), 1u);
  EXPECT_EQ(channel.messages[0].text, "ok");
}

}  // namespace
}  // namespace mxtape
