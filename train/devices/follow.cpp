#include "train/devices/follow.h"

#include <memory>
#include <optional>

#include "dist/together.h"
#include "kernels/choose/make_backend.h"
#include "kernels/observers/finite.h"
#include "train/trainer.h"

namespace mxtape {
namespace {

class Follower {
 public:
  Follower(Devices& devices, const TokenFile& data, Backend* device)
      : devices_(devices), data_(data), device_(device) {}

  /// False at the run's end.
  bool carry_out(const Devices::Order& order) {
    if (order.word == "start") {
      start(recipe_from_toml(order.more, "the recipe of rank 0"));
    } else if (order.word == "load") {
      trainer_->load_shared(std::stoll(order.more));
    } else if (order.word == "step") {
      trainer_->step();
    } else if (order.word == "phase") {
      trainer_->begin_phase(order.more);
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
      if (code != ExitCode::ok) throw SaidElsewhere(code);
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
      own_ = make_backend(recipe.compute.device, recipe.compute.options());
      device_ = own_.get();
      devices_.communicator().attach(*device_);
      if (Finite::is_asked_for()) checked_.emplace(*device_, std::vector<Observer*>{&finite_});
    }
    Backend& backend = checked_ ? static_cast<Backend&>(*checked_) : *device_;
    trainer_ = std::make_unique<Trainer>(backend, recipe, data_, &devices_);
  }

  Devices& devices_;
  const TokenFile& data_;
  std::unique_ptr<Backend> own_;
  Backend* device_;
  Finite finite_;
  std::optional<ObservingBackend> checked_;
  std::unique_ptr<Trainer> trainer_;
};

}  // namespace

void follow(Devices& devices, const TokenFile& data, Backend* device) {
  Follower follower(devices, data, device);
  for (;;) {
    const Devices::Order order = devices.next();
    try {
      if (!follower.carry_out(order)) return;
    } catch (const SaidElsewhere&) {
      throw;
    } catch (const Error&) {
      // Rank 0 has the same error, and says what comes of it; but it announces a start after its own went
      // well.
      if (devices.broken() || order.word == "start") throw;
    }
  }
}

}  // namespace mxtape
