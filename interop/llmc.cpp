// llm.c's model.bin: 256 i32, then every tensor of the table of gpt2, a kind at a time through all blocks.
// Weights are [out, in] as ours. Source: karpathy/llm.c, train_gpt2.cu, gpt2_write_to_checkpoint().
#include <algorithm>
#include <array>
#include <string_view>

#include "core/error.h"
#include "core/files/output_file.h"
#include "core/files/random_access.h"
#include "data/safetensors/safetensors_file.h"
#include "data/safetensors/safetensors_writer.h"
#include "interop/export.h"
#include "interop/hf_names.h"
#include "interop/import.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

namespace llmc {
constexpr std::int32_t magic = 20240326, llama_magic = 20240803;
constexpr std::int32_t version_f32 = 3, version_bf16 = 5;
constexpr std::int64_t header_numbers = 256, header_bytes = 4 * header_numbers;
constexpr std::int64_t vocabulary_multiple = 128;  ///< the table is padded to it
// Where the header's numbers stand.
constexpr std::size_t at_magic = 0, at_version = 1, at_positions = 2, at_vocabulary = 3, at_layers = 4,
                      at_heads = 5, at_width = 6, at_padded = 7;
}  // namespace llmc
using Header = std::array<std::int32_t, llmc::header_numbers>;

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
  require(file.size() >= std::uint64_t(llmc::header_bytes), ExitCode::data,
          "{}: {} bytes; want a header of {} bytes first, as llm.c writes it", path, file.size(),
          llmc::header_bytes);
  Header header;
  file.read(0, std::as_writable_bytes(std::span(header)));
  require(header[llmc::at_magic] != llmc::llama_magic, ExitCode::data,
          "{}: a Llama file of llm.c; its header keeps the norm's eps as the integer 0, so nothing can be "
          "computed from it; want the Hugging Face folder that it was made from",
          path);
  require(header[llmc::at_magic] == llmc::magic, ExitCode::data,
          "{}: begins with {}; want {} (llm.c's model.bin), or a Hugging Face folder", path,
          header[llmc::at_magic], llmc::magic);
  const std::int32_t version = header[llmc::at_version];
  require(version == llmc::version_f32 || version == llmc::version_bf16, ExitCode::data,
          "{}: version {}; want {} (f32) or {} (bf16)", path, version, llmc::version_f32, llmc::version_bf16);
  return header;
}

/// A number of the header within the range of the knob that it becomes.
std::int64_t number(const Header& header, std::size_t field, const char* name, std::int64_t most,
                    const fs::path& path) {
  const std::int64_t value = header[field];
  require(value >= 1 && value <= most, ExitCode::data, "{}: {} = {} in its header; want 1 to {}",
          path.string(), name, value, most);
  return value;
}

ModelFacts facts_of_header(const Header& header, const fs::path& path) {
  ModelFacts m;
  m.positions = number(header, llmc::at_positions, "the longest text", 1 << 24, path);
  m.vocabulary = number(header, llmc::at_vocabulary, "the vocabulary", 0x7fffffff, path);
  m.layers = number(header, llmc::at_layers, "the number of layers", 1000, path);
  m.heads = m.kv_heads = number(header, llmc::at_heads, "the number of heads", 1 << 16, path);
  m.width = number(header, llmc::at_width, "the number of channels", 1 << 20, path);
  require(m.width % m.heads == 0, ExitCode::data, "{}: {} heads do not divide {} channels", path.string(),
          m.heads, m.width);
  m.head_width = m.width / m.heads;
  m.mlp_width = 4 * m.width;
  return m;
}

/// Reads elements [begin, begin + count) of the file's numbers.
void read_numbers(const RandomAccessFile& file, bool narrow, const std::string& name, std::int64_t begin,
                  std::int64_t count, const TensorSink& sink) {
  constexpr std::int64_t piece = 1 << 20;
  std::vector<float> values;
  for (std::int64_t done = 0; done < count; done += std::int64_t(values.size())) {
    values.resize(std::size_t(std::min(piece, count - done)));
    read_floats(file, std::uint64_t(llmc::header_bytes + (begin + done) * (narrow ? 2 : 4)),
                narrow ? TensorType::bf16 : TensorType::f32, values, name, std::uint64_t(done));
    sink(values);
  }
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
  const bool narrow = header[llmc::at_version] == llmc::version_bf16;
  ImportedModel model;
  ModelFacts& m = model.facts = facts_of_header(header, path);
  const std::int64_t padded = number(header, llmc::at_padded, "the padded vocabulary", 0x7fffffff, path);
  require(padded >= m.vocabulary, ExitCode::data, "{}: its padded vocabulary {} is below its vocabulary {}",
          path.string(), padded, m.vocabulary);
  require(!context || (*context >= 1 && *context <= m.positions), ExitCode::usage,
          "--context {}: {} knows {} positions; want 1 to {}", context.value_or(0), path.string(),
          m.positions, m.positions);
  model.context = context.value_or(m.positions);
  model.where = path.string();
  model.source = "model.bin of llm.c";
  model.types = narrow ? "BF16" : "F32";
  model.files = file;
  std::int64_t begin = 0;
  for (const TensorPlan& tensor : llmc_order(m)) {
    ImportedTensor ours{tensor.ours, tensor.shape, {}};
    const bool table = tensor.ours == "tokens.weight";
    const std::int64_t stored = table ? padded * m.width : tensor.shape.count();
    if (tensor.ours == "positions.weight") ours.shape.dims[0] = model.context;
    ours.read = [file, narrow, name = tensor.ours, begin, count = ours.shape.count()](
                    const TensorSink& sink) { read_numbers(*file, narrow, name, begin, count, sink); };
    begin += stored;  // below 2^63: the ranges of the header's numbers
    model.tensors.push_back(std::move(ours));
    ++model.tensors_read;
  }
  const std::int64_t wanted = llmc::header_bytes + begin * (narrow ? 2 : 4);
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
      (m.vocabulary + llmc::vocabulary_multiple - 1) / llmc::vocabulary_multiple * llmc::vocabulary_multiple;
  Header header{};
  header[llmc::at_magic] = llmc::magic;
  header[llmc::at_version] = narrow ? llmc::version_bf16 : llmc::version_f32;
  header[llmc::at_positions] = std::int32_t(m.positions);
  header[llmc::at_vocabulary] = std::int32_t(m.vocabulary);
  header[llmc::at_layers] = std::int32_t(m.layers);
  header[llmc::at_heads] = std::int32_t(m.heads);
  header[llmc::at_width] = std::int32_t(m.width);
  header[llmc::at_padded] = std::int32_t(padded);
  UnfinishedFile unfinished(path);
  OutputFile file(unfinished.path());
  file.write(std::as_bytes(std::span(header)));
  const auto order = llmc_order(m);
  std::int64_t done = 0;
  for (const TensorPlan& tensor : order) {
    std::vector<float> numbers = source(tensor.ours);
    if (tensor.ours == "tokens.weight") numbers.resize(std::size_t(padded * m.width));
    file.write(bytes_in(options.type, numbers, tensor.ours));
    if (options.progress) options.progress(++done, std::int64_t(order.size()));
  }
  file.finish();
  return unfinished.finish();
}

}  // namespace mxtape
