#include <array>
#include <cmath>

#include "core/bf16.h"
#include "core/error.h"
#include "core/files/output_file.h"
#include "interop/export.h"
#include "interop/llmc_layout.h"

namespace mxtape {
namespace {

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

/// Numbers in the file's type.
class NumberFile {
 public:
  NumberFile(const std::filesystem::path& path, bool narrow) : file_(path), narrow_(narrow) {}
  void header(std::span<const std::int32_t> numbers) { file_.write(std::as_bytes(numbers)); }
  void numbers(std::span<const float> values, const std::string& name) {
    if (!narrow_) return file_.write(std::as_bytes(values));
    bits_.clear();
    for (const float value : values) {
      const bf16 rounded = to_bf16(value);
      require(std::isfinite(to_f32(rounded)), ExitCode::data,
              "'{}' holds {}, beyond the largest number of bf16; want --dtype f32", name, value);
      bits_.push_back(rounded.bits);
    }
    file_.write(std::as_bytes(std::span(bits_)));
  }
  void finish() { file_.finish(); }

 private:
  OutputFile file_;
  bool narrow_;
  std::vector<std::uint16_t> bits_;
};

}  // namespace

std::uint64_t export_llmc_file(const std::filesystem::path& path, const ModelFacts& m,
                               const WeightSource& source, const ExportOptions& options) {
  require_sayable(m);
  require(options.type != TensorType::f16, ExitCode::usage, "--to llmc: its files are f32 or bf16, not f16");
  const bool narrow = options.type == TensorType::bf16;
  const std::int64_t padded =
      (m.vocabulary + llmc::vocabulary_multiple - 1) / llmc::vocabulary_multiple * llmc::vocabulary_multiple;
  std::array<std::int32_t, llmc::header_numbers> header{};
  header[llmc::at_magic] = llmc::magic;
  header[llmc::at_version] = narrow ? llmc::version_bf16 : llmc::version_f32;
  header[llmc::at_positions] = std::int32_t(m.positions);
  header[llmc::at_vocabulary] = std::int32_t(m.vocabulary);
  header[llmc::at_layers] = std::int32_t(m.layers);
  header[llmc::at_heads] = std::int32_t(m.heads);
  header[llmc::at_width] = std::int32_t(m.width);
  header[llmc::at_padded] = std::int32_t(padded);
  UnfinishedFile unfinished(path);
  NumberFile file(unfinished.path(), narrow);
  file.header(header);
  const auto order = llmc_order(m);
  std::int64_t done = 0;
  for (const TensorPlan& tensor : order) {
    file.numbers(source(tensor.ours), tensor.ours);
    if (tensor.ours == "tokens.weight")
      file.numbers(std::vector<float>(std::size_t((padded - m.vocabulary) * m.width)), tensor.ours);
    if (options.progress) options.progress(++done, std::int64_t(order.size()));
  }
  file.finish();
  return unfinished.finish();
}

}  // namespace mxtape
