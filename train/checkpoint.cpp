#include "train/checkpoint.h"

#include <algorithm>
#include <cmath>
#include <utility>
#include <vector>

#include "train/saved/weight_average.h"

namespace mxtape {

void write_checkpoint(const std::filesystem::path& path, const CheckpointHeader& header, Backend& backend,
                      std::span<Parameter* const> parameters, const MomentSource& moment) {
  require(!std::filesystem::exists(path), ExitCode::resource,
          "{}: exists already; a checkpoint is never overwritten", path.string());
  Hdf5Writer file(path);
  write_header(file, checkpoint_content, checkpoint_layout, header);

  std::vector<float> host;
  const auto write = [&](const std::string& name, const Tensor& tensor) {
    host.resize(std::size_t(tensor.count()));
    backend.download(host.data(), tensor);
    const auto bad = std::find_if(host.begin(), host.end(), [](float x) { return !std::isfinite(x); });
    require(bad == host.end(), ExitCode::diverged,
            "step {}: {} holds {} at [{}] and is not saved; the checkpoints before it stay", header.step,
            name, *bad, bad - host.begin());
    file.dataset(name, tensor.shape(), DType::f32, host.data());
  };
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    write("parameters/" + parameters[i]->name, parameters[i]->value);
    write("optimizer/m/" + parameters[i]->name, moment(i, Moment::m));
    write("optimizer/v/" + parameters[i]->name, moment(i, Moment::v));
    if (const Tensor& average = parameters[i]->average) write(average_of(*parameters[i]), average);
  }
  file.commit(Seal::yes);
}

void write_weights(const std::filesystem::path& path, const CheckpointHeader& header,
                   std::span<const TensorInParts> tensors,
                   const std::function<void(std::int64_t, std::int64_t)>& progress) {
  require(!std::filesystem::exists(path), ExitCode::resource,
          "{}: exists already; a checkpoint is never overwritten", path.string());
  std::int64_t done = 0, all = 0;
  for (const TensorInParts& tensor : tensors) all += tensor.shape.count();
  Hdf5Writer file(path);
  write_header(file, checkpoint_content, checkpoint_layout, header);
  for (const TensorInParts& tensor : tensors)
    file.dataset_in_parts("parameters/" + tensor.name, tensor.shape, [&](const TensorSink& put) {
      tensor.read([&](std::span<const float> part) {
        put(part);
        done += std::int64_t(part.size());
        if (progress) progress(done, all);
      });
    });
  file.commit(Seal::yes);
}

CheckpointFile::CheckpointFile(std::shared_ptr<const Hdf5Reader> file) : file_(std::move(file)) {
  const std::filesystem::path& path = file_->path();
  const std::string name = path.string(), content = content_of(*file_);
  require(content != packed_content, ExitCode::data,
          "{}: a packed model: it holds no f32 weights and no moments, so nothing can train from it or pack "
          "it again; take the checkpoint that it was exported from",
          name);
  require(content == checkpoint_content, ExitCode::data,
          "{}: not an mxtape checkpoint; want a run's folder, or a file of its checkpoints/", name);
  header_ = read_header(*file_, checkpoint_layout);
  // Resume and retention take the newest by its name: under another step's, steps would come twice or be
  // lost.
  const std::string own = fmt::format("step_{:08}.h5", header_.step), called = path.filename().string();
  const bool says_a_step = called.size() > 8 && called.starts_with("step_") && called.ends_with(".h5") &&
                           called.find_first_not_of("0123456789", 5) == called.size() - 3;
  require(!says_a_step || called == own, ExitCode::data,
          "{}: it holds step {}, its name says another; it was renamed: give it back the name {}", name,
          header_.step, own);
}

std::vector<float> CheckpointFile::read_tensor(const std::string& name, const Shape& wanted) const {
  const Shape found = shape_of(file_->info(name).dims);
  require(found == wanted, ExitCode::data, "{}: '{}' is {}, the model wants {}", file_->path().string(), name,
          found.text(), wanted.text());
  return file_->read_f32(name);
}

void CheckpointFile::read_parameters(Backend& backend, std::span<Parameter* const> parameters) const {
  std::size_t count = 0;
  for (const auto& dataset : file_->datasets()) count += dataset.name.starts_with("parameters/");
  for (auto* parameter : parameters) {
    const Tensor& value = parameter->value;
    backend.upload(value, read_tensor("parameters/" + parameter->name, value.shape()).data());
    // As AdamW counts: the draws for a weight's copies are keyed by its version.
    parameter->written(std::uint64_t(header_.step) + 1);
  }
  require(count == parameters.size(), ExitCode::data, "{}: {} parameters, the model has {}",
          file_->path().string(), count, parameters.size());
  read_averages(*file_, backend, parameters);
}

void CheckpointFile::read_optimizer(std::span<Parameter* const> parameters, const MomentSink& take) const {
  for (std::size_t i = 0; i < parameters.size(); ++i)
    for (const auto& [moment, name] : {std::pair{Moment::m, "m/"}, std::pair{Moment::v, "v/"}})
      take(i, moment, read_tensor("optimizer/" + (name + parameters[i]->name), parameters[i]->value.shape()));
}

}  // namespace mxtape
