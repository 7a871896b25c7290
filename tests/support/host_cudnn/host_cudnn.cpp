#include "tests/support/host_cudnn/interpreter.h"

// A shared library with the part of cuDNN's interface that mxtape uses. It runs any graph of operations on
// the host, so that what a graph says can be tested without a GPU. Its heuristics suggest two engines: the
// first notes that it is not deterministic, and fails.
namespace {

using mxtape::host_cudnn::Node;

std::map<void*, std::shared_ptr<Node>>& nodes() {
  static std::map<void*, std::shared_ptr<Node>> all;
  return all;
}

std::size_t size_of(cudnnBackendAttributeType_t type) {
  switch (type) {
    case CUDNN_TYPE_CHAR:
    case CUDNN_TYPE_BOOLEAN:
      return 1;
    case CUDNN_TYPE_INT64:
    case CUDNN_TYPE_VOID_PTR:
      return 8;
    default:
      return 4;  // i32 and enumerations
  }
}

}  // namespace

extern "C" {

std::size_t cudnnGetVersion() { return 91900; }
const char* cudnnGetErrorString(cudnnStatus_t) { return "a status of the host"; }
void cudnnGetLastErrorString(char* text, std::size_t) { *text = 0; }
cudnnStatus_t cudnnCreate(cudnnHandle_t*) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnDestroy(cudnnHandle_t) { return CUDNN_STATUS_SUCCESS; }
cudnnStatus_t cudnnSetStream(cudnnHandle_t, cudaStream_t) { return CUDNN_STATUS_SUCCESS; }

cudnnStatus_t cudnnBackendCreateDescriptor(cudnnBackendDescriptorType_t type,
                                           cudnnBackendDescriptor_t* made) {
  auto node = std::make_shared<Node>(Node{type, {}, {}});
  *made = node.get();
  nodes()[*made] = std::move(node);
  return CUDNN_STATUS_SUCCESS;
}
cudnnStatus_t cudnnBackendDestroyDescriptor(cudnnBackendDescriptor_t node) {
  return nodes().erase(node) ? CUDNN_STATUS_SUCCESS : CUDNN_STATUS_BAD_PARAM;
}
cudnnStatus_t cudnnBackendFinalize(cudnnBackendDescriptor_t node) {
  nodes().at(node)->finalized = true;
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendSetAttribute(cudnnBackendDescriptor_t to, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t type, std::int64_t count,
                                       const void* values) {
  Node& node = *nodes().at(to);
  if (node.finalized) return CUDNN_STATUS_BAD_PARAM;
  if (type == CUDNN_TYPE_BACKEND_DESCRIPTOR) {
    for (std::int64_t i = 0; i < count; ++i) {
      const auto& other = nodes().at(static_cast<const cudnnBackendDescriptor_t*>(values)[i]);
      if (!other->finalized) return CUDNN_STATUS_BAD_PARAM_NOT_FINALIZED;
      node.references[name].push_back(other);
    }
    return CUDNN_STATUS_SUCCESS;
  }
  const auto* bytes = static_cast<const unsigned char*>(values);
  node.values[name].assign(bytes, bytes + std::size_t(count) * size_of(type));
  return CUDNN_STATUS_SUCCESS;
}

cudnnStatus_t cudnnBackendGetAttribute(cudnnBackendDescriptor_t from, cudnnBackendAttributeName_t name,
                                       cudnnBackendAttributeType_t, std::int64_t room, std::int64_t* count,
                                       void* values) {
  const Node& node = *nodes().at(from);
  const auto child = [&](std::int64_t i) -> Node& {
    return *nodes().at(static_cast<cudnnBackendDescriptor_t*>(values)[i]);
  };
  const auto engine = CUDNN_ATTR_ENGINE_GLOBAL_INDEX;
  switch (name) {
    case CUDNN_ATTR_ENGINEHEUR_RESULTS:
      *count = 2;
      for (std::int64_t i = 0; i < room; ++i) {
        child(i).references = node.references;
        child(i).values[engine] = {static_cast<unsigned char>(i)};
        child(i).finalized = true;
      }
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINECFG_ENGINE:
      child(0).values = node.values;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_ENGINE_NUMERICAL_NOTE:
      *count = node.values.at(engine).front() == 0;
      if (*count) *static_cast<cudnnBackendNumericalNote_t*>(values) = CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC;
      return CUDNN_STATUS_SUCCESS;
    case CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE:
      *static_cast<std::int64_t*>(values) = 512;
      return CUDNN_STATUS_SUCCESS;
    default:
      return CUDNN_STATUS_NOT_SUPPORTED;
  }
}

cudnnStatus_t cudnnBackendExecute(cudnnHandle_t, cudnnBackendDescriptor_t plan,
                                  cudnnBackendDescriptor_t pack) {
  const Node& config = nodes().at(plan)->at(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG);
  if (config.values.at(CUDNN_ATTR_ENGINE_GLOBAL_INDEX).front() == 0) return CUDNN_STATUS_EXECUTION_FAILED;
  const auto ids = nodes().at(pack)->list<std::int64_t>(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS);
  const auto pointers = nodes().at(pack)->list<void*>(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS);
  std::memset(nodes().at(pack)->get<void*>(CUDNN_ATTR_VARIANT_PACK_WORKSPACE), 0xff, 512);
  std::map<std::int64_t, void*> memory;
  for (std::size_t i = 0; i < ids.size(); ++i) memory[ids[i]] = pointers.at(i);
  mxtape::host_cudnn::run(config.at(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH), memory);
  return CUDNN_STATUS_SUCCESS;
}

}  // extern "C"
