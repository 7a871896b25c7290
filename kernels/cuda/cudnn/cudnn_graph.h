#pragma once
#include <array>
#include <initializer_list>
#include <optional>
#include <vector>

#include "kernels/cuda/cudnn/cudnn_library.h"

namespace mxtape::cuda::cudnn {

/// One of cuDNN's descriptors, destroyed with this. The library must live longer.
class Descriptor {
 public:
  Descriptor(const Library&, cudnnBackendDescriptorType_t);
  Descriptor(Descriptor&& other) noexcept;
  Descriptor& operator=(Descriptor&& other) noexcept;
  ~Descriptor();

  template <class T>
  void set(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const T& value) {
    set_values(name, type, 1, &value);
  }
  template <class List>
  void set_list(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type, const List& values) {
    set_values(name, type, std::int64_t(std::size(values)), std::data(values));
  }
  void set(cudnnBackendAttributeName_t name, const Descriptor& other) {
    set(name, CUDNN_TYPE_BACKEND_DESCRIPTOR, other.raw_);
  }
  /// Throws Error(resource) if cuDNN cannot do what the attributes say; `what` names it.
  void finalize(const char* what);
  cudnnBackendDescriptor_t raw() const { return raw_; }
  const Library& library() const { return *library_; }

 private:
  void set_values(cudnnBackendAttributeName_t, cudnnBackendAttributeType_t, std::int64_t, const void*);
  const Library* library_;
  cudnnBackendDescriptor_t raw_ = nullptr;
};

/// Extents and strides in elements of a tensor [B, H, rows, cols].
struct Layout {
  std::array<std::int64_t, 4> extents, strides;
  /// Rows and columns exchanged, the same memory.
  Layout turned() const;
  bool operator==(const Layout&) const = default;
};
/// Without gaps: [B, H, rows, cols].
Layout dense(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t cols);

/// A tensor of a Graph, by its place there.
struct Value {
  std::size_t index;
};
/// Where a result goes: to a new value inside the kernel, of a type, or to a tensor in memory.
struct Target {
  cudnnDataType_t type = CUDNN_DATA_FLOAT;
  std::optional<Value> stored;
  Target() = default;
  Target(cudnnDataType_t t) : type(t) {}
  Target(Value v) : stored(v) {}
};

/// A graph of operations, which cuDNN matches against the patterns that it has kernels for. Values are f32
/// and exist inside the kernel only, unless said otherwise. Source: cuDNN's documentation, "Graph API".
class Graph {
 public:
  explicit Graph(const Library& library) : library_(library) {}

  /// A tensor in device memory. Plan::run takes pointers in the order of the calls of this and of scalar().
  Value stored(const Layout&, cudnnDataType_t = CUDNN_DATA_BFLOAT16);
  /// An f32 number in host memory, read when the plan runs.
  Value scalar();

  /// Neighbouring heads of a share one of b, if b has fewer.
  Value matmul(Value a, Value b, Target = {});
  /// y = mode(inputs...), of the shape of inputs[0]; scalars and single columns are repeated.
  Value pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> inputs, Target = {});
  /// The index along `axis` of each element of `like`, i32.
  Value index(Value like, std::int64_t axis);
  /// a >= b, for pointwise(CUDNN_POINTWISE_BINARY_SELECT, {where_true, where_false, this}).
  Value at_least(Value a, Value b);
  /// Along the last axis, to a single column; or over the axes on which a stored target is shorter, groups of
  /// neighbours to one.
  Value reduce(cudnnReduceTensorOp_t, Value x, Target = {});
  /// Rows and columns exchanged, rounded to a type.
  Value turned(Value x, cudnnDataType_t);

  /// Throws Error(resource) if cuDNN does not know the operations.
  Descriptor finalized() const;
  /// Numbers of the stored tensors and scalars, in the order of their calls.
  const std::vector<std::int64_t>& stored_ids() const { return stored_ids_; }
  const Library& library() const { return library_; }

 private:
  struct Tensor {
    Descriptor descriptor;
    Layout layout;
  };
  enum class Place { memory, kernel, host };
  Value add_tensor(const Layout&, cudnnDataType_t, Place);
  /// Where the target says, or a new value of the layout.
  Value place(const Layout&, const Target&);
  struct Operand {
    cudnnBackendAttributeName_t name;
    Value value;
  };
  void add_operation(Descriptor operation, const std::vector<Operand>&, const char* what);
  Descriptor pointwise_parameters(cudnnPointwiseMode_t, cudnnDataType_t) const;
  Value add_pointwise(Descriptor parameters, std::initializer_list<Value> inputs, const Target&);
  const Layout& layout(Value v) const { return tensors_[v.index].layout; }

  const Library& library_;
  std::vector<Tensor> tensors_;
  std::vector<Descriptor> parameters_, operations_;
  std::vector<std::int64_t> stored_ids_;
};

}  // namespace mxtape::cuda::cudnn
