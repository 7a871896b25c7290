#include "data/tokenizers/sentencepiece/model_proto.h"

#include <cmath>
#include <cstring>
#include <unordered_set>

#include "core/error.h"
#include "data/byte_reader.h"
#include "data/tokenizers/text/rules.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

struct Field {
  std::uint32_t number = 0;
  std::uint64_t value = 0;  // varint, fixed32, fixed64
  std::string_view text{};  // length-delimited
  bool is_text = false;
};

/// Calls see(Field) for each of a message of the wire format. Source: protobuf.dev, Encoding.
template <class See>
void for_each_field(std::string_view message, const See& see) {
  ByteReader reader{message};
  const auto varint = [&] {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 64; shift += 7) {
      const auto byte = reader.number<std::uint8_t>();
      value |= std::uint64_t(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    fail(ExitCode::data, "a number of more than 64 bits");
  };
  while (!reader.left.empty()) {
    const std::uint64_t key = varint();
    require(key >> 3 >= 1 && key >> 3 < 1u << 29, ExitCode::data, "field number {} does not exist", key >> 3);
    const auto type = key & 7;
    require(type < 3 || type == 5, ExitCode::data, "field {} has wire type {}", key >> 3, type);
    Field field{.number = std::uint32_t(key >> 3), .is_text = type == 2};
    if (type == 0) field.value = varint();
    if (type == 1) field.value = reader.number<std::uint64_t>();
    if (type == 2) field.text = reader.bytes(varint());
    if (type == 5) field.value = reader.number<std::uint32_t>();
    see(field);
  }
}

std::string_view text_of(const Field& field, const char* name) {
  require(field.is_text, ExitCode::data, "{} is a number", name);
  return field.text;
}

std::uint64_t number_of(const Field& field, const char* name) {
  require(!field.is_text, ExitCode::data, "{} is no number", name);
  return field.value;
}

SentencePieceProto::Piece read_piece(std::string_view bytes, std::size_t index) {
  SentencePieceProto::Piece piece;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) {
      piece.text = text_of(field, "pieces.piece");
    } else if (field.number == 2) {
      const auto bits = std::uint32_t(number_of(field, "pieces.score"));
      std::memcpy(&piece.score, &bits, sizeof bits);
    } else if (field.number == 3) {
      const std::uint64_t type = number_of(field, "pieces.type");
      require(type >= 1 && type <= 6 && type != 5, ExitCode::data,
              "piece {} has type {}{}; mxtape has NORMAL UNKNOWN CONTROL USER_DEFINED BYTE", index, type,
              type == 5 ? " (UNUSED)" : "");
      piece.type = SentencePieceProto::PieceType(type);
    }
  });
  const bool well = !piece.text.empty() && piece.text.size() <= longest_rule_text &&
                    first_bad_byte(piece.text) == piece.text.size() && std::isfinite(piece.score);
  require(well, ExitCode::data,
          "piece {} is {} with score {}; want 1 to {} bytes of UTF-8 and a finite score", index,
          shown_text(piece.text), piece.score, longest_rule_text);
  return piece;
}

void read_trainer_spec(std::string_view bytes, SentencePieceProto& proto) {
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 3) {
      const std::uint64_t type = number_of(field, "trainer_spec.model_type");
      require(type == 1 || type == 2, ExitCode::data,
              "trainer_spec.model_type = {}; mxtape has 1 (UNIGRAM) and 2 (BPE)", type);
      proto.type = SentencePieceProto::ModelType(type);
    } else if (field.number == 24) {
      require(number_of(field, "trainer_spec.treat_whitespace_as_suffix") == 0, ExitCode::data,
              "trainer_spec.treat_whitespace_as_suffix is not understood");
    } else if (field.number == 35) {
      proto.byte_fallback = number_of(field, "trainer_spec.byte_fallback") != 0;
    } else if (field.number == 44) {
      proto.unknown_surface = text_of(field, "trainer_spec.unk_surface");
      require(proto.unknown_surface.size() <= longest_rule_text, ExitCode::data,
              "trainer_spec.unk_surface has {} bytes; want at most {}", proto.unknown_surface.size(),
              longest_rule_text);
    }
  });
}

void read_normalizer_spec(std::string_view bytes, SentencePieceProto& proto) {
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 2) proto.charsmap = text_of(field, "normalizer_spec.precompiled_charsmap");
    if (field.number == 3) proto.add_dummy_prefix = number_of(field, "add_dummy_prefix") != 0;
    if (field.number == 4) proto.remove_extra_whitespaces = number_of(field, "remove_extra_whitespaces") != 0;
    if (field.number == 5)
      require(number_of(field, "escape_whitespaces") != 0, ExitCode::data,
              "normalizer_spec.escape_whitespaces = false is not understood");
  });
}

void check_denormalizer(std::string_view bytes) {
  for_each_field(bytes, [](const Field& field) {
    require(field.number != 2 || text_of(field, "denormalizer_spec").empty(), ExitCode::data,
            "a denormalizer is not understood");
  });
}

}  // namespace

SentencePieceProto read_sentencepiece_proto(std::string_view bytes) {
  SentencePieceProto proto;
  for_each_field(bytes, [&](const Field& field) {
    if (field.number == 1) proto.pieces.push_back(read_piece(text_of(field, "pieces"), proto.pieces.size()));
    if (field.number == 2) read_trainer_spec(text_of(field, "trainer_spec"), proto);
    if (field.number == 3) read_normalizer_spec(text_of(field, "normalizer_spec"), proto);
    if (field.number == 5) check_denormalizer(text_of(field, "denormalizer_spec"));
  });
  std::unordered_set<std::string_view> seen;
  std::size_t unknown = 0, fallback = 0;
  for (const auto& piece : proto.pieces) {
    require(seen.insert(piece.text).second, ExitCode::data, "the piece {} is there twice",
            shown_text(piece.text));
    unknown += piece.type == SentencePieceProto::PieceType::unknown;
    fallback += piece.type == SentencePieceProto::PieceType::byte;
  }
  require(unknown == 1, ExitCode::data, "{} pieces of type UNKNOWN; want one", unknown);
  require(fallback == (proto.byte_fallback ? 256 : 0), ExitCode::data, "{} pieces of type BYTE; want {}",
          fallback, proto.byte_fallback ? 256 : 0);
  return proto;
}

}  // namespace mxtape
