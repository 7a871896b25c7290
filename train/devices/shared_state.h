#pragma once
#include <filesystem>
#include <vector>

#include "train/checkpoint.h"
#include "train/devices/exchange.h"

namespace mxtape {

/// What a checkpoint holds of a run in memory: weights on every device, and moments of which each device may
/// have its share.
struct SharedState {
  Backend& backend;
  std::vector<Parameter*> parameters;
  AdamW& optimizer;
  Exchange* exchange;  ///< null: one strand, on one device
  Devices* devices;    ///< null: one device
};

/// Rank 0 writes the checkpoint, with the bytes that one device alone would write; the others give it what is
/// theirs, and ignore path and header. Throws as write_checkpoint() does, on rank 0 alone, when all have
/// given what is theirs; and as require_same_replicas() on all, if f32 values had to be gathered and differ.
void save_state(const SharedState&, const std::filesystem::path&, const CheckpointHeader&);

/// Rank 0 reads the weights, and the moments if they are wanted, and hands them to the others, whose `file`
/// is null.
void load_state(const SharedState&, const CheckpointFile* file, bool moments);

/// For rank 0, before it reads f32 weights between steps: with train.gather = copies a device has its own
/// alone. The others do the same when they are told to ("gather").
void gather_weights(const SharedState&);

/// Compares the weights of all devices, or their copies where these travel instead of f32 values, and the
/// norm of the last gradient. Throws Error(internal) on all of them if they are not the same bits, naming the
/// first parameter and the ranks.
void require_same_replicas(const SharedState&, std::int64_t step, float norm);

}  // namespace mxtape
