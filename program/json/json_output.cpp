#include "program/json/json_output.h"

#include <fmt/format.h>

#include <cmath>
#include <cstdio>

namespace mxtape {

void print_json(const Json& json) {
  // A file's name need not be UTF-8, a JSON text must be.
  fmt::print("{}\n", json.dump(2, ' ', false, Json::error_handler_t::replace));
}

void put_unknown(Json& object, const std::string& name, std::string_view reason) {
  object[name] = nullptr;
  object[name + "_reason"] = reason;
}

void put_number(Json& object, const std::string& name, std::optional<double> value, std::string_view reason) {
  if (value && std::isfinite(*value))
    object[name] = *value;
  else
    put_unknown(object, name, reason);
}

void put_if_known(Json& object, const std::string& name, const std::string& text, std::string_view reason) {
  if (text.empty())
    put_unknown(object, name, reason);
  else
    object[name] = text;
}

}  // namespace mxtape
