#include "data/hdf5/token_ids.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <limits>

#include "core/error.h"
#include "core/files/atomic_file.h"

namespace mxtape {
namespace {

static_assert(std::endian::native == std::endian::little, "ids are copied as they lie in the file");

/// llm.c's files begin with 256 i32: magic, version, number of tokens, then nothing of meaning for tokens.
/// Source: write_datafile in dev/data/data_common.py and llmc/dataloader.h of github.com/karpathy/llm.c.
struct Header {
  std::int32_t magic, version;
  int bits;
};
constexpr Header gpt2_header{20240520, 1, 16}, llama3_header{20240801, 7, 32};
constexpr std::int32_t evaluation_magic = 20240522;  // HellaSwag and MMLU: questions, no stream of tokens
constexpr std::size_t header_bytes = 256 * sizeof(std::int32_t);

/// True if the file begins with a header, which then fits the file and the format. Ids that look like a magic
/// number are no danger: as 32-bit ids they are beyond every vocabulary, and as a pair of 16-bit ones a
/// version and a count that fit the file would have to follow.
bool has_header(std::span<const std::byte> file, const std::string& path, const IdFormat& format) {
  require(file.size() < 6 || std::memcmp(file.data(), "\x93NUMPY", 6) != 0, ExitCode::data,
          "{}: a file of NumPy; want ids alone, as tofile() writes them", path);
  std::array<std::int32_t, 3> begin{};
  std::memcpy(begin.data(), file.data(), std::min(file.size(), sizeof begin));
  const auto [magic, version, count] = begin;
  require(magic != evaluation_magic, ExitCode::data,
          "{}: has llm.c's header of an evaluation file (magic {}), want one of tokens", path, magic);
  for (const Header& known : {gpt2_header, llama3_header}) {
    if (magic != known.magic) continue;
    require(version == known.version, ExitCode::data, "{}: llm.c's header of version {}, want {}", path,
            version, known.version);
    require(format.bits == known.bits, ExitCode::usage,
            "--tokens u{}: {} has llm.c's header of u{} tokens; want --tokens u{}", format.bits, path,
            known.bits, known.bits);
    const auto wanted = std::int64_t(header_bytes) + std::int64_t(count) * known.bits / 8;
    require(std::int64_t(file.size()) == wanted, ExitCode::data,
            "{}: {} bytes; llm.c's header says {} tokens of {} bits, which makes {}", path, file.size(),
            count, known.bits, wanted);
    return true;
  }
  return false;
}

/// Such ids are all in the vocabulary, and all wrong.
void require_no_halves(std::span<const std::byte> ids, const std::string& path) {
  constexpr std::size_t enough = 64;  // a short text may have a 0 at every second place
  const std::size_t pairs = ids.size() / 4;
  for (std::size_t pair = 0; pair < pairs; ++pair)
    if (ids[4 * pair + 2] != std::byte{0} || ids[4 * pair + 3] != std::byte{0}) return;
  require(pairs < enough, ExitCode::data,
          "{}: read as u16 every second id is 0: these are u32; want --tokens u32", path);
}

template <class Stored, class Kept>
void append(std::vector<Kept>& tokens, std::span<const std::byte> ids, const IdFormat& format,
            IdFile& found) {
  const std::size_t before = tokens.size();
  found.count = std::int64_t(ids.size() / sizeof(Stored));
  tokens.resize(before + std::size_t(found.count));
  for (std::int64_t i = 0; i < found.count; ++i) {
    Stored id;
    std::memcpy(&id, ids.data() + std::size_t(i) * sizeof id, sizeof id);
    require(id < format.vocabulary, ExitCode::data,
            "{}: id {} at position {}, read as u{}; the vocabulary has {}", found.path, id, i, format.bits,
            format.vocabulary);
    found.largest = std::max<std::int64_t>(found.largest, id);
    tokens[before + std::size_t(i)] = Kept(id);
  }
}

IdFile append_file(Split& split, const std::string& path, const IdFormat& format) {
  const auto file = read_whole(path);
  require(!file.empty(), ExitCode::data, "{}: is empty, want token ids", path);
  IdFile found{.path = path, .header = has_header(file, path, format)};
  const auto ids = std::span(file).subspan(found.header ? header_bytes : 0);
  const std::size_t width = std::size_t(format.bits) / 8;
  require(!ids.empty(), ExitCode::data, "{}: holds a header and no token ids", path);
  require(ids.size() % width == 0, ExitCode::data,
          "{}: {} bytes are no multiple of {}: the file was cut, or holds no u{} ids", path, ids.size(),
          width, format.bits);
  if (format.bits == 16) require_no_halves(ids, path);
  const bool narrow = format.vocabulary <= Split::narrow_vocabulary;
  if (format.bits == 16)
    append<std::uint16_t>(split.narrow, ids, format, found);
  else if (narrow)
    append<std::uint32_t>(split.narrow, ids, format, found);
  else
    append<std::uint32_t>(split.wide, ids, format, found);
  return found;
}

}  // namespace

Split read_ids(std::span<const std::string> files, const IdFormat& format,
               const std::function<void(const IdFile&)>& on_file) {
  require(format.bits == 32 || format.vocabulary <= Split::narrow_vocabulary, ExitCode::usage,
          "--tokens u16: ids of 16 bits end at {}, the vocabulary has {}; want u32",
          Split::narrow_vocabulary - 1, format.vocabulary);
  std::uintmax_t bytes = 0;
  for (const auto& path : files) {
    std::error_code unknown;  // read_whole says what is wrong with a file that has no size
    const auto size = std::filesystem::file_size(path, unknown);
    bytes += unknown ? 0 : size;
  }
  // Room at once: a vector that grows by doubling holds the tokens three times while it moves.
  const auto most = std::size_t(bytes) / (std::size_t(format.bits) / 8);
  Split split;
  if (format.vocabulary <= Split::narrow_vocabulary)
    split.narrow.reserve(most);
  else
    split.wide.reserve(most);
  for (const auto& path : files) on_file(append_file(split, path, format));
  return split;
}

void write_ids(const std::filesystem::path& path, std::span<const std::int32_t> ids, int bits,
               bool llmc_header) {
  std::string file;
  if (llmc_header) {
    constexpr auto most = std::size_t(std::numeric_limits<std::int32_t>::max());
    require(ids.size() <= most, ExitCode::usage, "--llmc-header: {} ids; the header counts up to {}",
            ids.size(), most);
    const Header& known = bits == 16 ? gpt2_header : llama3_header;
    std::array<std::int32_t, header_bytes / 4> header{known.magic, known.version, std::int32_t(ids.size())};
    file.assign(reinterpret_cast<const char*>(header.data()), header_bytes);
  }
  file.reserve(file.size() + ids.size() * std::size_t(bits) / 8);
  for (const std::int32_t id : ids) file.append(reinterpret_cast<const char*>(&id), std::size_t(bits) / 8);
  write_atomically(path, std::string_view(file));
}

}  // namespace mxtape
