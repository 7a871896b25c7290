// llm.c's model.bin: 256 i32, then every tensor of the table of gpt2, a kind at a time through all blocks.
// Weights are [out, in] as ours. Source: karpathy/llm.c, train_gpt2.cu, gpt2_write_to_checkpoint().
#include <nlohmann/json.hpp>
#include <string_view>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/files/random_access.h"
#include "data/safetensors/safetensors_file.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/hf_config.h"
#include "interop/hf_names.h"
#include "interop/import.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

constexpr std::int32_t llmc_magic = 20240326, llama_magic = 20240803;
constexpr std::int32_t version_f32 = 3, version_bf16 = 5;
constexpr std::int64_t vocabulary_multiple = 128;  ///< the table is padded to it

struct Header {
  std::int32_t magic = llmc_magic, version = 0, positions = 0, vocabulary = 0, layers = 0, heads = 0,
               width = 0, padded = 0, unused[248]{};
};
constexpr std::int64_t header_bytes = sizeof(Header);

/// The tensors of ours in the order of such a file.
std::vector<TensorPlan> llmc_order(const ModelFacts& model) {
  const std::vector<TensorPlan> blocks_first = tensor_plan(model);
  std::vector<TensorPlan> order;
  const auto kind_of = [](std::string_view name) {
    const auto dot = name.starts_with("blocks.") ? name.find('.', 7) : std::string_view::npos;
    return dot == std::string_view::npos ? std::string_view{} : name.substr(dot);
  };
  for (const TensorPlan& tensor : blocks_first) {
    const std::string_view kind = kind_of(tensor.ours);
    if (kind.empty())
      order.push_back(tensor);
    else if (tensor.ours.starts_with("blocks.0."))
      for (const TensorPlan& same : blocks_first)
        if (kind_of(same.ours) == kind) order.push_back(same);
  }
  return order;
}

Header read_header(const RandomAccessFile& file) {
  const std::string path = file.path().string();
  require(file.size() >= std::uint64_t(header_bytes), ExitCode::data,
          "{}: {} bytes; want a header of {} bytes first, as llm.c writes it", path, file.size(),
          header_bytes);
  Header header;
  file.read(0, std::as_writable_bytes(std::span(&header, 1)));
  require(header.magic != llama_magic, ExitCode::data,
          "{}: a Llama file of llm.c; its header keeps the norm's eps as the integer 0, so nothing can be "
          "computed from it; want the Hugging Face folder that it was made from",
          path);
  require(header.magic == llmc_magic, ExitCode::data,
          "{}: begins with {}; want {} (llm.c's model.bin), GGUF, or a Hugging Face folder", path,
          header.magic, llmc_magic);
  const std::int32_t version = header.version;
  require(version == version_f32 || version == version_bf16, ExitCode::data,
          "{}: version {}; want {} (f32) or {} (bf16)", path, version, version_f32, version_bf16);
  return header;
}

/// llm.c's code implies what its header does not say.
void require_sayable(const ModelFacts& m) {
  const auto want = [](bool holds, const char* key, const char* wanted) {
    require(holds, ExitCode::usage, "--to llmc: llm.c's file has no room for {}; want {}", key, wanted);
  };
  want(!m.is_llama_style(), "model.norm, model.positions and model.mlp",
       "layer norms, learned positions and GELU");
  want(m.bias, "model.bias = false", "biases");
  want(m.tied, "model.tied_head = false", "a tied head");
  want(m.gelu == Gelu::tanh, "model.gelu = \"erf\"", "the tanh form");
  want(float(m.norm_eps) == 1e-5f, "model.norm_eps", "1e-5");
  want(m.mlp_width == 4 * m.width, "model.mlp_width", "4 x width");
}

}  // namespace

ImportedModel open_llmc_file(const fs::path& path, std::optional<std::int64_t> context) {
  const auto file = std::make_shared<const RandomAccessFile>(path);
  const Header header = read_header(*file);
  const bool narrow = header.version == version_bf16;
  const HfConfig config = read_hf_config({{"model_type", "gpt2"},
                                          {"n_positions", header.positions},
                                          {"vocab_size", header.vocabulary},
                                          {"n_layer", header.layers},
                                          {"n_head", header.heads},
                                          {"n_embd", header.width}},
                                         path.string(), context);
  const ModelFacts& m = config.model;
  const std::int64_t padded = header.padded;
  require(padded >= m.vocabulary, ExitCode::data, "{}: its padded vocabulary {} is below its vocabulary {}",
          path.string(), padded, m.vocabulary);
  ImportedModel model{.facts = m,
                      .context = config.context,
                      .where = path.string(),
                      .source = "model.bin of llm.c",
                      .types = narrow ? "BF16" : "F32",
                      .files = file};
  std::int64_t begin = 0;
  for (const TensorPlan& tensor : llmc_order(m)) {
    TensorInParts ours{tensor.ours, tensor.shape, {}};
    const bool table = tensor.ours == "tokens.weight";
    const std::int64_t stored = table ? padded * m.width : tensor.shape.count();
    if (tensor.ours == "positions.weight") ours.shape.dims[0] = model.context;
    const auto read = [file, narrow, name = tensor.ours, begin](std::uint64_t first, std::span<float> room) {
      read_floats(*file, std::uint64_t(header_bytes) + (std::uint64_t(begin) + first) * (narrow ? 2 : 4),
                  narrow ? TensorType::bf16 : TensorType::f32, room, name, first);
    };
    ours.read = [read, count = ours.shape.count()](const TensorSink& sink) { in_pieces(count, sink, read); };
    begin += stored;  // below 2^63: the ranges of the header's numbers
    model.tensors.push_back(std::move(ours));
    ++model.tensors_read;
  }
  const std::int64_t wanted = header_bytes + begin * (narrow ? 2 : 4);
  require(std::uint64_t(wanted) == file->size(), ExitCode::data, "{}: {} bytes; its header says {}",
          path.string(), file->size(), wanted);
  if (padded > m.vocabulary)
    model.notes.push_back(
        fmt::format("the table's rows {} to {} are padding and stay behind", m.vocabulary, padded - 1));
  return model;
}

std::uint64_t export_llmc_file(const fs::path& path, const ModelFacts& m, const WeightSource& source,
                               const ExportOptions& options) {
  require_sayable(m);
  require(options.type != TensorType::f16, ExitCode::usage, "--to llmc: its files are f32 or bf16, not f16");
  const bool narrow = options.type == TensorType::bf16;
  const std::int64_t padded =
      (m.vocabulary + vocabulary_multiple - 1) / vocabulary_multiple * vocabulary_multiple;
  const Header header{.version = narrow ? version_bf16 : version_f32,
                      .positions = std::int32_t(m.positions),
                      .vocabulary = std::int32_t(m.vocabulary),
                      .layers = std::int32_t(m.layers),
                      .heads = std::int32_t(m.heads),
                      .width = std::int32_t(m.width),
                      .padded = std::int32_t(padded)};
  UnfinishedFile unfinished(path);
  OutputFile file(unfinished.path());
  file.write(std::as_bytes(std::span(&header, 1)));
  for (const TensorPlan& tensor : llmc_order(m)) {
    std::vector<float> numbers = source(tensor.ours);
    if (tensor.ours == "tokens.weight") numbers.resize(std::size_t(padded * m.width));
    file.write(bytes_in(options.type, numbers, tensor.ours));
  }
  file.finish();
  return unfinished.finish();
}

}  // namespace mxtape
