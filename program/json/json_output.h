#pragma once
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>

// What the commands print with --json: docs/json.md.
namespace mxtape {

/// Fields stay in the order in which they are set.
using Json = nlohmann::ordered_json;

/// One document and a line break on standard output. Numbers have as many digits as it takes to read the same
/// bits back.
void print_json(const Json&);

/// object[name] = null, and object[name + "_reason"] says why.
void put_unknown(Json& object, const std::string& name, std::string_view reason);
/// object[name] = value; if that is NaN, infinite or not there, which JSON cannot say, null with the reason.
void put_number(Json& object, const std::string& name, std::optional<double> value, std::string_view reason);
/// object[name] = text, or null with the reason if it is empty.
void put_if_known(Json& object, const std::string& name, const std::string& text, std::string_view reason);

}  // namespace mxtape
