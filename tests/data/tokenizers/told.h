#pragma once
#include <gtest/gtest.h>

#include <exception>
#include <functional>
#include <string>

#include "core/error.h"

namespace mxtape::test {

/// What of Error(data) the action throws.
inline std::string told(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code() == ExitCode::data ? error.what() : "another code";
  } catch (const std::exception& error) {
    return std::string("no Error: ") + error.what();
  }
  return "nothing was thrown";
}
inline ::testing::AssertionResult says(const std::string& text, const std::string& part) {
  return (text.find(part) == text.npos ? ::testing::AssertionFailure() : ::testing::AssertionSuccess())
         << text;
}

}  // namespace mxtape::test
