#include "program/devices/follow.h"

#include <cstdlib>
#include <memory>
#include <optional>

#include "dist/together.h"
#include "kernels/choose/make_backend.h"
#include "kernels/observers/finite.h"
#include "program/stop_signals.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

class Follower {
 public:
  Follower(Devices& devices, const TokenFile& data) : devices_(devices), data_(data) {}

  /// False at the run's end.
  bool obey(const Devices::Order& order) {
    if (order.word == "start") {
      start(recipe_from_toml(order.more, "the recipe of rank 0"));
    } else if (order.word == "load") {
      trainer_->load_as_first_does(std::stoll(order.more));
    } else if (order.word == "step") {
      trainer_->step();
    } else if (order.word == "skip") {
      trainer_->skip_step();
    } else if (order.word == "validate") {
      trainer_->validate();
    } else if (order.word == "save") {
      trainer_->save({});
    } else if (order.word == "gather") {
      gather_weights(trainer_->state());
    } else if (order.word == "wait") {  // rank 0 has work of its own
    } else if (order.word == "end") {
      const auto code = ExitCode(std::stoi(order.more));
      if (code != ExitCode::ok) throw Told(code);
      return false;
    } else {
      fail(ExitCode::internal, "rank 0 announces '{}'", order.word);
    }
    return true;
  }

 private:
  void start(const Recipe& recipe) {
    trainer_.reset();  // two would not fit
    if (!device_) {
      device_ = make_backend(recipe.compute.device, recipe.compute.options());
      devices_.communicator().attach(*device_);
      if (Finite::is_asked_for()) checked_.emplace(*device_, std::vector<Observer*>{&finite_});
    }
    Backend& backend = checked_ ? static_cast<Backend&>(*checked_) : *device_;
    trainer_ = std::make_unique<Trainer>(backend, recipe, data_, &devices_);
  }

  Devices& devices_;
  const TokenFile& data_;
  std::unique_ptr<Backend> device_;
  Finite finite_;
  std::optional<ObservingBackend> checked_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

void follow(Devices& devices, const TokenFile& data) {
  StopSignals::share(StopSignals::Voice::silent);
  const StopSignals signals;
  devices.report = [] {
    return fmt::format("{} {}", StopSignals::received(), StopSignals::take_save_request() ? 1 : 0);
  };
  Follower follower(devices, data);
  for (;;) {
    const Devices::Order order = devices.next();
    try {
      if (!follower.obey(order)) return;
    } catch (const Told&) {
      throw;
    } catch (const Error&) {
      // Rank 0 has the same error, and says what comes of it; but it announces a start after its own went
      // well.
      if (devices.broken() || order.word == "start") throw;
    }
  }
}

void hear_signals(Devices& devices) {
  StopSignals::share(StopSignals::Voice::speaks);
  devices.heard = [](int, const std::string& report) {
    const std::size_t blank = report.find(' ');
    if (blank == std::string::npos) return;
    if (const int signal = std::stoi(report)) StopSignals::hear(signal);
    if (report.substr(blank + 1) == "1") StopSignals::hear_save_request();
  };
}

}  // namespace mxtape
