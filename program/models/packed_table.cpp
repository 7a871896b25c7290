#include "program/models/packed_table.h"

#include <string>

#include "program/models/tensor_numbers.h"
#include "train/memory/memory_plan.h"

namespace mxtape {
void put_packed_table(Report& out, const PackedModelFile& file) {
  std::int64_t count = 0, vector_bytes = 0, bytes = 0;
  Table& table = out.table("tensors",
                           "name|tensor; packed; format; rotation; |format; shape|shape; "
                           "bits_per_number|bits|>6.2f; bytes|bytes|>12");
  for (const auto& row : file.rows()) {
    const std::string format = row.rotation.empty() ? row.format : row.format + ", " + row.rotation;
    Table::Row& line = table.row(row.name, row.packed, row.format, row.rotation, format,
                                 Value(row.dims, "", indices_text(row.dims)),
                                 8 * double(row.bytes) / double(row.numbers()), row.bytes);
    bytes += row.bytes;
    if (row.dims.size() > 1) continue;
    line.whom = Table::Row::For::programs;
    ++count, vector_bytes += row.bytes;
  }
  if (count)
    table.row(fmt::format("{} norms and biases", count), "", "", "", "f32", "", 32.0, vector_bytes).whom =
        Table::Row::For::people;
  const std::int64_t wide =
      4 * parameter_count(file.header().model.recipe.model);  // as a checkpoint has them
  const double ratio = double(wide) / double(bytes);
  out.line("total   {}, 1/{:.2f} of the {} in f32", bytes_text(double(bytes)), ratio,
           bytes_text(double(wide)));
  out.put("tensor_bytes", bytes, "f32_bytes", wide, "ratio", ratio);
}

}  // namespace mxtape
