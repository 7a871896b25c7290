// docs/json.md and the documents that --json prints have the same members: whoever adds, renames or removes
// one has to say so on the page. Sweeps have a page of their own (docs/sweeps.md).
#include <gtest/gtest.h>

#include <map>
#include <nlohmann/json.hpp>
#include <regex>

#include "data/npy.h"
#include "tests/program/program_fixture.h"

namespace mxtape::test {
namespace {

using Json = nlohmann::json;

/// A member that the page names, with those of its object or of the objects in its list. Without any, it may
/// have what it likes. "<x>" stands for all members.
struct Field {
  std::map<std::string, Field> members;
  bool seen = false, empty = true;  // no object of it was
};

/// "a[].b.<x>" or "a[\"b.c\"][]" in its names.
std::vector<std::string> names_in(const std::string& path) {
  static const std::regex name(R"(\["([^"]+)\"\]|(<[^>]+>)|([A-Za-z0-9_]+))");
  std::vector<std::string> names;
  for (std::sregex_iterator m(path.begin(), path.end(), name), end; m != end; ++m)
    names.push_back((*m)[1].matched ? (*m)[1].str() : m->str());
  return names;
}

class JsonPage : public ProgramTest {
 protected:
  JsonPage() {
    std::string command;
    std::vector<std::string> before;  // the names of the path before
    std::ifstream page(MXTAPE_SOURCE "/docs/json.md");
    for (std::string line; std::getline(page, line);) {
      static const std::regex title("## mxtape (\\S+) --json"), path("`([^`]+)`");
      if (std::smatch m; std::regex_match(line, m, title)) command = m[1];
      if (!line.starts_with("* `")) continue;
      for (std::string more; page.peek() == ' ' && std::getline(page, more);) line += more;
      const auto meaning = line.find("`: ");
      const std::string item = meaning == line.npos ? line : line.substr(0, meaning + 1);
      for (std::sregex_iterator p(item.begin(), item.end(), path), end; p != end; ++p) {
        std::vector<std::string> names = names_in((*p)[1]);
        if ((*p)[1].str().starts_with('.')) names.insert(names.begin(), before.begin(), before.end() - 1);
        Field* field = &page_[command];
        for (const std::string& name : names) field = &field->members[name];
        before = std::move(names);
      }
    }
  }

  /// The document of a command is compared with its part of the page.
  void document(std::vector<std::string> words, int code = 0) {
    const std::string command = words[0];
    words.emplace_back("--json");
    ASSERT_EQ(run(words), code) << fmt::format("{}: ", fmt::join(words, " ")) << output_;
    const auto begin = output_.find('{'), end = output_.rfind('}');  // beside what went to standard error
    ASSERT_NE(end, std::string::npos) << output_;
    see(page_.at(command), Json::parse(output_.substr(begin, end + 1 - begin)), command);
  }
  void train(const std::string& recipe, std::vector<std::string> more = {}) {
    more.insert(more.begin(), {"train", recipe});
    ASSERT_EQ(run(more), 0) << output_;
  }

  std::map<std::string, Field> page_;  // by command

 private:
  void see(Field& field, const Json& json, const std::string& where) {
    field.seen = true;
    if (field.members.empty()) return;
    if (json.is_array())
      for (const Json& element : json) see(field, element, where + "[]");
    if (!json.is_object()) return;
    field.empty = false;
    for (const auto& [name, value] : json.items()) {
      static const std::string reason = "_reason";
      if (name.ends_with(reason) && json.contains(name.substr(0, name.size() - reason.size()))) continue;
      auto found = field.members.find(name);
      if (found == field.members.end() && field.members.begin()->first.starts_with('<'))
        found = field.members.begin();
      ASSERT_TRUE(found != field.members.end()) << where << "." << name << " is not on the page";
      see(found->second, value, where + "." + name);
    }
  }
};

void expect_seen(const Field& field, const std::string& where) {
  EXPECT_TRUE(field.seen) << where << " is on the page and in no document";
  if (!field.empty)
    for (const auto& [name, member] : field.members) expect_seen(member, where + "." + name);
}

TEST_F(JsonPage, HasTheMembersOfEveryDocumentAndNoOthers) {
  train("tiny.toml", {"--telemetry.every=2", "--telemetry.formats=['nvfp4']", "--train.save_every=3"});
  train("tiny.toml", {"--telemetry.every=2", "--name=other", "--seed=9"});
  write_npy(folder_ / "w.npy", std::vector<std::int64_t>{1, 64}, std::vector<float>(64, 0.3f));
  document({"--version"});
  document({"check", "tiny.toml", "--name=new", "--train.strands=2"});
  document({"check", "tiny.toml", "--name=new", "--train.strands=2", "--devices=2", "--train.gather=copies"});
  document({"check", "tiny.toml", "--name=new", "--data.file=gone.h5"}, int(ExitCode::data));
  document({"check", "tiny.toml", "--name=new", "--trace"});
  write_atomically(folder_ / "new.toml", "[precision]\nweights = 'mxfp8'\n");
  document({"check", "new.toml", "--from", "runs/tiny@3", "--fresh", "optimizer"});
  write_atomically(folder_ / "tune.toml", "[data]\nfile = 'data.h5'\n[schedule]\nwarmup_steps = 0\n");
  document({"check", "tune.toml", "--train.init=runs/tiny"});
  document({"sample", "runs/tiny", "--tokens", "3", "--prompt", "the"});
  document({"eval", "runs/tiny", "--precision", "mxfp4", "--by", "layer"});
  write_atomically(folder_ / "text.txt", "the the the the the the the the the the");
  document({"eval", "runs/tiny", "--precision", "mxfp4", "--text", "text.txt"});
  write_atomically(folder_ / "c.jsonl", "{\"context\": \"the\", \"choices\": [\"the\"]}\n");
  document({"eval", "runs/tiny", "--precision", "mxfp4", "--choices", "c.jsonl"});
  document({"post-training", "runs/tiny", "--out", "pt"});
  document({"inspect", "runs/tiny", "--spectra"});
  document({"info", "runs/tiny"});
  document({"export", "runs/tiny", "--packed", "--out", "packed.h5"});
  document({"info", "packed.h5"});
  document({"export", "runs/tiny", "--to", "hf", "--out", "hf"});
  document({"import", "hf", "--out", "again"});
  document({"verify", "runs/tiny"});
  document({"diff", "runs/tiny", "runs/other"}, int(ExitCode::differs));
  document({"replay", "runs/tiny", "--step", "4"});
  document({"compare", "w.npy"});
  document({"formats"});
  document({"formats", "mxfp4"});
  document({"recipes"});
  document({"recipes", "demo-mxfp4"});
  document({"recipes", "--reference"});
  if (std::system("command -v gnuplot >/dev/null") == 0) {
    document({"plot", "runs/tiny", "--steps-to", "1"});
    document({"plot", "runs/other", "--difference", "runs/tiny"});
    document({"plot", "runs/tiny", "--telemetry", "all", "--format", "nvfp4"});
  } else {
    page_.erase("plot");
  }
  document({"profile", "tiny.toml", "--steps=1"});
  document({"corpus", "--tales", "2"});
  document({"corpus", "--tales", "20", "--out", "tales.h5", "--text", "tales.txt"});
  document({"corpus", "--score", "tales.txt"});
  document({"prepare", "tales.txt", "--out", "read.h5"});
  document({"tokenizer", "train", "tales.txt", "--vocabulary", "270", "--out", "bpe"});
  document({"tokenizer", "encode", "bpe", "text.txt"});
  document({"tokenizer", "encode", "bpe", "text.txt", "--out", "ids.bin"});
  write_atomically(folder_ / "ids.txt", "33 34");
  document({"tokenizer", "decode", "bpe", "ids.txt"});
  document({"quantize", "w.npy", "w.h5"});
  document({"quantize", "w.h5", "back.npy", "--back"});
  page_.erase("sweep");
  for (const auto& [command, field] : page_) expect_seen(field, command);
}

}  // namespace
}  // namespace mxtape::test
