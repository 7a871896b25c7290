#include <gtest/gtest.h>

#include <functional>
#include <string>
#include <vector>

#include "core/error.h"
#include "tests/support/device.h"
#include "tests/support/tensors.h"

namespace mxtape::test {
namespace {

using Results = std::vector<Tensor>;

/// Work with scratch, draws that follow both clocks, a state that is carried on, and a result.
struct Work {
  Backend& backend;
  Tensor state = backend.empty({1000}), input = backend.empty({1000});

  explicit Work(Backend& b) : backend(b) { backend.fill(state, 0); }

  Results operator()() const {
    const Tensor noise = backend.empty({1000}), product = backend.empty({10, 10});
    backend.run(call::Normal{
        noise, 1, {.seed = 3, .purpose = Purpose::dropout, .step = pass + 1, .clock = Clock::pass}});
    backend.run(
        call::Gemm{product, unrounded(noise.reshaped({10, 100})), unrounded(input.reshaped({10, 100}))});
    backend.run(call::Normal{noise, 1, {.seed = 3, .step = update, .clock = Clock::update}});
    backend.run(call::Gemm{state.reshaped({10, 100}),
                           unrounded(product),
                           unrounded(noise.reshaped({10, 100}), Axis::column),
                           {},
                           Write::accumulate});
    Tensor result = backend.empty({1000});
    backend.copy(result, state);
    return {result};
  }

  /// What `how` makes of five runs.
  std::vector<std::vector<float>> run(const std::function<Results(Work&)>& how) {
    std::vector<std::vector<float>> all;
    for (std::uint32_t i = 0; i < 5; ++i) {
      pass = 7 * i, update = i + 1;
      backend.set_clocks(pass, update);
      backend.fill(input, 0.25f * float(i + 1));
      all.push_back(download(backend, how(*this)[0]));
    }
    return all;
  }
  std::uint32_t pass = 0, update = 0;
};

TEST(Repeat, RecordedWorkSeesNewInputsAndClocksAndGivesTheBitsOfWorkThatIsCalled) {
  const auto called = Work(device()).run([](Work& work) { return work(); });
  for (const bool graph : {false, true}) {
    const auto backend = make_device({.graph = graph});
    const auto repeated =
        Work(*backend).run([&](Work& work) { return backend->repeat("work", [&] { return work(); }); });
    EXPECT_EQ(repeated, called) << "graph " << graph;
    EXPECT_NE(repeated[3], repeated[4]) << "else the test would test nothing";
  }
}

TEST(Repeat, FromTheFourthTimeOnADeviceThatRecordsDoesWithoutTheWork) {
  const auto backend = make_device();
  Work work(*backend);
  int calls = 0;
  for (int i = 0; i < 6; ++i)
    backend->repeat("work", [&] {
      ++calls;
      return work();
    });
  EXPECT_EQ(calls, device_records() ? 3 : 6);
  backend->forget("work");
  backend->repeat("work", [&] {
    ++calls;
    return work();
  });
  EXPECT_EQ(calls, device_records() ? 4 : 7) << "forgotten";
}

TEST(Repeat, OtherWorkAndTrimAndNewTensorsInBetweenDisturbNoRecording) {
  const auto expected = Work(device()).run([](Work& work) { return work(); });
  const auto backend = make_device();
  std::vector<Tensor> kept;
  const auto got = Work(*backend).run([&](Work& work) {
    const auto results = backend->repeat("work", [&] { return work(); });
    std::vector<float> values(1000, -1);
    backend->trim();
    for (const std::int64_t count : {1000, 100, 5000}) {  // where the work's memory was, were it free
      kept.push_back(backend->empty({count}));
      backend->fill(kept.back(), 1e9f);
    }
    backend->repeat("other", [&] {
      const Tensor scratch = backend->empty({100'000});
      backend->fill(scratch, 1e9f);
      return Results{};
    });
    return results;
  });
  EXPECT_EQ(got, expected);
  for (const Tensor& tensor : kept)
    for (const float v : download(*backend, tensor)) ASSERT_EQ(v, 1e9f) << "written to by a recording";
}

TEST(Repeat, ForgottenWorkGivesItsMemoryBack) {
  const auto backend = make_device();
  Work work(*backend);
  const std::int64_t before = backend->used_bytes();
  for (int i = 0; i < 4; ++i) backend->repeat("work", [&] { return work(); });
  backend->forget("work");
  EXPECT_EQ(backend->used_bytes(), before);
}

/// The message of the error that the third run of `work` ends in.
std::string error_when_recorded(Backend& backend, const std::function<void()>& work) {
  const auto run = [&] {
    backend.repeat("work", [&] {
      work();
      return Results{};
    });
  };
  run();
  run();
  try {
    run();
  } catch (const Error& e) {
    return e.what();
  }
  return "no error";
}

TEST(Repeat, WhatCannotBeRecordedIsAnErrorThatNamesTheCall) {
  if (!device_records()) GTEST_SKIP() << "this device records nothing";
  const auto backend = make_device();
  const Tensor x = backend->empty({4});
  backend->fill(x, 0);
  const std::vector<float> values(4, 1.0f);
  for (const auto& [call, work] : std::vector<std::pair<std::string, std::function<void()>>>{
           {"upload", [&] { backend->upload(x, values.data()); }},
           {"download", [&] { download(*backend, x); }},
           {"download", [&] { backend->first_nonfinite(x); }},
           {"upload", [&] { backend->set_clocks(1, 1); }},
           {"wait", [&] { backend->trim(); }}}) {
    const std::string message = error_when_recorded(*backend, work);
    EXPECT_TRUE(message.starts_with("cuda: " + call + " inside of 'work', which is being recorded"))
        << message;
    backend->forget("work");
    backend->fill(x, 2);
    EXPECT_EQ(download(*backend, x)[0], 2) << "the stream runs again";
  }
}

TEST(Repeat, WorkThatChangesIsPlannedAnewAndIsAnErrorOnlyOnceItIsBeingRecorded) {
  if (!device_records()) GTEST_SKIP() << "this device plans nothing";
  const auto backend = make_device();
  std::int64_t count = 100;
  const auto run = [&] {
    return backend->repeat("work", [&] {
      const Tensor x = backend->empty({count});
      backend->fill(x, float(count));
      Tensor result = backend->empty({count});
      backend->copy(result, x);
      return Results{result};
    });
  };
  for (const std::int64_t n : {100, 200, 100, 100}) {  // the last one follows its plan, the next is recorded
    count = n;
    EXPECT_EQ(download(*backend, run()[0]), std::vector<float>(std::size_t(n), float(n)));
  }
  count = 300;
  EXPECT_THROW(run(), Error);
  count = 100;
  EXPECT_EQ(download(*backend, run()[0])[99], 100);
}

TEST(Repeat, AnErrorInTheWorkIsTheOneThatIsReportedAndLeavesTheDeviceUsable) {
  const auto backend = make_device();
  Work work(*backend);
  for (int i = 0; i < 4; ++i) {
    if (i > 0) backend->repeat("work", [&] { return work(); });
    try {
      backend->repeat("bad " + std::to_string(i),
                      [&]() -> Results { fail(ExitCode::diverged, "on purpose"); });
      FAIL();
    } catch (const Error& e) {
      EXPECT_STREQ(e.what(), "on purpose");
    }
  }
}

}  // namespace
}  // namespace mxtape::test
