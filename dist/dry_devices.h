#pragma once
#include <string>
#include <string_view>
#include <vector>

#include "dist/communicator.h"
#include "dist/group.h"

namespace mxtape {

/// One of several devices of a dry run (kernels/observers/dry_backend.h): the others are not there, and say
/// what this one does. Takes a strand's tensors without memory and moves nothing.
class DryDevice final : public Group, public Communicator {
 public:
  DryDevice(int rank, int size) {
    place_.rank = rank, place_.size = size;
    place_.host = place_.launcher = "dry run";
  }
  const Place& place() const override { return place_; }
  std::string description() const override { return "dry run"; }
  std::vector<std::string> all_gather(std::string_view mine, Patience = Patience::step) override {
    return std::vector<std::string>(std::size_t(place_.size), std::string(mine));
  }
  [[noreturn]] void abandon(ExitCode code, std::string_view why) noexcept override {
    fail(code, "{}", why);  // ends the program: nothing here can fail half way
  }
  void start(int, std::span<const Part>, std::span<const Part>) override {}
  void finish(int) override {}

 private:
  Place place_;
};

}  // namespace mxtape
