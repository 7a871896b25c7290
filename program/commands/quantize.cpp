#include <cmath>

#include "core/files/in_file.h"
#include "data/hdf5/hdf5.h"
#include "data/hdf5/seal.h"
#include "formats/statistics.h"
#include "kernels/choose/make_backend.h"
#include "kernels/mx_transfer.h"
#include "program/commands/tensor_source.h"
#include "program/models/trained_model.h"
#include "program/show/command.h"

namespace mxtape {
namespace {

// The file: datasets codes, scales and, if there are any, offsets; attributes on "/".
constexpr const char* kind = "mxtape packed tensor";

struct Arguments {
  std::string in, out, format = "mxfp4", axis = "cols", device = "cpu";
  std::uint64_t seed = 1;
  bool back = false, force = false;
};

void write_packed(const std::string& path, const MxTensor& t, const std::vector<std::int64_t>& dims) {
  Hdf5Writer writer(path);
  writer.attribute("/", "kind", kind);
  writer.attribute("/", "format", to_text(t.quantizer));
  writer.attribute("/", "axis", t.axis == Axis::column ? "rows" : "cols");
  writer.attribute("/", "rank", std::int64_t(dims.size()));
  for (std::size_t i = 0; i < dims.size(); ++i) writer.attribute("/", fmt::format("dim{}", i), dims[i]);
  writer.attribute("/", "multiplier", double(t.multiplier));
  writer.dataset("codes", {std::int64_t(t.codes.size())}, DType::u8, t.codes.data());
  if (!t.scales.empty())
    writer.dataset("scales", {std::int64_t(t.scales.size())}, DType::u8, t.scales.data());
  if (!t.offsets.empty()) writer.dataset_u16("offsets", t.offsets);
  writer.commit(Seal::yes);
}

MxTensor read_packed(const std::string& path, std::vector<std::int64_t>& dims) {
  verify_seal(path);
  const Hdf5Reader reader(path);
  const auto found = reader.find_text_attribute("/", "kind");
  require(found == kind, ExitCode::data,
          "{}: not a packed tensor (kind is '{}'); want a file that mxtape quantize made", path,
          found.value_or(""));
  MxTensor t;
  t.quantizer = parse_quantizer(reader.text_attribute("/", "format"));
  t.axis = reader.text_attribute("/", "axis") == "rows" ? Axis::column : Axis::row;
  t.multiplier = float(reader.real_attribute("/", "multiplier"));
  const std::int64_t rank = reader.int_attribute("/", "rank");
  std::int64_t count = 1;
  for (std::int64_t i = 0; i < rank; ++i) {
    dims.push_back(reader.int_attribute("/", fmt::format("dim{}", i)));
    require(dims.back() > 0 && !__builtin_mul_overflow(count, dims.back(), &count), ExitCode::data,
            "{}: dim{} is {}", path, i, dims.back());
  }
  t.cols = dims.empty() ? 1 : dims.back(), t.rows = count / t.cols;
  t.codes = reader.read_u8("codes");
  if (reader.has("scales")) t.scales = reader.read_u8("scales");
  if (reader.has("offsets")) t.offsets = reader.read_u16("offsets");
  return t;
}

Report quantize(const Arguments& options, bool seeded) {
  const Quantizer q = parse_quantizer(options.format);
  require(!seeded || q.is_stochastic(), ExitCode::usage,
          "quantize: --seed has no effect: '{}' draws no numbers; want round=stochastic, or no seed",
          to_text(q));
  require(is_hdf5(options.out), ExitCode::usage, "{}: want FILE.h5 for the packed tensor", options.out);
  require_output(options.out, {file_of(options.in)}, options.force);
  const auto backend = make_backend(options.device);
  const HostTensor x = load_tensor(options.in);
  const Axis axis = options.axis == "rows" ? Axis::column : Axis::row;
  const DrawKey key{options.seed};
  const MxTensor packed =
      in_file(x.name, [&] { return pack(*backend, x.values.data(), x.rows(), x.cols(), axis, q, key); });
  write_packed(options.out, packed, x.dims);
  const ErrorStatistics s = error_statistics(x.values.data(), x.rows(), x.cols(), axis, q, key);
  const std::size_t wide = x.values.size() * sizeof(float);
  const bool known = s.nonfinite < s.count;
  Report out;
  out.line("{} -> {}: {}, {} bytes in {} blocks for {} of f32 ({:.2f}x), SQNR {}", x.name, options.out,
           to_text(q), packed.bytes(), s.blocks, wide, double(wide) / double(packed.bytes()),
           known ? fmt::format("{:.2f} dB", s.sqnr_db()) : "-");
  if (s.nonfinite > 0) out.line("      {} elements not finite, left out of the SQNR", s.nonfinite);
  out.put("in", x.name, "out", options.out, "format", to_text(q), "elements", x.values.size(), "bytes",
          packed.bytes(), "f32_bytes", wide, "blocks", s.blocks);
  out.put("sqnr_db", Value(known ? s.sqnr_db() : NAN, known ? "no element changed" : "no element is finite"),
          "not_finite", s.nonfinite);
  return out;
}

Report unpack_file(const Arguments& options) {
  require_output(file_of(options.out), {options.in}, options.force);
  require_target(options.out);
  const auto backend = make_backend(options.device);
  HostTensor y{options.out, {}, {}};
  const MxTensor t = read_packed(options.in, y.dims);
  // Each element takes at least a bit: a header that promises more than the file holds fails before memory is
  // taken for it.
  require(t.rows * t.cols <= std::int64_t(t.codes.size()) * 8, ExitCode::data,
          "{}: {} bytes of codes for {} elements", options.in, t.codes.size(), t.rows * t.cols);
  y.values = unpacked(*backend, t);
  save_tensor(options.out, y);
  Report out;
  out.line("{} -> {}: {} elements of {}", options.in, options.out, y.values.size(), to_text(t.quantizer));
  out.put("in", options.in, "out", options.out, "format", to_text(t.quantizer), "elements", y.values.size());
  return out;
}

Options options(Arguments& a) {
  return {{"IN", &a.in, fmt::format("{}; with --back a packed file", tensor_names)},
          {"OUT", &a.out, "The packed HDF5 file; with --back FILE.npy or FILE.h5:/dataset"},
          {"--format", &a.format, "A format, as in recipes"},
          {"--axis", &a.axis, "Blocks run along cols (inside a row) or down rows", one_of("cols rows")},
          {"--seed", &a.seed, "Of stochastic rounding"},
          {"--device", &a.device, "cpu or cuda: who packs or unpacks; the bytes are the same"},
          {"--force", &a.force, "Write over a file that is there"},
          {"--back", &a.back, "Unpack IN into plain f32 numbers", excludes("--format --axis --seed")}};
}

Report run(const Arguments& a, const Given& given) {
  return a.back ? unpack_file(a) : quantize(a, given("--seed"));
}

}  // namespace

Command commands::quantize() {
  return {"quantize", "Pack a tensor into an MX format in an HDF5 file, and back", with(options, run)};
}

}  // namespace mxtape
