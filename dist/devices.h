#pragma once
#include <functional>
#include <memory>
#include <string>
#include <string_view>

#include "dist/communicator.h"
#include "dist/together.h"

namespace mxtape {

/// The devices of a run as one of them sees them. Rank 0 leads: it decides, alone, what comes next, and says
/// so to the others, which follow. So no decision has to be made twice, and nothing that only one of them can
/// see (a clock, a signal, a full disk) lets them go different ways.
class Devices {
 public:
  /// Both must live as long as this.
  Devices(Group& group, Communicator& communicator) : group_(group), communicator_(&communicator) {}
  Devices(const Devices&) = delete;

  int rank() const { return group_.place().rank; }
  int size() const { return group_.place().size; }
  Group& group() { return group_; }
  Communicator& communicator() { return *communicator_; }
  /// Tensors go another way from now on: those of GPUs.
  void use(std::unique_ptr<Communicator> communicator) {
    own_ = std::move(communicator);
    communicator_ = own_.get();
  }

  /// What comes next: a word, and what belongs to it.
  struct Order {
    std::string word, more;
  };
  /// Rank 0: says what comes, and hears from the others what they have to report.
  void announce(std::string_view word, std::string_view more = {});
  /// The others: what comes. Blocks.
  Order next();
  /// What a rank reports with each order, and what rank 0 does with it.
  std::function<std::string()> report{};
  std::function<void(int rank, const std::string&)> heard{};

  /// While one lives, all ranks do something together. Rank 0's announces it. `devices` may be null: a run on
  /// one device.
  class Collective {
   public:
    Collective(Devices* devices, std::string_view word, std::string_view more = {});
    ~Collective();
    Collective(const Collective&) = delete;
    Collective& operator=(const Collective&) = delete;

   private:
    Devices* devices_;
    int exceptions_;
  };
  /// From now on the others do what rank 0 announces.
  void lead() { leads_ = true; }
  bool leads() const { return leads_; }
  /// An exception has left a Collective, and not on all ranks: the others wait for what will not come.
  bool broken() const { return inside_; }
  /// The error that is thrown next is thrown on all ranks alike, after their last message.
  void agree() { inside_ = false; }

 private:
  Group& group_;
  std::unique_ptr<Communicator> own_;
  Communicator* communicator_;
  bool inside_ = false, leads_ = false;
  std::string last_;  // order
};

}  // namespace mxtape
