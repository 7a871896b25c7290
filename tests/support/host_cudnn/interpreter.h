#pragma once
#include <cudnn_backend.h>

#include <array>
#include <cmath>
#include <cstring>
#include <map>
#include <memory>
#include <stdexcept>
#include <vector>

#include "core/bf16.h"

namespace mxtape::host_cudnn {

using Extents = std::array<std::int64_t, 4>;

/// A descriptor.
struct Node {
  cudnnBackendDescriptorType_t type;
  std::map<int, std::vector<unsigned char>> values;              // by attribute, as they were set
  std::map<int, std::vector<std::shared_ptr<Node>>> references;  // to other descriptors
  bool finalized = false;

  template <class T>
  T get(cudnnBackendAttributeName_t name) const {
    T value{};
    const auto& bytes = values.at(name);
    if (bytes.size() != sizeof value) throw std::runtime_error("an attribute of another size");
    std::memcpy(&value, bytes.data(), sizeof value);
    return value;
  }
  template <class T>
  std::vector<T> list(cudnnBackendAttributeName_t name) const {
    const auto& bytes = values.at(name);
    std::vector<T> items(bytes.size() / sizeof(T));
    std::memcpy(items.data(), bytes.data(), bytes.size());
    return items;
  }
  const Node& at(cudnnBackendAttributeName_t name) const { return *references.at(name).front(); }
  bool has(cudnnBackendAttributeName_t name) const { return references.count(name) != 0; }
};

/// A tensor of a graph that runs: numbers by their offset, which strides give.
class View {
 public:
  View(const Node& tensor, std::map<std::int64_t, void*>& memory,
       std::map<std::int64_t, std::vector<double>>& inside)
      : extents(tensor.get<Extents>(CUDNN_ATTR_TENSOR_DIMENSIONS)),
        strides_(tensor.get<Extents>(CUDNN_ATTR_TENSOR_STRIDES)),
        type_(tensor.get<cudnnDataType_t>(CUDNN_ATTR_TENSOR_DATA_TYPE)) {
    const auto id = tensor.get<std::int64_t>(CUDNN_ATTR_TENSOR_UNIQUE_ID);
    if (!tensor.get<bool>(CUDNN_ATTR_TENSOR_IS_VIRTUAL)) {
      memory_ = memory.at(id);
      return;
    }
    std::int64_t last = 0;
    for (std::size_t i = 0; i < 4; ++i) last += (extents[i] - 1) * strides_[i];
    inside_ = &inside[id];
    inside_->resize(std::size_t(last + 1));
  }
  /// Axes of one element are repeated.
  double operator()(const Extents& i) const { return at(offset(i)); }
  double at(std::size_t offset) const {
    if (inside_) return inside_->at(offset);
    if (type_ == CUDNN_DATA_FLOAT) return static_cast<const float*>(memory_)[offset];
    return mxtape::to_f32(static_cast<const mxtape::bf16*>(memory_)[offset]);
  }
  void set(const Extents& i, double value) const {
    const auto narrow = mxtape::to_bf16(float(value));
    if (inside_)
      inside_->at(offset(i)) = type_ == CUDNN_DATA_BFLOAT16 ? mxtape::to_f32(narrow) : value;
    else if (type_ == CUDNN_DATA_FLOAT)
      static_cast<float*>(memory_)[offset(i)] = float(value);
    else
      static_cast<mxtape::bf16*>(memory_)[offset(i)] = narrow;
  }
  std::size_t offset(const Extents& i) const {
    std::int64_t sum = 0;
    for (std::size_t axis = 0; axis < 4; ++axis) sum += extents[axis] == 1 ? 0 : i[axis] * strides_[axis];
    return std::size_t(sum);
  }
  Extents extents;

