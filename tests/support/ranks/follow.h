#pragma once
#include <memory>

#include "dist/devices.h"
#include "train/trainer.h"

namespace mxtape::test {

/// What rank 0 announces, done on another rank, as program/devices/follow.cpp does it.
inline void follow(Devices& devices, const TokenFile& data, Backend& backend) {
  std::unique_ptr<Trainer> trainer;
  for (;;) {
    const Devices::Order order = devices.next();
    if (order.word == "end") return;
    try {
      if (order.word == "start")
        trainer = std::make_unique<Trainer>(backend, recipe_from_toml(order.more, "order"), data, &devices);
      if (order.word == "load") trainer->load_as_first_does(std::stoll(order.more));
      if (order.word == "step") trainer->step();
      if (order.word == "skip") trainer->skip_step();
      if (order.word == "validate") trainer->validate();
      if (order.word == "save") trainer->save({});
      if (order.word == "gather") gather_weights(trainer->state());
    } catch (const Error&) {
      if (devices.broken()) throw;
    }
  }
}

}  // namespace mxtape::test
