#include "kernels/cuda/cudnn/cudnn_graph.h"

#include <utility>

namespace mxtape::cuda::cudnn {

Descriptor::Descriptor(const Library& library, cudnnBackendDescriptorType_t type) : library_(&library) {
  library.check(library.create_descriptor(type, &raw_), "creating a descriptor");
}
Descriptor::Descriptor(Descriptor&& other) noexcept
    : library_(other.library_), raw_(std::exchange(other.raw_, nullptr)) {}
Descriptor& Descriptor::operator=(Descriptor&& other) noexcept {
  std::swap(library_, other.library_), std::swap(raw_, other.raw_);
  return *this;
}
Descriptor::~Descriptor() {
  if (raw_) library_->destroy_descriptor(raw_);
}

void Descriptor::set_values(cudnnBackendAttributeName_t name, cudnnBackendAttributeType_t type,
                            std::int64_t count, const void* values) {
  library_->check(library_->set_attribute(raw_, name, type, count, values), "setting an attribute");
}

void Descriptor::finalize(const char* what) { library_->check(library_->finalize(raw_), what); }

Layout Layout::turned() const {
  Layout other = *this;
  std::swap(other.extents[2], other.extents[3]);
  std::swap(other.strides[2], other.strides[3]);
  return other;
}

Layout dense(std::int64_t batch, std::int64_t heads, std::int64_t rows, std::int64_t cols) {
  return {{batch, heads, rows, cols}, {heads * rows * cols, rows * cols, cols, 1}};
}

Value Graph::add_tensor(const Layout& layout, cudnnDataType_t type, Place place) {
  constexpr std::int64_t alignment = 16;  // bytes; kernels load vectors
  const std::int64_t id = std::int64_t(tensors_.size()) + 1;
  const bool in_kernel = place == Place::kernel, on_host = place == Place::host;
  Descriptor tensor(library_, CUDNN_BACKEND_TENSOR_DESCRIPTOR);
  tensor.set(CUDNN_ATTR_TENSOR_UNIQUE_ID, CUDNN_TYPE_INT64, id);
  tensor.set(CUDNN_ATTR_TENSOR_DATA_TYPE, CUDNN_TYPE_DATA_TYPE, type);
  tensor.set(CUDNN_ATTR_TENSOR_BYTE_ALIGNMENT, CUDNN_TYPE_INT64, alignment);
  tensor.set_list(CUDNN_ATTR_TENSOR_DIMENSIONS, CUDNN_TYPE_INT64, layout.extents);
  tensor.set_list(CUDNN_ATTR_TENSOR_STRIDES, CUDNN_TYPE_INT64, layout.strides);
  tensor.set(CUDNN_ATTR_TENSOR_IS_VIRTUAL, CUDNN_TYPE_BOOLEAN, in_kernel);
  tensor.set(CUDNN_ATTR_TENSOR_IS_BY_VALUE, CUDNN_TYPE_BOOLEAN, on_host);
  tensor.finalize("a tensor");
  tensors_.push_back({std::move(tensor), layout});
  if (!in_kernel) stored_ids_.push_back(id);
  return {tensors_.size() - 1};
}

Value Graph::place(const Layout& layout, const Target& target) {
  return target.stored ? *target.stored : add_tensor(layout, target.type, Place::kernel);
}

Value Graph::stored(const Layout& layout, cudnnDataType_t type) {
  return add_tensor(layout, type, Place::memory);
}
Value Graph::scalar() { return add_tensor(dense(1, 1, 1, 1), CUDNN_DATA_FLOAT, Place::host); }

void Graph::add_operation(Descriptor operation, const std::vector<Operand>& operands, const char* what) {
  for (const auto& [name, value] : operands) operation.set(name, tensors_[value.index].descriptor);
  operation.finalize(what);
  operations_.push_back(std::move(operation));
}

Value Graph::matmul(Value a, Value b, Target target) {
  const auto &A = layout(a).extents, &B = layout(b).extents;
  const Value c = place(dense(A[0], A[1], A[2], B[3]), target);
  Descriptor sums(library_, CUDNN_BACKEND_MATMUL_DESCRIPTOR);
  sums.set(CUDNN_ATTR_MATMUL_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  sums.finalize("the sums of a matrix product");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_MATMUL_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_MATMUL_DESC, sums);
  add_operation(std::move(operation),
                {{CUDNN_ATTR_OPERATION_MATMUL_ADESC, a},
                 {CUDNN_ATTR_OPERATION_MATMUL_BDESC, b},
                 {CUDNN_ATTR_OPERATION_MATMUL_CDESC, c}},
                "a matrix product");
  parameters_.push_back(std::move(sums));
  return c;
}

Descriptor Graph::pointwise_parameters(cudnnPointwiseMode_t mode, cudnnDataType_t type) const {
  Descriptor parameters(library_, CUDNN_BACKEND_POINTWISE_DESCRIPTOR);
  parameters.set(CUDNN_ATTR_POINTWISE_MODE, CUDNN_TYPE_POINTWISE_MODE, mode);
  parameters.set(CUDNN_ATTR_POINTWISE_MATH_PREC, CUDNN_TYPE_DATA_TYPE, type);
  return parameters;
}

Value Graph::add_pointwise(Descriptor parameters, std::initializer_list<Value> inputs, const Target& target) {
  constexpr cudnnBackendAttributeName_t names[] = {CUDNN_ATTR_OPERATION_POINTWISE_XDESC,
                                                   CUDNN_ATTR_OPERATION_POINTWISE_BDESC,
                                                   CUDNN_ATTR_OPERATION_POINTWISE_TDESC};
  parameters.finalize("a function of elements");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_POINTWISE_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_POINTWISE_PW_DESCRIPTOR, parameters);
  const Value y = place(layout(*inputs.begin()), target);
  std::vector<Operand> operands{{CUDNN_ATTR_OPERATION_POINTWISE_YDESC, y}};
  for (const Value x : inputs) operands.push_back({names[operands.size() - 1], x});
  add_operation(std::move(operation), operands, "a function of elements");
  parameters_.push_back(std::move(parameters));
  return y;
}

