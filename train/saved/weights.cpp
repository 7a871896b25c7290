#include "train/saved/weights.h"

#include "train/checkpoint.h"

namespace mxtape {

void write_weights(const std::filesystem::path& path, const CheckpointHeader& header,
                   std::span<const SavedTensor> tensors,
                   const std::function<void(std::int64_t, std::int64_t)>& progress) {
  require(!std::filesystem::exists(path), ExitCode::resource,
          "{}: exists already; a checkpoint is never overwritten", path.string());
  std::int64_t done = 0, all = 0;
  for (const SavedTensor& tensor : tensors) all += tensor.shape.count();
  Hdf5Writer file(path);
  write_header(file, checkpoint_content, checkpoint_layout, header);
  for (const SavedTensor& tensor : tensors)
    file.dataset_in_parts("parameters/" + tensor.name, tensor.shape, [&](const Hdf5Writer::Put& put) {
      tensor.read([&](std::span<const float> part) {
        put(part);
        done += std::int64_t(part.size());
        if (progress) progress(done, all);
      });
    });
  file.commit(Seal::yes);
}

}  // namespace mxtape
