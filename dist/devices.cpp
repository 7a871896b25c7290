#include "dist/devices.h"

#include <exception>

namespace mxtape {
namespace {

/// A checkpoint is written by rank 0 alone, after the others have given it what is theirs.
Patience patience_after(std::string_view order) { return order == "step" ? Patience::step : Patience::alone; }

}  // namespace

void Devices::announce(std::string_view word, std::string_view more) {
  const auto reports = group_.all_gather(std::string(word) + "\n" + std::string(more), patience_after(last_));
  last_ = word;
  if (word == "end") leads_ = false;
  if (heard)
    for (std::size_t rank = 1; rank < reports.size(); ++rank) heard(int(rank), reports[rank]);
}

Devices::Order Devices::next() {
  const std::string order =
      group_.all_gather(report ? report() : std::string(), patience_after(last_)).front();
  const std::size_t end = order.find('\n');
  last_ = order.substr(0, end);
  return {last_, order.substr(end + 1)};
}

Devices::Collective::Collective(Devices* devices, std::string_view word, std::string_view more)
    : devices_(devices), exceptions_(std::uncaught_exceptions()) {
  if (!devices_) return;
  if (devices_->rank() == 0) devices_->announce(word, more);
  devices_->inside_ = true;
}

Devices::Collective::~Collective() {
  if (devices_ && std::uncaught_exceptions() == exceptions_) devices_->inside_ = false;
}

}  // namespace mxtape
