#include "kernels/cuda/cudnn/cudnn_plan.h"

#include <algorithm>

#include "core/error.h"
#include "kernels/cuda/launch.h"

namespace mxtape::cuda::cudnn {
namespace {

std::int64_t count_of(const Descriptor& d, cudnnBackendAttributeName_t name,
                      cudnnBackendAttributeType_t type) {
  std::int64_t count = 0;
  d.library().check(d.library().get_attribute(d.raw(), name, type, 0, &count, nullptr), "counting results");
  return count;
}

template <class T>
std::vector<T> values_of(const Descriptor& d, cudnnBackendAttributeName_t name,
                         cudnnBackendAttributeType_t type, std::vector<T> values) {
  std::int64_t count = std::int64_t(values.size());
  d.library().check(d.library().get_attribute(d.raw(), name, type, count, &count, values.data()),
                    "reading results");
  values.resize(std::size_t(count));
  return values;
}

bool is_deterministic(const Descriptor& config) {
  const Descriptor engine(config.library(), CUDNN_BACKEND_ENGINE_DESCRIPTOR);
  values_of<cudnnBackendDescriptor_t>(config, CUDNN_ATTR_ENGINECFG_ENGINE, CUDNN_TYPE_BACKEND_DESCRIPTOR,
                                      {engine.raw()});
  const auto notes = values_of(engine, CUDNN_ATTR_ENGINE_NUMERICAL_NOTE, CUDNN_TYPE_NUMERICAL_NOTE,
                               std::vector<cudnnBackendNumericalNote_t>(CUDNN_NUMERICAL_NOTE_TYPE_COUNT));
  return std::find(notes.begin(), notes.end(), CUDNN_NUMERICAL_NOTE_NONDETERMINISTIC) == notes.end();
}

}  // namespace

Descriptor present_device(const Library& library) {
  int id = 0;
  cuda::check(cudaGetDevice(&id), "the current device");
  Descriptor device(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set(CUDNN_ATTR_DEVICEPROP_DEVICE_ID, CUDNN_TYPE_INT32, std::int32_t(id));
  device.finalize("the device's properties");
  return device;
}

Descriptor described_device(const Library& library, const std::string& json) {
  Descriptor device(library, CUDNN_BACKEND_DEVICEPROP_DESCRIPTOR);
  device.set_list(CUDNN_ATTR_DEVICEPROP_JSON_REPRESENTATION, CUDNN_TYPE_CHAR,
                  std::string_view(json.c_str(), json.size() + 1));  // with the 0 at its end
  device.finalize("a device's properties");
  return device;
}

std::vector<Descriptor> deterministic_configs(const Descriptor& graph, const Descriptor& device) {
  Descriptor heuristics(graph.library(), CUDNN_BACKEND_ENGINEHEUR_DESCRIPTOR);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_OPERATION_GRAPH, graph);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_MODE, CUDNN_TYPE_HEUR_MODE, CUDNN_HEUR_MODE_A);
  heuristics.set(CUDNN_ATTR_ENGINEHEUR_DEVICEPROP, device);
  heuristics.finalize("looking for kernels");
  std::vector<Descriptor> configs;
  std::vector<cudnnBackendDescriptor_t> raw;
  for (std::int64_t n = count_of(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR);
       n > 0; --n)
    raw.push_back(configs.emplace_back(graph.library(), CUDNN_BACKEND_ENGINECFG_DESCRIPTOR).raw());
  if (!raw.empty()) {
    raw = values_of(heuristics, CUDNN_ATTR_ENGINEHEUR_RESULTS, CUDNN_TYPE_BACKEND_DESCRIPTOR, raw);
    configs.erase(configs.begin() + std::ptrdiff_t(raw.size()), configs.end());
  }
  std::erase_if(configs, [](const Descriptor& config) { return !is_deterministic(config); });
  return configs;
}

Plan::Plan(const Graph& graph, const Descriptor& device)
    : ids_(graph.stored_ids()), plan_(build(graph, device)) {
  workspace_bytes_ =
      values_of<std::int64_t>(plan_, CUDNN_ATTR_EXECUTION_PLAN_WORKSPACE_SIZE, CUDNN_TYPE_INT64, {0}).front();
}

Descriptor Plan::build(const Graph& graph, const Descriptor& device) {
  const Library& library = graph.library();
  const Descriptor operations = graph.finalized();
  std::string reason = "its heuristics know none for this device";
  for (const Descriptor& config : deterministic_configs(operations, device)) {
    Descriptor plan(library, CUDNN_BACKEND_EXECUTION_PLAN_DESCRIPTOR);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_ENGINE_CONFIG, config);
    plan.set(CUDNN_ATTR_EXECUTION_PLAN_DEVICEPROP, device);
    const cudnnStatus_t status = library.finalize(plan.raw());
    if (status == CUDNN_STATUS_SUCCESS) return plan;
    reason = library.last_error(status);
  }
  fail(ExitCode::resource,
       "cudnn {}: no kernel for this attention that gives the same bits each time ({}); use "
       "--compute.attention=own",
       library.version, reason);
}

void Plan::run(cudnnHandle_t handle, const std::vector<void*>& pointers, void* workspace) const {
  require(pointers.size() == ids_.size(), "cudnn: {} pointers for a plan of {}", pointers.size(),
          ids_.size());
  Descriptor pack(plan_.library(), CUDNN_BACKEND_VARIANT_PACK_DESCRIPTOR);
  pack.set_list(CUDNN_ATTR_VARIANT_PACK_UNIQUE_IDS, CUDNN_TYPE_INT64, ids_);
  pack.set_list(CUDNN_ATTR_VARIANT_PACK_DATA_POINTERS, CUDNN_TYPE_VOID_PTR, pointers);
  pack.set(CUDNN_ATTR_VARIANT_PACK_WORKSPACE, CUDNN_TYPE_VOID_PTR, workspace);
  pack.finalize("the tensors of a call");
  plan_.library().check(plan_.library().execute(handle, plan_.raw(), pack.raw()), "running a plan");
}

}  // namespace mxtape::cuda::cudnn
