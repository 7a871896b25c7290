#include "data/tokenizers/sentencepiece/sentencepiece_tokenizer.h"

#include <algorithm>

#include "core/files/in_file.h"
#include "core/text/base64.h"
#include "data/tokenizers/bpe/bpe_model.h"
#include "data/tokenizers/text/utf8.h"

namespace mxtape {
namespace {

using Type = SentencePieceProto::PieceType;

PieceTrie user_defined(const SentencePieceProto& proto) {
  PieceTrie trie;
  for (std::size_t id = 0; id < proto.pieces.size(); ++id)
    if (proto.pieces[id].type == Type::user_defined) trie.insert(proto.pieces[id].text, std::int32_t(id));
  return trie;
}

}  // namespace

SentencePieceTokenizer::SentencePieceTokenizer(std::string model)
    : model_(std::move(model)),
      proto_(at_place("not a SentencePiece model that mxtape understands",
                      [&] { return read_sentencepiece_proto(model_); })),
      kept_(user_defined(proto_)),
      normalizer_(proto_, kept_) {
  if (proto_.type == SentencePieceProto::ModelType::bpe)
    merges_.emplace(proto_);
  else
    unigram_.emplace(proto_);
  bool has_blank = false, lead = true;
  for (std::size_t id = 0; id < proto_.pieces.size(); ++id) {
    const auto& piece = proto_.pieces[id];
    if (piece.type == Type::unknown) unknown_ = std::int32_t(id);
    if (piece.type == Type::byte) {
      int byte = -1;
      for (int b = 0; b < 256 && byte < 0; ++b)
        if (piece.text == fmt::format("<0x{:02X}>", b)) byte = b;
      require(byte >= 0, ExitCode::data, "piece {} of type BYTE is {}; want <0x00> to <0xFF>", id,
              shown_text(piece.text));
      of_byte_[byte] = std::int32_t(id);
    }
    if (piece.type != Type::normal && piece.type != Type::user_defined) continue;
    has_blank |= piece.text == blank_mark;
    lead &= marks_lead(piece.text);
  }
  cuts_before_blanks_ = has_blank && lead;
}

std::string SentencePieceTokenizer::text() const {
  return fmt::format("{} tokens, SentencePiece {}", size(), merges_ ? "BPE" : "unigram");
}
std::string SentencePieceTokenizer::to_json() const {
  return R"({"kind":"sentencepiece","model":")" + to_base64(model_) + R"("})";
}
std::string SentencePieceTokenizer::shown(std::int32_t token) const {
  return shown_text(proto_.pieces[std::size_t(token)].text);
}
std::int32_t SentencePieceTokenizer::special(std::string_view content) const {
  for (std::size_t id = 0; id < proto_.pieces.size(); ++id)
    if (proto_.pieces[id].type == Type::control && proto_.pieces[id].text == content) return std::int32_t(id);
  return -1;
}

void SentencePieceTokenizer::encode_part(std::string_view text, WordCache& cache,
                                         std::vector<std::int32_t>& tokens) const {
  bool unknown_before = false;
  const auto append = [&](std::string_view piece, std::int32_t id, std::vector<std::int32_t>& out) {
    if (id >= 0) {
      out.push_back(id);
    } else if (proto_.byte_fallback) {
      for (const char b : piece) out.push_back(of_byte_[static_cast<unsigned char>(b)]);
    } else if (!unknown_before) {
      out.push_back(unknown_);
    }
    unknown_before = id < 0;
  };
  if (unigram_) {
    for (const auto& [piece, id] : unigram_->best(text)) append(piece, id, tokens);
    return;
  }
  const auto encode = [&](std::string_view word, std::vector<std::int32_t>& out) {
    unknown_before = false;
    merges_->encode(word, kept_, [&](const PieceMerges::Piece& p) { append(p.text, p.id, out); });
  };
  if (!cuts_before_blanks_) return encode(text, tokens);
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = next_marked_word(text, at);
    cache.append(text.substr(at, end - at), tokens, encode);
    at = end;
  }
}

std::vector<std::int32_t> SentencePieceTokenizer::encode(std::string_view text, SpecialTokens) const {
  require_utf8(text);
  const std::string whole = normalizer_.normalized(text, kept_);
  std::vector<TextPart> parts;
  append_parts(parts, {.text = whole}, [&](std::string_view part, std::size_t at) {
    return cuts_before_blanks_ && part.substr(at).starts_with(blank_mark) &&
           !part.substr(0, at).ends_with(blank_mark);
  });
  return encode_parts(parts, [&](const TextPart& part, WordCache& cache, std::vector<std::int32_t>& tokens) {
    encode_part(part.text, cache, tokens);
  });
}

void SentencePieceTokenizer::decode(std::int32_t token, DecodeState& state, std::string& text) const {
  const auto& piece = proto_.pieces[std::size_t(token)];
  if (piece.type == Type::control) return;
  if (piece.type == Type::byte) {
    const auto byte = std::find(std::begin(of_byte_), std::end(of_byte_), token) - std::begin(of_byte_);
    text += char(byte);
    state.at_start = false;
    return;
  }
  if (piece.type == Type::unknown) {
    text += proto_.unknown_surface;
    state.at_start = false;
    return;
  }
  std::string_view rest = piece.text;
  const bool trims = proto_.add_dummy_prefix || proto_.remove_extra_whitespaces;
  bool took = false;
  if (state.at_start && trims && rest.starts_with(blank_mark)) {
    rest.remove_prefix(blank_mark.size());
    took =
        !proto_.remove_extra_whitespaces;  // else blanks go on being taken away until something was written
  }
  if (took || !rest.empty()) state.at_start = false;
  std::string shown(rest);
  replace_all(shown, blank_mark, " ");
  text += shown;
}

}  // namespace mxtape
