#include <algorithm>
#include <array>
#include <cmath>
#include <string_view>

#include "core/bf16.h"
#include "core/error.h"
#include "core/files/random_access.h"
#include "interop/import.h"
#include "interop/llmc_layout.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;
using Header = std::array<std::int32_t, llmc::header_numbers>;

Header read_header(const RandomAccessFile& file) {
  const std::string path = file.path().string();
  require(file.size() >= std::uint64_t(llmc::header_bytes), ExitCode::data,
          "{}: {} bytes; want a header of {} bytes first, as llm.c writes it", path, file.size(),
          llmc::header_bytes);
  Header header;
  file.read(0, std::as_writable_bytes(std::span(header)));
  require(header[llmc::at_magic] != llmc::llama_magic, ExitCode::data,
          "{}: a Llama file of llm.c; its header keeps the norm's eps as the integer 0, so nothing can be "
          "computed from "
          "it; want the Hugging Face folder that it was made from",
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
std::int64_t number(const Header& header, llmc::Field field, const char* name, std::int64_t most,
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
  std::vector<std::uint16_t> bits;
  for (std::int64_t done = 0; done < count; done += std::int64_t(values.size())) {
    values.resize(std::size_t(std::min(piece, count - done)));
    const std::uint64_t at = std::uint64_t(llmc::header_bytes + (begin + done) * (narrow ? 2 : 4));
    if (narrow) {
      bits.resize(values.size());
      file.read(at, std::as_writable_bytes(std::span(bits)));
      std::transform(bits.begin(), bits.end(), values.begin(),
                     [](std::uint16_t b) { return to_f32(bf16{b}); });
    } else {
      file.read(at, std::as_writable_bytes(std::span(values)));
    }
    const auto bad = std::find_if_not(values.begin(), values.end(), [](float x) { return std::isfinite(x); });
    require(bad == values.end(), ExitCode::data, "{}: {} holds {} at element {}; want finite numbers",
            file.path().string(), name, *bad, done + (bad - values.begin()));
    sink(values);
  }
}

}  // namespace

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

}  // namespace mxtape