 private:
  Extents strides_;
  cudnnDataType_t type_;
  void* memory_ = nullptr;
  std::vector<double>* inside_ = nullptr;
};

template <class Body>
void for_all(const Extents& n, const Body& body) {
  Extents i;
  for (i[0] = 0; i[0] < n[0]; ++i[0])
    for (i[1] = 0; i[1] < n[1]; ++i[1])
      for (i[2] = 0; i[2] < n[2]; ++i[2])
        for (i[3] = 0; i[3] < n[3]; ++i[3]) body(i);
}

inline double apply(cudnnPointwiseMode_t mode, double x, double b, double t) {
  switch (mode) {
    case CUDNN_POINTWISE_ADD:
      return x + b;
    case CUDNN_POINTWISE_SUB:
      return x - b;
    case CUDNN_POINTWISE_MUL:
      return x * b;
    case CUDNN_POINTWISE_DIV:
      return x / b;
    case CUDNN_POINTWISE_EXP:
      return std::exp(x);
    case CUDNN_POINTWISE_LOG:
      return std::log(x);
    case CUDNN_POINTWISE_CMP_GE:
      return x >= b;
    case CUDNN_POINTWISE_BINARY_SELECT:
      return t != 0 ? x : b;
    default:
      throw std::runtime_error("an operation that is not here");
  }
}

template <class Open>
void run_pointwise(const Node& operation, const Open& open) {
  const Node& parameters = operation.at(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR);
  const auto mode = parameters.get<cudnnPointwiseMode_t>(CUDNN_ATTR_POINTWISE_MODE);
  const View y = open(operation, CUDNN_ATTR_OPERATION_POINTWISE_YDESC);
  if (mode == CUDNN_POINTWISE_GEN_INDEX) {
    const auto axis = std::size_t(parameters.get<std::int64_t>(CUDNN_ATTR_POINTWISE_AXIS));
    for_all(y.extents, [&](const Extents& i) { y.set(i, double(i[axis])); });
    return;
  }
  std::vector<View> inputs;
  for (const auto name : {CUDNN_ATTR_OPERATION_POINTWISE_XDESC, CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                          CUDNN_ATTR_OPERATION_POINTWISE_TDESC})
    if (operation.has(name)) inputs.push_back(open(operation, name));
  const auto input = [&](std::size_t n, const Extents& i) { return n < inputs.size() ? inputs[n](i) : 0; };
  for_all(y.extents, [&](const Extents& i) { y.set(i, apply(mode, input(0, i), input(1, i), input(2, i))); });
}

template <class Open>
void run_matmul(const Node& operation, const Open& open) {
  const View a = open(operation, CUDNN_ATTR_OPERATION_MATMUL_ADESC);
  const View b = open(operation, CUDNN_ATTR_OPERATION_MATMUL_BDESC);
  const View c = open(operation, CUDNN_ATTR_OPERATION_MATMUL_CDESC);
  if (a.extents[3] != b.extents[2]) throw std::runtime_error("a product of extents that do not fit");
  const std::int64_t group = a.extents[1] / b.extents[1];
  for_all(c.extents, [&](const Extents& i) {
    double sum = 0;
    for (std::int64_t k = 0; k < a.extents[3]; ++k)
      sum += a({i[0], i[1], i[2], k}) * b({i[0], i[1] / group, k, i[3]});
    c.set(i, sum);
  });
}

template <class Open>
void run_reduction(const Node& operation, const Open& open) {
  const auto kind = operation.at(CUDNN_ATTR_OPERATION_REDUCTION_DESC)
                        .get<cudnnReduceTensorOp_t>(CUDNN_ATTR_REDUCTION_OPERATOR);
  const View x = open(operation, CUDNN_ATTR_OPERATION_REDUCTION_XDESC);
  const View y = open(operation, CUDNN_ATTR_OPERATION_REDUCTION_YDESC);
  for_all(y.extents, [&](const Extents& i) {
    double sum = 0, top = -INFINITY;
    Extents group;
    for (std::size_t axis = 0; axis < 4; ++axis) group[axis] = x.extents[axis] / y.extents[axis];
    for_all(group, [&](const Extents& k) {
      const double value =
          x({i[0] * group[0] + k[0], i[1] * group[1] + k[1], i[2] * group[2] + k[2], i[3] * group[3] + k[3]});
      sum += value, top = std::fmax(top, value);
    });
    y.set(i, kind == CUDNN_REDUCE_TENSOR_MAX ? top : sum);
  });
}

/// The same memory, seen with other extents and strides.
template <class Open>
void run_reshape(const Node& operation, const Open& open) {
  const View x = open(operation, CUDNN_ATTR_OPERATION_RESHAPE_XDESC);
  const View y = open(operation, CUDNN_ATTR_OPERATION_RESHAPE_YDESC);
  for_all(y.extents, [&](const Extents& i) { y.set(i, x.at(y.offset(i))); });
}

/// Runs the operations of a graph in their order, each by its definition, in double.
inline void run(const Node& graph, std::map<std::int64_t, void*> memory) {
  std::map<std::int64_t, std::vector<double>> inside;
  const auto open = [&](const Node& operation, cudnnBackendAttributeName_t name) {
    return View(operation.at(name), memory, inside);
  };
  for (const auto& operation : graph.references.at(CUDNN_ATTR_OPERATIONGRAPH_OPS)) switch (operation->type) {
      case CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR:
        run_matmul(*operation, open);
        break;
      case CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR:
        run_pointwise(*operation, open);
        break;
      case CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR:
        run_reduction(*operation, open);
        break;
      case CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR:
        run_reshape(*operation, open);
        break;
      default:
        throw std::runtime_error("a descriptor that is no operation");
    }
}

}  // namespace mxtape::host_cudnn
