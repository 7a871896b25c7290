#include "autograd/linear_operands.h"
#include "kernels/calls_rows.h"
#include "optim/adamw.h"

namespace mxtape {

void AdamW::follow_up(const Parameter& p) {
  if (keeps_averages() && p.average) backend_.run(call::WeightAverage{p.average, p.value, factor_, average_});
  make_again(backend_, p);
}

}  // namespace mxtape
