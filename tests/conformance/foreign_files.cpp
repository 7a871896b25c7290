#include <algorithm>
#include <nlohmann/json.hpp>

#include "core/error.h"
#include "core/files/atomic_file.h"
#include "program/models/import.h"
#include "tests/conformance/imported.h"
#include "tests/conformance/tokenizer_files_cases.h"

namespace mxtape::conformance {
namespace {

namespace fs = std::filesystem;
using nlohmann::json;

/// What came of an import: "" and a model, or why it was refused.
struct Attempt {
  std::string refusal{};
  std::string types{};
};

/// Imports into a folder that must not be there afterwards if it is refused. Throws what is no refusal.
Attempt attempt(const fs::path& source, const fs::path& out) {
  try {
    const ImportedModel opened = open_foreign_model(source);
    (void)import_model({.source = source, .out = out});
    return {"", opened.types};
  } catch (const Error& e) {
    if (e.code() != ExitCode::data) throw;
    return {e.what()};
  }
}

/// Whether the refusal is one sentence about this source that left nothing behind.
Outcome sound_refusal(const Attempt& tried, const fs::path& source, const fs::path& out) {
  if (tried.refusal.find(source.filename().string()) == std::string::npos)
    return failed(fmt::format("refused without the name of the file: {}", tried.refusal));
  for (const auto& entry : fs::directory_iterator(out.parent_path()))
    if (entry.path().filename().string().starts_with(out.filename().string()))
      return failed(fmt::format("refused, and {} is left", entry.path().filename().string()));
  return passed();
}

/// `expect`: "refuse", "accept" with what follows, "accept or refuse". `logits`: of what is accepted.
Outcome judge(const std::string& expect, const fs::path& source,
              const std::function<Outcome(const Attempt&)>& logits) {
  const ScratchFolder scratch;
  const fs::path out = scratch.path() / "imported";
  const Attempt tried = attempt(source, out);
  if (!tried.refusal.empty())
    return expect.starts_with("accept") && expect.find("refuse") == std::string::npos
               ? failed("refused: " + tried.refusal)
               : sound_refusal(tried, source, out);
  if (expect.starts_with("refuse")) return failed("taken; want a refusal");
  return logits(tried);
}

/// Another's files, one of which may be replaced: weights as links, the others as copies, whose links may not
/// leave the folder.
void link_files(const fs::path& from, const fs::path& to) {
  for (const auto& entry : fs::directory_iterator(from))
    if (entry.path().extension() == ".safetensors")
      fs::create_symlink(fs::absolute(entry.path()), to / entry.path().filename());
    else if (entry.is_regular_file())
      fs::copy_file(entry.path(), to / entry.path().filename());
}

Outcome file_case(const fs::path& set, const json& entry, const std::string& device) {
  const fs::path base = set / "base";
  const ScratchFolder scratch;
  fs::path source = scratch.path() / "model";
  if (entry.contains("file")) {
    fs::create_directory(source);
    fs::copy_file(base / "config.json", source / "config.json");
    fs::create_symlink(fs::absolute(set / "files" / entry["file"].get<std::string>()),
                       source / "model.safetensors");
  } else {
    source = set / entry.at("folder").get<std::string>();
  }
  return judge(entry.at("expect").get<std::string>(), source, [&](const Attempt& tried) {
    // Of a file with other types the numbers are others.
    if (tried.types != open_foreign_model(base).types) return passed();
    TrainedModel trained = imported_model(source, device);
    return compare_logits(trained,
                          expected_logits(SafetensorsFile(base / "reference.safetensors"), "logits"));
  });
}

Outcome config_case(const fs::path& set, const json& entry, const std::string& device) {
  const fs::path base = set / "models" / entry.at("base").get<std::string>();
  const ScratchFolder scratch;
  const fs::path source = scratch.path() / "model";
  fs::create_directory(source);
  link_files(base, source);
  json config = read_json(base / "config.json");
  for (const auto& [key, value] : entry.at("set").items()) config[key] = value;
  fs::remove(source / "config.json");
  write_atomically(source / "config.json", config.dump(1));
  return judge(entry.at("expect").get<std::string>(), source, [&](const Attempt&) {
    TrainedModel trained = imported_model(source, device);
    return compare_logits(trained,
                          expected_logits(SafetensorsFile(base / "reference.safetensors"), "logits_f64"));
  });
}

/// A broken model.bin: what the set holds of it, the rest from the file it was made of, and zeros.
Outcome llmc_refusal(const fs::path& set, const std::string& name, const json& entry) {
  std::string bytes = read_whole_text(set / "refuse" / (name + ".bin"));
  const auto wanted = entry.at("bytes_in_file").get<std::size_t>();
  const std::string base = read_whole_text(set / entry.at("made_from").get<std::string>());
  if (bytes.size() < wanted) bytes += base.substr(std::min(bytes.size(), base.size()), wanted - bytes.size());
  bytes.resize(wanted, '\0');
  const ScratchFolder scratch;
  const fs::path source = scratch.path() / "model.bin";
  write_atomically(source, bytes);
  return judge(entry.at("expect").get<std::string>(), source, [](const Attempt&) { return passed(); });
}

}  // namespace

std::vector<InteropCase> safetensors_cases(const fs::path& folder, const std::string& device) {
  const fs::path set = folder / "safetensors";
  const json expected = read_json(set / "expected.json");
  std::vector<InteropCase> cases;
  for (const json& entry : expected.at("cases")) {
    const auto name =
        entry.contains("file") ? entry["file"].get<std::string>() : entry.at("folder").get<std::string>();
    cases.push_back({"safetensors/" + name, [=] { return file_case(set, entry, device); }});
  }
  return cases;
}

std::vector<InteropCase> config_cases(const fs::path& folder, const std::string& device) {
  const json list = read_json(folder / "configs/cases.json");
  std::vector<InteropCase> cases;
  for (const json& entry : list.at("cases"))
    cases.push_back({fmt::format("configs/{}/{}", entry.at("base").get<std::string>(),
                                 entry.at("name").get<std::string>()),
                     [=] { return config_case(folder, entry, device); }});
  return cases;
}

std::vector<InteropCase> llmc_cases(const fs::path& folder, const std::string& device) {
  const fs::path set = folder / "llmc";
  std::vector<InteropCase> cases;
  for (const std::string type : {"f32", "bf16"})
    if (fs::exists(set / ("model_" + type + ".bin")))
      cases.push_back({"llmc/logits_" + type, [=] {
                         TrainedModel trained = imported_model(set / ("model_" + type + ".bin"), device);
                         return compare_logits(trained,
                                               expected_logits(SafetensorsFile(set / "reference.safetensors"),
                                                               "logits_f64_" + type + "_file"));
                       }});
  if (fs::exists(set / "refuse/expected.json")) {
    const json expected = read_json(set / "refuse/expected.json");
    for (const auto& [name, entry] : expected.items())
      cases.push_back({"llmc/refuse/" + name,
                       [=, name = name, entry = entry] { return llmc_refusal(set, name, entry); }});
  }
  return cases;
}

}  // namespace mxtape::conformance