Value Graph::pointwise(cudnnPointwiseMode_t mode, std::initializer_list<Value> inputs, Target target) {
  return add_pointwise(pointwise_parameters(mode, CUDNN_DATA_FLOAT), inputs, target);
}

Value Graph::index(Value like, std::int64_t axis) {
  Descriptor parameters = pointwise_parameters(CUDNN_POINTWISE_GEN_INDEX, CUDNN_DATA_FLOAT);
  parameters.set(CUDNN_ATTR_POINTWISE_AXIS, CUDNN_TYPE_INT64, axis);
  return add_pointwise(std::move(parameters), {like}, CUDNN_DATA_INT32);
}

Value Graph::at_least(Value a, Value b) {
  return add_pointwise(pointwise_parameters(CUDNN_POINTWISE_CMP_GE, CUDNN_DATA_BOOLEAN), {a, b},
                       CUDNN_DATA_BOOLEAN);
}

Value Graph::reduce(cudnnReduceTensorOp_t operation_kind, Value x, Target target) {
  const auto& extents = layout(x).extents;
  const Value y = place(dense(extents[0], extents[1], extents[2], 1), target);
  Descriptor parameters(library_, CUDNN_BACKEND_REDUCTION_DESCRIPTOR);
  parameters.set(CUDNN_ATTR_REDUCTION_OPERATOR, CUDNN_TYPE_REDUCTION_OPERATOR_TYPE, operation_kind);
  parameters.set(CUDNN_ATTR_REDUCTION_COMP_TYPE, CUDNN_TYPE_DATA_TYPE, CUDNN_DATA_FLOAT);
  parameters.finalize("a reduction of rows");
  Descriptor operation(library_, CUDNN_BACKEND_OPERATION_REDUCTION_DESCRIPTOR);
  operation.set(CUDNN_ATTR_OPERATION_REDUCTION_DESC, parameters);
  add_operation(std::move(operation),
                {{CUDNN_ATTR_OPERATION_REDUCTION_XDESC, x}, {CUDNN_ATTR_OPERATION_REDUCTION_YDESC, y}},
                "a reduction of rows");
  parameters_.push_back(std::move(parameters));
  return y;
}

Value Graph::turned(Value x, cudnnDataType_t type) {
  const Value y = add_tensor(layout(x).turned(), type, Place::kernel);
  add_operation(Descriptor(library_, CUDNN_BACKEND_OPERATION_RESHAPE_DESCRIPTOR),
                {{CUDNN_ATTR_OPERATION_RESHAPE_XDESC, x}, {CUDNN_ATTR_OPERATION_RESHAPE_YDESC, y}},
                "a transposition");
  return y;
}

Descriptor Graph::finalized() const {
  std::vector<cudnnBackendDescriptor_t> operations;
  for (const Descriptor& operation : operations_) operations.push_back(operation.raw());
  Descriptor graph(library_, CUDNN_BACKEND_OPERATIONGRAPH_DESCRIPTOR);
  graph.set_list(CUDNN_ATTR_OPERATIONGRAPH_OPS, CUDNN_TYPE_BACKEND_DESCRIPTOR, operations);
  graph.finalize("a graph of operations");
  return graph;
}

}  // namespace mxtape::cuda::cudnn
