#include "program/models/trained_model.h"

#include "core/files/status.h"
#include "core/text/program_name.h"
#include "kernels/choose/make_backend.h"
#include "kernels/mx_transfer.h"
#include "program/models/tensor_numbers.h"
#include "program/records/run_name.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

std::unique_ptr<Backend> backend_for(CheckpointHeader& header, const std::string& device) {
  ComputeConfig& compute = header.recipe.compute;
  if (!device.empty()) compute.device = device;
  if (compute.device != "cpu") compute.gemm = GemmChoice::library;
  // Own attention: it takes every precision.
  return make_backend(compute.device, {.gemm = compute.gemm_kernels()});
}

}  // namespace

TrainedModel load_trained_model(const std::string& run, const std::string& device,
                                std::optional<GemmChoice> gemm) {
  TrainedModel loaded;
  loaded.file = checkpoint_of(run);
  const auto file = open_sealed(loaded.file);
  if (content_of(*file) == packed_content) {
    const PackedModelFile packed(file);
    loaded.header = packed.header().model;
    loaded.packed_as = packed.header().precision;
    loaded.header.recipe.compute.gemm = GemmChoice::library;  // it multiplies unpacked values
    loaded.backend = backend_for(loaded.header, device);
    loaded.model = packed.load(*loaded.backend);
    return loaded;
  }
  const CheckpointFile checkpoint(file);
  loaded.header = checkpoint.header();
  if (gemm) loaded.header.recipe.compute.gemm = *gemm;
  loaded.backend = backend_for(loaded.header, device);
  const Recipe& recipe = loaded.header.recipe;
  loaded.model =
      make_model(*loaded.backend, recipe.model, precision_plan(recipe, loaded.header.step), recipe.seed);
  checkpoint.read_parameters(*loaded.backend, loaded.model->parameters());
  return loaded;
}

void require_data_of(const std::filesystem::path& model, const std::string& file) {
  require(is_there(file), ExitCode::data,
          "{}: no such file here; {} was trained with it{}: name it with --data FILE", file, model.string(),
          std::filesystem::path(file).is_relative() ? ", from the folder where its path holds" : "");
}

MeasuredData read_data_of(const TrainedModel& trained, const std::string& given) {
  const std::string file = given.empty() ? trained.header.recipe.data.file : given;
  require(!file.empty(), ExitCode::usage,
          "{}: was imported, so it has no data of its own: name a token file with --data FILE, or evaluate a "
          "text with `eval --text FILE`",
          trained.file.string());
  if (given.empty()) require_data_of(trained.file, file);
  MeasuredData data{file, TokenFile::read(file)};
  require_same_tokenizer(trained.header, trained.file, data.tokens, file);
  return data;
}

SavedModel open_saved_model(const std::filesystem::path& path) {
  auto file = open_sealed(path);
  if (content_of(*file) != packed_content) return {file, CheckpointFile(file).header(), ""};
  const PackedModelFile packed(file);
  return {file, packed.header().model, packed.header().precision};
}

std::vector<float> unpacked(Backend& backend, const MxTensor& t) {
  std::vector<float> values(std::size_t(t.rows * t.cols));
  unpack(backend, values.data(), t);
  for (float& value : values) value *= t.multiplier;
  return values;
}

std::string model_text(const ModelConfig& m) {
  std::string text = fmt::format("layers {}, heads {}", m.layers, m.heads);
  if (m.key_heads() != m.heads) text += fmt::format(" (keys {})", m.key_heads());
  if (m.heads * m.head_channels() != m.width) text += fmt::format(" of {}", m.head_channels());
  text += fmt::format(", width {}, context {}, vocabulary {}", m.width, m.context, m.vocabulary);
  if (m.norm == NormKind::rms) text += ", rms norm";
  if (m.positions == Positions::rope) text += ", rope";
  if (m.qk_norm) text += ", qk norm";
  if (m.mlp == MlpKind::swiglu) text += ", swiglu";
  return text + fmt::format(": {} parameters", parameter_count(m));
}

void require_same_tokenizer(const CheckpointHeader& header, const std::filesystem::path& checkpoint,
                            const TokenFile& data, const std::string& data_file) {
  require_same_tokenizer(header.tokenizer, checkpoint, "--tokenizer-of " + shell_quoted(checkpoint.string()),
                         data, data_file);
}

void require_same_tokenizer(const Tokenizer& there, const std::filesystem::path& file,
                            const std::string& option, const TokenFile& data, const std::string& data_file) {
  const Tokenizer& here = data.tokenizer;
  if (here == there) return;
  const std::string difference = here.first_difference(there);
  const std::string remedy =
      there.kind() == Tokenizer::Kind::ids
          ? "want ids of the same tokenizer"
          : fmt::format("prepare the text with that one, `{} prepare TEXT {} --out FILE`", program_name(),
                        option);
  fail(ExitCode::data, "{}: its tokenizer ({}) is not the one that {} was trained with ({}){}; {}", data_file,
       here.text(), file.string(), there.text(), difference.empty() ? "" : ": " + difference, remedy);
}

void put_packed_table(Report& out, const PackedModelFile& file) {
  std::int64_t count = 0, vector_bytes = 0, bytes = 0;
  Table& table = out.table("tensors",
                           "name|tensor; packed; format; rotation; |format; shape|shape; "
                           "bits_per_number|bits|>6.2f; bytes|bytes|>12");
  for (const auto& row : file.rows()) {
    const std::string format = row.rotation.empty() ? row.format : row.format + ", " + row.rotation;
    Table::Row& line = table.row(row.name, row.packed, row.format, row.rotation, format,
                                 Value(row.dims, "", indices_text(row.dims)),
                                 8 * double(row.bytes) / double(shape_of(row.dims).count()), row.bytes);
    bytes += row.bytes;
    if (row.dims.size() > 1) continue;
    line.whom = Table::Row::For::programs;
    ++count, vector_bytes += row.bytes;
  }
  if (count)
    table.row(fmt::format("{} norms and biases", count), "", "", "", "f32", "", 32.0, vector_bytes).whom =
        Table::Row::For::people;
  const std::int64_t wide =
      4 * parameter_count(file.header().model.recipe.model);  // as a checkpoint has them
  const double ratio = double(wide) / double(bytes);
  out.line("total   {}, 1/{:.2f} of the {} in f32", bytes_text(double(bytes)), ratio,
           bytes_text(double(wide)));
  out.put("tensor_bytes", bytes, "f32_bytes", wide, "ratio", ratio);
}

}  // namespace mxtape
