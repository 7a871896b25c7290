#pragma once
#include <algorithm>
#include <cstdint>
#include <filesystem>
#include <fstream>
#include <map>
#include <random>
#include <sstream>
#include <string>
#include <vector>

namespace mxtape::test {

/// A call that changed files, as tests/support/faults/journal.cpp wrote it down.
struct FileCall {
  std::string call{}, path{}, to{};
  std::size_t number = 0;  ///< where a write begins, or a file's new length
  std::string bytes{};     ///< of a write
};

inline std::vector<FileCall> read_journal(const std::filesystem::path& journal) {
  std::ifstream lines(journal), bytes(journal.string() + ".bytes", std::ios::binary);
  std::vector<FileCall> calls;
  for (std::string line; std::getline(lines, line);) {
    std::vector<std::string> words;
    std::istringstream in(line);
    for (std::string word; std::getline(in, word, '\t');) words.push_back(word);
    FileCall call{.call = words[0]};
    if (call.call == "write") {
      call.number = std::stoull(words[1]);
      call.bytes.resize(std::stoull(words[2]));
      bytes.read(call.bytes.data(), std::streamsize(call.bytes.size()));
      call.path = words[3];
    } else if (call.call == "extend" || call.call == "truncate") {
      call.number = std::stoull(words[1]);
      call.path = words[2];
    } else {
      call.path = words[1];
      if (words.size() > 2) call.to = words[2];
    }
    calls.push_back(std::move(call));
  }
  return calls;
}

/// A file system below `root` in which nothing outlives a power cut but what was synced: the bytes of a file
/// by fsync of the file, a name by fsync of its folder. Of the rest any part may be there, in any order: the
/// model of T. Pillai et al., "All File Systems Are Not Created Equal", OSDI 2014, without the promises that
/// one file system adds.
class Disk {
 public:
  explicit Disk(std::filesystem::path root) : root_(std::move(root)) {
    nodes_.push_back({.is_folder = true});
  }

  void run(const FileCall& c) {
    const auto [folder, name] = parent_of(c.path);
    if (folder < 0 && c.call != "fsync") return;
    if (c.call == "create" || c.call == "mkdir") {
      nodes_.push_back({.is_folder = c.call == "mkdir"});
      change(folder, {.kind = Change::name, .to = name, .node = int(nodes_.size()) - 1});
    } else if (c.call == "remove") {
      change(folder, {.kind = Change::remove, .from = name});
    } else if (c.call == "rename") {  // within one folder
      change(folder,
             {.kind = Change::name, .from = name, .to = parent_of(c.to).second, .node = find(c.path)});
    } else if (const int node = find(c.path); node >= 0) {
      if (c.call == "fsync") {
        nodes_[std::size_t(node)].durable = nodes_[std::size_t(node)].live;
        nodes_[std::size_t(node)].unsynced.clear();
      } else if (c.call == "write") {
        change(node, {.kind = Change::write, .at = c.number, .bytes = c.bytes});
      } else {
        change(node, {.kind = c.call == "extend" ? Change::extend : Change::cut, .at = c.number});
      }
    }
  }

  /// The content of a file as the program saw it.
  std::string content(const std::string& path) const { return nodes_[std::size_t(find(path))].live.bytes; }

  enum class Unsynced { gone, there, in_order, any };
  /// Writes what a power cut left into `folder`: of what is not synced nothing, all, a part in the order of
  /// the calls, or any part.
  void leave(const std::filesystem::path& folder, Unsynced unsynced, std::mt19937& random) const {
    leave(0, folder, unsynced, random);
  }

 private:
  struct Change {
    enum Kind { name, remove, write, cut, extend } kind;
    std::string from{}, to{};  ///< of names
    int node = -1;
    std::size_t at = 0;
    std::string bytes{};
  };
  struct State {
    std::string bytes{};
    std::map<std::string, int> names{};
    void take(const Change& c) {
      if (c.kind == Change::name) {
        names.erase(c.from);
        names[c.to] = c.node;
      }
      if (c.kind == Change::remove) names.erase(c.from);
      if (c.kind == Change::write) {
        bytes.resize(std::max(bytes.size(), c.at + c.bytes.size()));
        bytes.replace(c.at, c.bytes.size(), c.bytes);
      }
      if (c.kind == Change::cut) bytes.resize(c.at);
      if (c.kind == Change::extend) bytes.resize(std::max(bytes.size(), c.at));
    }
  };
  struct Node {
    bool is_folder = false;
    State live{}, durable{};
    std::vector<Change> unsynced{};
  };

  void change(int node, Change c) {
    nodes_[std::size_t(node)].live.take(c);
    nodes_[std::size_t(node)].unsynced.push_back(std::move(c));
  }
  /// -1: outside of the root, or gone.
  int find(const std::filesystem::path& path) const {
    const auto relative = path.lexically_normal().lexically_relative(root_);
    if (relative.empty() || *relative.begin() == "..") return -1;
    int node = 0;
    for (const auto& part : relative) {
      if (part == ".") continue;
      const auto& names = nodes_[std::size_t(node)].live.names;
      const auto next = names.find(part.string());
      if (next == names.end()) return -1;
      node = next->second;
    }
    return node;
  }
  std::pair<int, std::string> parent_of(const std::filesystem::path& path) const {
    const auto normal = path.lexically_normal();
    return {find(normal.parent_path()), normal.filename().string()};
  }

  static State survived(const Node& node, Unsynced unsynced, std::mt19937& random) {
    if (unsynced == Unsynced::there) return node.live;
    State state = node.durable;
    if (unsynced == Unsynced::gone) return state;
    const std::size_t last = random() % (node.unsynced.size() + 1);
    for (std::size_t i = 0; i < node.unsynced.size(); ++i) {
      const bool whole = unsynced == Unsynced::in_order ? i < last : random() % 2 == 0;
      const bool torn = unsynced == Unsynced::in_order ? i == last : random() % 4 == 0;
      Change c = node.unsynced[i];
      if (torn && c.kind == Change::write) {
        if (random() % 2)  // a part of the bytes, or the room for them without the bytes
          c.bytes.resize(random() % (c.bytes.size() + 1));
        else
          c.bytes.assign(c.bytes.size(), '\0');
        state.take(c);
      } else if (whole) {
        state.take(c);
      }
    }
    return state;
  }

  void leave(std::size_t number, const std::filesystem::path& path, Unsynced unsynced,
             std::mt19937& random) const {
    const State state = survived(nodes_[number], unsynced, random);
    if (!nodes_[number].is_folder) {
      std::ofstream(path, std::ios::binary).write(state.bytes.data(), std::streamsize(state.bytes.size()));
      return;
    }
    std::filesystem::create_directories(path);
    for (const auto& [name, node] : state.names) leave(std::size_t(node), path / name, unsynced, random);
  }

  std::filesystem::path root_;
  std::vector<Node> nodes_;
};

}  // namespace mxtape::test
