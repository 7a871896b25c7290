#include "train/saved/packed_model.h"

#include <set>
#include <utility>

#include "autograd/fixed_weight.h"
#include "core/files/in_file.h"
#include "formats/codec/block_codec.h"
#include "kernels/mx_transfer.h"
#include "kernels/observers/dry_backend.h"

namespace mxtape {
namespace {

constexpr std::int64_t layout_version = 1;

std::string group_of(const std::string& layer) { return "packed/" + layer; }
std::string place_of(const Parameter& parameter) { return "tensors/" + parameter.name; }

bool is_packed(const LinearWeight& weight) { return !weight.quant.fprop_w.is_identity(); }

/// Parameters of which nothing but the codes is needed.
std::set<const Parameter*> only_packed(Model& model) {
  std::set<const Parameter*> found;
  for (const LinearWeight& weight : model.linear_weights())
    if (is_packed(weight) && !weight.tied) found.insert(&weight.parameter);
  return found;
}

void write_codes(Hdf5Writer& file, const LinearWeight& weight, const MxTensor& t) {
  const std::string group = group_of(weight.layer);
  file.dataset(group + "/codes", {std::int64_t(t.codes.size())}, DType::u8, t.codes.data());
  if (!t.scales.empty())
    file.dataset(group + "/scales", {std::int64_t(t.scales.size())}, DType::u8, t.scales.data());
  if (!t.offsets.empty()) file.dataset_u16(group + "/offsets", t.offsets);
  if (t.quantizer.has_multiplier()) file.dataset(group + "/multiplier", {1}, DType::f32, &t.multiplier);
  file.attribute(group, "weight", weight.parameter.name);
  file.attribute(group, "format", to_text(t.quantizer));
  file.attribute(group, "rows", t.rows);
  file.attribute(group, "cols", t.cols);
  if (weight.quant.fprop_rotation.size)
    file.attribute(group, "rotation", to_text(weight.quant.fprop_rotation));
}

}  // namespace

void write_packed_model(const std::filesystem::path& path, const PackedHeader& header, Backend& backend,
                        Model& model, const PassKey& pass,
                        const std::function<void(std::size_t, std::size_t)>& progress) {
  std::vector<LinearWeight> weights;
  for (LinearWeight& weight : model.linear_weights())
    if (is_packed(weight)) weights.push_back(std::move(weight));
  require(!weights.empty(), ExitCode::usage,
          "{}: nothing to pack: in precision '{}' every layer multiplies by f32 weights; name a format with "
          "--precision, such as mxfp4",
          path.string(), header.precision);
  Hdf5Writer file(path);
  write_header(file, packed_content, layout_version, header.model);
  file.attribute("/", "precision", header.precision);
  file.attribute("/", "source_hash", header.source_hash);
  for (std::size_t i = 0; i < weights.size(); ++i) {
    const LinearWeight& weight = weights[i];
    at_place(fmt::format("layer '{}' cannot be packed", weight.layer), [&] {
      write_codes(file, weight,
                  pack_weight(backend, weight.parameter,
                              use_of(weight.parameter, weight.quant, weight.tensor_id, pass,
                                     backend.gemm_kernels())));
    });
    if (progress) progress(i + 1, weights.size());
  }
  const auto without = only_packed(model);
  for (const Parameter* parameter : model.parameters())
    if (!without.contains(parameter))
      file.dataset(place_of(*parameter), parameter->value.shape(), DType::f32,
                   downloaded(backend, parameter->value).data());
  file.commit(Seal::yes);
}

PackedModelFile::PackedModelFile(std::shared_ptr<const Hdf5Reader> file) : file_(std::move(file)) {
  require(content_of(*file_) == packed_content, ExitCode::data,
          "{}: not a packed model; want a file that mxtape export made", file_->path().string());
  header_ = {read_header(*file_, layout_version), file_->text_attribute("/", "precision"),
             file_->text_attribute("/", "source_hash")};
}

MxTensor PackedModelFile::codes_of(const std::string& layer) const {
  const std::string group = group_of(layer);
  MxTensor t;
  t.quantizer = parse_quantizer(file_->text_attribute(group, "format"));
  t.rows = file_->int_attribute(group, "rows");
  t.cols = file_->int_attribute(group, "cols");
  t.codes = file_->read_u8(group + "/codes");
  const PackedLayout wanted = packed_layout(t.quantizer, t.rows, t.cols, t.axis);
  if (wanted.scales) t.scales = file_->read_u8(group + "/scales");
  if (wanted.offsets) t.offsets = file_->read_u16(group + "/offsets");
  if (t.quantizer.has_multiplier()) t.multiplier = file_->read_f32(group + "/multiplier").at(0);
  return t;
}

std::unique_ptr<Model> PackedModelFile::load(Backend& backend) const {
  const std::string path = file_->path().string();
  const CheckpointHeader& header = header_.model;
  const PassKey pass{.seed = header.recipe.seed,
                     .step = std::uint32_t(header.step * header.recipe.train.passes())};
  DryBackend nowhere;  // names and shapes: parameters get their tensors below
  auto model = make_model(nowhere, header.recipe.model, precision_plan(header.recipe, header.step),
                          header.recipe.seed);
  const auto version = std::uint64_t(header.step) + 1;  // as CheckpointFile::read_parameters()
  const auto without = only_packed(*model);
  std::size_t count = 0;
  // The largest tensors first: while they are read they are in memory twice.
  for (Parameter* parameter : model->parameters()) {
    parameter->version = version;
    if (without.contains(parameter)) continue;
    const std::string place = place_of(*parameter);
    const Shape found = shape_of(file_->info(place).dims), wanted = parameter->value.shape();
    require(found == wanted, ExitCode::data, "{}: '{}' is {}, the model wants {}", path, place, found.text(),
            wanted.text());
    parameter->value = backend.empty(wanted);
    backend.upload(parameter->value, file_->read_f32(place).data());
    ++count;
  }
  model->place_constants(backend);
  for (const LinearWeight& weight : model->linear_weights()) {
    if (!is_packed(weight)) continue;
    const MxTensor t = codes_of(weight.layer);
    const Shape wanted = weight.parameter.value.shape();
    require(Shape{t.rows, t.cols} == wanted, ExitCode::data, "{}: layer '{}' is [{}, {}], the model wants {}",
            path, weight.layer, t.rows, t.cols, wanted.text());
    at_place(fmt::format("{}: layer '{}'", path, weight.layer), [&] {
      fix_weight(backend, weight.parameter, t,
                 use_of(weight.parameter, weight.quant, weight.tensor_id, pass, backend.gemm_kernels()));
    });
    if (!weight.tied) weight.parameter.value = {};
    count += 1 + (t.scales.empty() ? 0 : 1) + (t.offsets.empty() ? 0 : 1) + t.quantizer.has_multiplier();
  }
  const std::size_t found = file_->datasets().size();
  require(found == count, ExitCode::data, "{}: {} datasets, its recipe's model has {}", path, found, count);
  return model;
}

std::vector<PackedModelFile::Row> PackedModelFile::rows() const {
  const std::string packed = group_of(""), ending = "/codes", plain = "tensors/";
  std::vector<Row> rows, others;
  for (const auto& info : file_->datasets()) {
    if (info.name.starts_with(plain))
      others.push_back({info.name.substr(plain.size()), info.type, "", info.dims, 4 * info.count()});
    if (!info.name.starts_with(packed) || !info.name.ends_with(ending)) continue;
    const std::string group = info.name.substr(0, info.name.size() - ending.size());
    const Quantizer q = parse_quantizer(file_->text_attribute(group, "format"));
    Row row{group.substr(packed.size()),
            to_text(q),
            file_->find_text_attribute(group, "rotation").value_or(""),
            {file_->int_attribute(group, "rows"), file_->int_attribute(group, "cols")},
            0,
            true};
    const PackedLayout layout = packed_layout(q, row.dims[0], row.dims[1], Axis::row);
    row.bytes = layout.codes + layout.scales + layout.offsets + (q.has_multiplier() ? 4 : 0);
    rows.push_back(std::move(row));
  }
  rows.insert(rows.end(), others.begin(), others.end());
  return rows;
}

}  // namespace mxtape
