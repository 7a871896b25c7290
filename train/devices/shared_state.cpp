#include "train/devices/shared_state.h"

#include <xxhash.h>

#include <algorithm>
#include <bit>
#include <exception>

#include "dist/together.h"
#include "train/devices/losses.h"
#include "train/saved/weight_average.h"

namespace mxtape {
namespace {

bool leads(const SharedState& state) { return !state.devices || state.devices->rank() == 0; }

const Tensor& own_moment(const SharedState& state, std::size_t i, Moment moment) {
  return moment == Moment::m ? state.optimizer.m(i) : state.optimizer.v(i);
}

std::uint64_t fingerprint(Backend& backend, const std::vector<Tensor>& tensors) {
  constexpr std::int64_t piece = std::int64_t{1} << 20;
  std::vector<char> host;
  std::uint64_t hash = 0;
  for (const Tensor& x : tensors)
    for (std::int64_t begin = 0; x && begin < x.count(); begin += piece) {
      const std::int64_t count = std::min(piece, x.count() - begin);
      host.resize(std::size_t(count * size_of(x.dtype())));
      backend.download(host.data(), x.part(begin, {count}));
      hash = XXH3_64bits_withSeed(host.data(), host.size(), hash);
    }
  return hash;
}

}  // namespace

void save_state(const SharedState& state, const std::filesystem::path& path, const CheckpointHeader& header) {
  if (state.exchange && !state.exchange->has_all_values()) {
    state.exchange->gather_values();
    require_same_replicas(state, header.step, 0);  // what has come is what is saved
  }
  std::size_t asked = 0;  // moments so far
  const MomentSource moment = [&](std::size_t i, Moment which) {
    ++asked;
    const Tensor& own = own_moment(state, i, which);
    return state.exchange ? state.exchange->gather(i, own) : own;
  };
  const auto give_the_rest = [&] {
    while (asked < 2 * state.parameters.size()) moment(asked / 2, asked % 2 ? Moment::v : Moment::m);
  };
  if (!leads(state)) return give_the_rest();
  try {
    write_checkpoint(path, header, state.backend, state.parameters, moment);
  } catch (const Error& e) {
    if (!state.devices || e.code() == ExitCode::peer) throw;  // a rank that is gone gives nothing more
    const std::exception_ptr error = std::current_exception();
    give_the_rest();
    state.devices->agree();
    std::rethrow_exception(error);
  }
}

void load_state(const SharedState& state, const CheckpointFile* file, bool moments) {
  if (file) file->read_parameters(state.backend, state.parameters);
  const std::vector<Tensor> averages =
      averages_to_go_on(state.backend, state.parameters, state.optimizer.keeps_averages(), file && moments);
  if (state.devices) {
    state.devices->group().all_gather("", Patience::alone);  // rank 0 has read a file
    state.exchange->share_values(averages);
  }
  if (!moments) return;
  const auto take = [&](std::size_t i, Moment which, const std::vector<float>& values) {
    const Tensor& own = own_moment(state, i, which);
    if (!state.devices) return state.backend.upload(own, values.data());
    Tensor whole;
    if (file) {
      whole = state.backend.empty(state.parameters[i]->value.shape());
      state.backend.upload(whole, values.data());
    }
    state.exchange->scatter(i, whole, own);
  };
  if (file) return file->read_optimizer(state.parameters, take);
  for (std::size_t i = 0; i < state.parameters.size(); ++i)
    for (const Moment which : {Moment::m, Moment::v}) take(i, which, {});
}

void gather_weights(const SharedState& state) {
  if (!state.exchange || state.exchange->has_all_values()) return;
  const Devices::Collective all(state.devices, "gather");
  state.exchange->gather_values();
}

void require_same_replicas(const SharedState& state, std::int64_t step, float norm) {
  std::vector<std::uint64_t> mine{std::uint64_t(step), std::bit_cast<std::uint32_t>(norm)};
  for (std::size_t i = 0; i < state.parameters.size(); ++i)
    mine.push_back(fingerprint(state.backend, state.exchange ? state.exchange->replicated(i)
                                                             : std::vector{state.parameters[i]->value}));
  const auto all = gather_numbers(mine, *state.devices);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    std::string ranks;
    for (std::size_t rank = 1; rank < all.size(); ++rank)
      if (all[rank].at(i) != all[0][i]) ranks += fmt::format("{}{}", ranks.empty() ? "" : ", ", rank);
    if (ranks.empty()) continue;
    state.devices->agree();
    const std::string what = i == 0   ? "the number of steps"
                             : i == 1 ? "the gradient's norm"
                                      : fmt::format("'{}'", state.parameters[i - 2]->name);
    fail(ExitCode::internal,
         "step {}: the processes have come apart: {} on rank {} is not what rank 0 has; nothing of it is "
         "saved; something has altered memory or messages: look at those machines, then run again with "
         "--resume auto",
         step, what, ranks);
  }
}

}  // namespace mxtape
