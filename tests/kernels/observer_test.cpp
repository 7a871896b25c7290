#include "kernels/observers/observer.h"

#include <gtest/gtest.h>

#include "kernels/observers/finite.h"
#include "kernels/observers/trace.h"
#include "tests/support/device.h"

namespace mxtape {
namespace {

using test::device;

/// Counts what the device is asked to repeat.
class Repeating final : public ForwardingBackend {
 public:
  using ForwardingBackend::ForwardingBackend;
  int repeats = 0;
  std::vector<Tensor> repeat(const std::string&, const std::function<std::vector<Tensor>()>& work) override {
    ++repeats;
    return work();
  }
};

TEST(ObservingBackend, LeavesRepeatedWorkToTheDeviceUnlessAnObserverWantsEveryCall) {
  Repeating inner(device());
  Trace trace;
  Finite finite;
  ObservingBackend backend(inner, {&trace});
  const auto nothing = [] { return std::vector<Tensor>(); };
  backend.repeat("step", nothing);
  EXPECT_EQ(inner.repeats, 1);
  backend.add(finite);
  backend.repeat("step", nothing);
  EXPECT_EQ(inner.repeats, 1);
}

struct Diary final : Observer {
  std::string lines;
  void note(const char* when, const Seen& seen) {
    float value = 0;
    seen.device.download(&value, seen.call.as<call::Fill>()->y);
    lines += fmt::format("{} {} in '{}'{}: {}\n", when, seen.call.name(), seen.layer,
                         seen.backward ? ", backward" : "", value);
  }
  void before(const Seen& seen) override { note("before", seen); }
  void after(const Seen& seen) override { note("after", seen); }
};

struct Foreign {
  static constexpr std::string_view name = "foreign";
  static void each(auto&, const auto&) {}
};
TEST(AnyCall, OfAKernelThatIsNotListedIsRefused) { EXPECT_THROW(device().run(Foreign{}), Error); }

TEST(ObservingBackend, TellsEachCallWithItsLayerBeforeAndAfterIt) {
  Diary diary;
  ObservingBackend backend(device(), {&diary});
  const Tensor y = backend.empty({1});
  device().fill(y, 1);
  backend.fill(y, 2);
  backend.enter("here", true);
  backend.fill(y, 3);
  EXPECT_EQ(diary.lines,
            "before fill in '': 1\nafter fill in '': 2\n"
            "before fill in 'here', backward: 2\nafter fill in 'here', backward: 3\n");
}

}  // namespace
}  // namespace mxtape
