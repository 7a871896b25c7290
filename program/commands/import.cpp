#include "program/models/import.h"
#include "core/files/status.h"
#include "program/show/command.h"
#include "program/show/progress.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
namespace {

namespace fs = std::filesystem;

struct Arguments {
  std::string source, out;
  std::int64_t context = 0;
};

/// "models/gpt2" for "downloads/gpt2/" and for "downloads/gpt2.bin".
fs::path default_out(const fs::path& source) {
  const fs::path whole = (fs::absolute(source) / "").lexically_normal().parent_path();
  return fs::path("models") / (is_folder(whole) ? whole.filename() : whole.stem());
}

std::string listed(std::span<const std::string> names) {
  constexpr std::size_t most = 6;
  const auto text = fmt::format("{}", fmt::join(names.first(std::min(names.size(), most)), ", "));
  return names.size() > most ? fmt::format("{} and {} more", text, names.size() - most) : text;
}

Report report_of(const Arguments& arguments, const ImportReport& done, double seconds) {
  const ImportedModel& m = done.model;
  const ModelConfig c = m.config();
  const std::string tokenizer = done.tokenizer.text(), checkpoint = done.checkpoint.string();
  Report out;
  out.line("source      {}: {}, {}", arguments.source, m.source, m.types);
  out.line("model       {}: layers {}, heads {}, width {}, context {}, vocabulary {}: {} parameters",
           m.facts.architecture, c.layers, c.heads, c.width, c.context, c.vocabulary, m.parameters());
  out.line(
      "tensors     {} read{}", m.tensors_read,
      m.buffers.empty() ? "" : fmt::format("; {} buffers not read: {}", m.buffers.size(), listed(m.buffers)));
  if (!m.unread.empty())
    out.line("config      keys that mxtape does not know and did not read: {}", listed(m.unread));
  for (const auto& note : m.notes) out.line("note        {}", note);
  const bool none = done.tokenizer.kind() == Tokenizer::Kind::ids;
  out.line("tokenizer   {}{}", none ? "none is beside it: the model takes ids" : tokenizer,
           none || done.tokenizer_files.empty() ? "" : ", from " + listed(done.tokenizer_files));
  out.line("checkpoint  {}, {} in {:.1f} s", checkpoint, bytes_text(double(done.bytes)), seconds);
  out.put("source", arguments.source, "files", m.source, "types", m.types, "architecture",
          m.facts.architecture, "parameters", m.parameters(), "tensors_read", m.tensors_read,
          "buffers_not_read", m.buffers, "keys_not_read", m.unread, "notes", m.notes, "tokenizer", tokenizer,
          "tokenizer_files", done.tokenizer_files, "context", m.context, "checkpoint", checkpoint, "bytes",
          done.bytes);
  return out;
}

Report run(const Arguments& arguments, const Given& given) {
  Line line(stdout, std::chrono::milliseconds(100), !given.json);
  ImportOptions options{
      .source = arguments.source,
      .out = arguments.out.empty() ? default_out(arguments.source) : fs::path(arguments.out),
      .progress = [&](std::int64_t done, std::int64_t all) {
        const double share = double(done) / double(all);
        if (done < all && line.is_due())
          line.draw(fmt::format("reading {:.0f} %, {} to go", 100 * share, line.eta(share)));
        if (done == all) line.clear();
      }};
  if (arguments.context) options.context = arguments.context;
  const ImportReport report = import_model(options);
  return report_of(arguments, report, line.seconds());
}

Options options(Arguments& a) {
  return {{"SOURCE", &a.source, "a folder with config.json and safetensors, GGUF, or a model.bin of llm.c"},
          {"-o,--out", &a.out, "the folder to make; default: models/<name of SOURCE>"},
          {"--context", &a.context,
           "keep so many positions; default: all learned ones, at most 2048 of a model with RoPE", from(1)}};
}

}  // namespace

Command commands::import() {
  return {
      "import",
      "Make a run's folder at step 0 of a model from elsewhere: of Hugging Face, GGUF, or llm.c's model.bin",
      with(options, run)};
}

}  // namespace mxtape
