#include "dist/sockets/channel.h"

#include <gtest/gtest.h>

#include <cstring>

#include "dist/sockets/door.h"

namespace mxtape {
namespace {

struct Ends {
  Socket a, b;
  Ends() {
    int both[2];
    ::socketpair(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0, both);
    a = Socket(both[0]), b = Socket(both[1]);
  }
};

std::string head(std::uint32_t kind, std::uint32_t bytes) {
  std::string text(8, 0);
  std::memcpy(text.data(), &kind, 4);
  std::memcpy(text.data() + 4, &bytes, 4);
  return text;
}

TEST(Channel, MessagesArriveWholeAndInOrderHoweverTheyAreCut) {
  Ends ends;
  Channel channel(std::move(ends.b));
  const std::string all = head(3, 5) + "hello" + head(3, 0) + head(4, 1) + "7";
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

TEST(Channel, WhatIsNoMessageEndsTheConnection) {
  const std::string cases[] = {head(0, 0),          head(6, 0),          head(0xffffffff, 8),
                               head(3, 0x04000001), head(3, 0xffffffff), "GET / HTTP/1.1\r\n"};
  for (const std::string& bytes : cases) {
    Ends ends;
    Channel channel(std::move(ends.b));
    ends.a.write(bytes.data(), std::int64_t(bytes.size()));
    channel.serve();
    EXPECT_FALSE(channel.is_open());
    EXPECT_TRUE(channel.messages.empty());
  }
}

TEST(Channel, WhoSendsMoreThanIsTakenIsClosed) {
  Ends ends;
  Channel channel(std::move(ends.b));
  for (int i = 0; i < 9; ++i) {
    ends.a.write(head(3, 0).data(), 8);
    channel.serve();
    EXPECT_EQ(channel.is_open(), i < 8) << i;
  }
}

TEST(Channel, WhatCameBeforeTheEndCanBeRead) {
  Ends ends;
  Channel channel(std::move(ends.b));
  ends.a.write((head(3, 2) + "ok").data(), 10);
  ends.a.close();
  channel.serve();
  EXPECT_FALSE(channel.is_open());
  ASSERT_EQ(channel.messages.size(), 1u);
  EXPECT_EQ(channel.messages[0].text, "ok");
}

TEST(Hello, HostsAreCutAndPrintable) {
  EXPECT_EQ(Hello(1, 2, 3, 4, "node1").host_name(), "node1");
  EXPECT_EQ(Hello(1, 2, 3, 4, std::string(300, 'x')).host_name().size(), 67u);
  EXPECT_EQ(Hello(1, 2, 3, 4, "a b\n\x1b[2J").host_name(), "a?b??[2J");
  EXPECT_EQ(Hello(1, 2, 3, 4, "").host_name(), "?");
}

}  // namespace
}  // namespace mxtape
