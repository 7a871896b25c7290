#pragma once
#include <exception>
#include <functional>
#include <memory>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "autograd/parameter.h"
#include "autograd/saved.h"
#include "kernels/backend.h"

namespace mxtape {

/// Where a gradient is collected on a tape.
using GradIndex = int;
inline constexpr GradIndex no_grad = -1;

/// A value during the forward pass. `grad` says where its gradient will go.
struct Var {
  Tensor value{};
  GradIndex grad = no_grad;
};

class Tape;

/// One recorded operation. Its fields are exactly what backward needs, under their names.
class Node {
 public:
  virtual ~Node() = default;
  virtual const char* name() const = 0;
  /// Adds the inputs' gradients to what they have got. dy may be written to if dy.unique().
  virtual void backward(Tape&, Tensor dy) = 0;
  /// True if later ops keep neither this op's result nor copies of it for backward, but call recompute().
  virtual bool recomputes() const { return false; }
  /// The op's result again, the same bits, from what its node keeps. Only before its backward().
  virtual Tensor recompute(Tape&) const { fail(ExitCode::internal, "tape: '{}' does not recompute", name()); }
};

/// Which pass of which run: the part of every random draw's key that layers do not know.
struct PassKey {
  std::uint64_t seed = 0;
  std::uint32_t step = 0;      ///< (optimizer_step * strands + strand) * accumulation + micro_step
  std::int64_t first_row = 0;  ///< where this batch begins in a larger one; 0 in training
};

/// The operations of one forward pass, in the order they ran. Running them in reverse is the backward pass:
/// an op only reads values made before it, so no sort is needed.
class Tape {
 public:
  enum class Mode : std::uint8_t { training, evaluation };

  Tape(Backend& backend, Mode mode, PassKey pass = {}, const Kept& kept = {})
      : kept(kept), backend_(backend), mode_(mode), pass_(pass) {}
  Tape(const Tape&) = delete;

  Backend& backend() const { return backend_; }
  /// True in training: nodes are recorded and dropout drops.
  bool training() const { return mode_ == Mode::training; }
  const PassKey& pass() const { return pass_; }
  bool recomputes(Recompute op) const { return (std::uint8_t(kept.recompute) & std::uint8_t(op)) != 0; }
  Kept kept;  ///< of what is recorded from here on
  DrawKey key(Purpose, std::uint32_t tensor_id, std::int64_t row_elements) const;

  /// For as long as it lives, what the tape computes and records belongs to the layer `name`, which outlives
  /// the tape. An error leaves the name where it was: place() says where it happened.
  class Layer {
   public:
    Layer(Tape& tape, const std::string& name) : tape_(tape), outer_(tape.layer_) { tape.enter(&name); }
    Layer(const Layer&) = delete;
    ~Layer() {
      if (!std::uncaught_exceptions()) tape_.enter(outer_);
    }

   private:
    Tape& tape_;
    const std::string* outer_;
  };
  /// The layer that is being computed, for reports: "blocks.3.mlp.up, backward"; empty if none has a name.
  std::string place() const;

  /// A parameter as an input: its gradient goes to Parameter::grad.
  GradIndex watch(Parameter&);
  /// An input that is no parameter but wants a gradient, for tests and probes; read it with gradient().
  Var input(Tensor value);
  Tensor gradient(const Var&) const;

  /// Appends `node`, which computed y, if one of `inputs` wants a gradient.
  Var record(Tensor y, std::initializer_list<GradIndex> inputs, std::unique_ptr<Node> node);
  /// True if record() would keep a node with these inputs: else there is nothing to save.
  bool wants(std::initializer_list<GradIndex> inputs) const;

  /// The node that computed a value, while it is on the tape; null for inputs and parameters.
  const Node* producer(GradIndex) const;

  /// Adds a gradient contribution. A value's first one is kept, not copied, so its storage may be shared
  /// with another gradient (x + y hands dy to both): then the sum goes elsewhere.
  void add(GradIndex, Tensor dy);
  /// Takes out what a value's gradient has got so far, or nothing. For ops that add it to their own share in
  /// one pass, and then add() the sum.
  Tensor take(GradIndex);
  /// For ops that write a parameter's gradient themselves (a GEMM that accumulates): the tensor to write and
  /// whether it already holds a sum. Only for indices made by watch().
  struct Target {
    Tensor grad;
    Write write;
  };
  Target target(GradIndex);

  /// Adds d(loss)/d(parameter) to the grad of every watched parameter. Frees each node after its use.
  void backward(const Var& loss);
  /// Called in backward() after each node, with the parameters whose gradients are complete now: those whose
  /// first use in the forward pass was this node.
  std::function<void(std::span<Parameter* const> complete)> after_node{};
  /// True if dy is the 1 that backward() starts from, handed down unchanged.
  bool is_seed(const Tensor& dy) const { return seed_ && dy.raw() == seed_.raw(); }

 private:
  struct Entry {
    std::unique_ptr<Node> node;
    GradIndex grad;
    const std::string* layer;
  };
  void enter(const std::string* layer) {
    layer_ = layer;
    backend_.enter(layer ? std::string_view(*layer) : std::string_view(), backward_);
  }

  Backend& backend_;
  Mode mode_;
  PassKey pass_;
  std::vector<Entry> nodes_;
  std::vector<Tensor> grads_;           // by grad, for values
  std::vector<Parameter*> parameters_;  // by grad, null for values
  std::set<Parameter*> watched_;
  std::vector<std::pair<std::size_t, Parameter*>> first_uses_;  // by number of node, none before it
  Tensor seed_;                                                 // d(loss)/d(loss)
  const std::string* layer_ = nullptr;                          // being computed
  bool backward_ = false;                                       // in backward()
};

}  // namespace mxtape
