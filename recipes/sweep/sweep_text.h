#pragma once

#include "recipes/sweep/sweep_file.h"
#include "recipes/text/table_reader.h"

// What sweep_text.cpp reads of a file and sweep_file.cpp makes arms of.
namespace mxtape {

/// One key of a recipe and its value. The nodes belong to SweepText::table.
struct Setting {
  std::string key;
  toml::source_region at;
  const toml::node* value;
};

/// A recipe that an arm names.
struct Fragment {
  std::string name, place;
};

struct ArmText {
  std::string name, where;
  std::vector<Fragment> fragments;
  std::vector<Setting> settings;
};

/// A sweep's file as it is written, with the grid's combinations as arms after the others.
struct SweepText {
  explicit SweepText(const std::string& path);

  Source source;
  toml::table table;
  Fragment base;
  std::string baseline;
  std::vector<std::uint64_t> seeds;  ///< with [points] the key `select`
  double tolerance = 0;
  std::vector<Setting> shared;  ///< [set]
  std::vector<ArmText> arms;

  /// The recipe that `key` names, on top of another.
  Recipe recipe_of(const Fragment&, std::string_view key, Recipe below = {}) const;
  /// Throws Error(usage) with the value's place.
  void want(bool fine, std::string_view key, const toml::node&, std::string_view wanted) const;
  const toml::table& section(std::string_view name, const toml::node&) const;
  const toml::node& required(std::string_view key, std::string_view wanted, const toml::table&) const;
  std::vector<std::uint64_t> read_seeds(std::string_view key, const toml::table&) const;
  std::vector<Setting> read_settings(std::string_view name, const toml::source_region& at,
                                     const toml::node&) const;
  /// [[arm]], or other tables with the same keys.
  std::vector<ArmText> read_arms(std::string_view name, const toml::node&) const;

 private:
  void require_no_recipe() const;
  std::string read_text(std::string_view key, std::string_view wanted) const;
  double read_tolerance() const;
  std::vector<Fragment> read_fragments(const toml::source_region& at, const toml::node&) const;
  void read_grid(const toml::node&);
  void require_sweepable(const std::string& key, const toml::source_region& at) const;
};

/// Resolves a sweep's arms: base, [set], the arm's recipes, the arm's set or the combination of the grid,
/// later wins. An arm trains with train.sample_tokens = 0 and train.keep = 1 unless the file sets them.
/// Throws Error(usage) with file:line:column for what a recipe's reader would refuse, and for a baseline that
/// is no arm, two arms alike, a key without effect in an arm, and an arm that differs from the baseline in
/// what pairing needs. `model_of`: of arms with train.init, whose [model] is what take_model() makes of it.
Sweep sweep_of(const SweepText&, const InitialModel& model_of = {});

}  // namespace mxtape
