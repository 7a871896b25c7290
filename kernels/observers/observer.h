#pragma once
#include <string>
#include <utility>

#include "kernels/calls_rows.h"
#include "kernels/observers/forwarding_backend.h"

namespace mxtape {

/// A call, where it is made.
struct Seen {
  AnyCall call;
  std::string_view layer;  ///< "blocks.0.attn.qkv"; empty outside of layers
  bool backward;
  Backend& device;
};

/// Looks at calls and changes no result. Operands say themselves whose they are: Rounded::site.
class Observer {
 public:
  virtual ~Observer() = default;
  virtual void before(const Seen&) {}
  virtual void after(const Seen&) {}
  /// If true, the device neither records a piece of a step nor repeats one. If false, it does as without
  /// observers, and calls are seen when they are made.
  virtual bool wants_every_call() const { return true; }
};

/// A backend with observers in front, which must live as long as this.
class ObservingBackend final : public ForwardingBackend {
 public:
  ObservingBackend(Backend& inner, std::vector<Observer*> all)
      : ForwardingBackend(inner), observers_(std::move(all)) {}
  void add(Observer& one) { observers_.push_back(&one); }
  void enter(std::string_view layer, bool backward) override {
    inner_.enter(layer_ = layer, backward_ = backward);
  }
  void dispatch(AnyCall call) override {
    const Seen seen{call, layer_, backward_, inner_};
    for (Observer* const one : observers_) one->before(seen);
    inner_.dispatch(call);
    for (Observer* const one : observers_) one->after(seen);
  }
  std::vector<Tensor> repeat(const std::string& name,
                             const std::function<std::vector<Tensor>()>& work) override {
    for (const Observer* const one : observers_)
      if (one->wants_every_call()) return work();
    return inner_.repeat(name, work);
  }

 private:
  std::vector<Observer*> observers_;
  std::string layer_;
  bool backward_ = false;
};

/// Whether a call writes the tensor that has this role and name in it.
constexpr bool is_written(Role role, std::string_view name) {
  using enum Role;
  return role == result || role == output || role == sum || role == state || role == rounded ||
         role == found || (role == any && name == "y");
}

}  // namespace mxtape
