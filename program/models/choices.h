#pragma once
#include "program/models/trained_model.h"
#include "program/show/report.h"

namespace mxtape {

/// Scores contexts with continuations, of which a model likes one best, and last words: log-likelihoods and
/// accuracies as EleutherAI's lm-evaluation-harness counts them (its _encode_pair, process_results), a row of
/// the report for each precision. `file`: JSON objects, one a line (docs/eval.md). A pass for each
/// continuation, so that none depends on others. Throws Error(data) with the line for what is missing,
/// unknown or wrong, for what the tokenizer cannot encode and for a continuation longer than the context.
Scoring choices_to_score(const TrainedModel&, const std::string& file, Report&);

}  // namespace mxtape
