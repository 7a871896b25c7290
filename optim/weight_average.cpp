#include "optim/weight_average.h"

#include "autograd/linear_operands.h"
#include "kernels/calls_rows.h"
#include "optim/adamw.h"

namespace mxtape {

void begin_averages(Backend& backend, std::span<Parameter* const> parameters, bool all) {
  for (Parameter* p : parameters) {
    if (all && p->decay && !p->average) p->average = backend.empty(p->value.shape());
    if (p->average) backend.copy(p->average, p->value);
  }
}

void AdamW::follow_up(const Parameter& p) {
  if (keeps_averages() && p.average) backend_.run(call::WeightAverage{p.average, p.value, factor_, average_});
  make_again(backend_, p);
}

}  // namespace mxtape
