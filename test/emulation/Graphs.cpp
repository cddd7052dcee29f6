// SPDX-License-Identifier: Apache-2.0
//
// CUDA's functions for graphs: what a stream captures, enqueued again.
#include "test/emulation/Streams.h"

using namespace ds::emulated;

cudaError_t cudaStreamBeginCapture(cudaStream_t s, cudaStreamCaptureMode) {
  if (cudaError_t e = enter("cudaStreamBeginCapture"))
    return e;
  if (!exists(s))
    return cudaErrorInvalidResourceHandle;
  if (s->capture || capturing)
    return cudaErrorIllegalState;
  s->capture = std::make_unique<CudaGraph>();
  s->capture->thread = std::this_thread::get_id();
  capturing = s;
  return cudaSuccess;
}
cudaError_t cudaEventRecordWithFlags(cudaEvent_t e, cudaStream_t s, unsigned flags) {
  if (cudaError_t error = enter("cudaEventRecordWithFlags"))
    return error;
  if (!exists(e) || !exists(s))
    return cudaErrorInvalidResourceHandle;
  if (e->device != s->device)
    return failed(cudaErrorInvalidResourceHandle);
  if ((flags & cudaEventRecordExternal) == 0 || !s->capture)
    return cudaErrorInvalidValue; // elsewhere cudaEventRecord does
  return submit(s, {"", {}, {}, nullptr, e});
}
cudaError_t cudaStreamEndCapture(cudaStream_t s, cudaGraph_t *graph) {
  cudaError_t error = enter("cudaStreamEndCapture");
  *graph = nullptr;
  if (!exists(s))
    return cudaErrorInvalidResourceHandle;
  if (!s->capture)
    return cudaErrorIllegalState;
  if (s->capture->thread != std::this_thread::get_id())
    return cudaErrorStreamCaptureWrongThread;
  std::unique_ptr<CudaGraph> captured = std::move(s->capture);
  capturing = nullptr;
  if (error)
    return error;
  if (captured->invalid)
    return cudaErrorStreamCaptureInvalidated;
  *graph = captured.release();
  std::lock_guard lock(machine().mutex);
  machine().handles.insert(*graph);
  return cudaSuccess;
}
cudaError_t cudaGraphInstantiate(cudaGraphExec_t *exec, cudaGraph_t graph, unsigned long long) {
  if (!exists(graph))
    return cudaErrorInvalidValue;
  if (cudaError_t e = create("cudaGraphInstantiate", exec))
    return e;
  (*exec)->nodes = graph->nodes;
  return cudaSuccess;
}
cudaError_t cudaGraphDestroy(cudaGraph_t graph) { return destroy("cudaGraphDestroy", graph); }
cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  return destroy("cudaGraphExecDestroy", exec);
}
cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t s) {
  if (cudaError_t e = enter("cudaGraphLaunch"))
    return e;
  if (!exists(exec) || !exists(s))
    return cudaErrorInvalidValue;
  if (s->capture) { // a graph in a graph
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  ++machine().graphs;
  s->add([nodes = exec->nodes] { // what each launch replaces is unknown again
    for (const Operation &o : nodes)
      if (o.windows)
        o.windows->begun = false;
    return std::string();
  });
  for (const Operation &o : exec->nodes)
    if (cudaError_t e = submit(s, o))
      return e;
  return cudaSuccess;
}
