/* The functions of the doubles that count their calls and may be made to fail. */
#define CUDA_CALLS(X) \
	X(cuInit) X(cuDriverGetVersion) X(cuDeviceGetCount) X(cuDeviceGet) X(cuDeviceGetName) \
	X(cuDeviceGetUuid_v2) X(cuDeviceGetUuid) X(cuDeviceGetPCIBusId) X(cuDeviceGetAttribute) X(cuDeviceTotalMem_v2) \
	X(cuDevicePrimaryCtxRetain) X(cuDevicePrimaryCtxRelease_v2) \
	X(cuCtxSetCurrent) X(cuCtxGetCurrent) X(cuCtxPushCurrent_v2) X(cuCtxPopCurrent_v2) \
	X(cuMemAlloc_v2) X(cuMemFree_v2) X(cuMemGetInfo_v2) X(cuMemHostRegister_v2) X(cuMemHostUnregister) \
	X(cuMemcpyHtoDAsync_v2) X(cuMemcpyDtoHAsync_v2) X(cuMemcpyDtoDAsync_v2) X(cuMemsetD8Async) \
	X(cuStreamCreate) X(cuStreamDestroy_v2) X(cuStreamQuery) X(cuStreamSynchronize) X(cuStreamWaitEvent) \
	X(cuEventCreate) X(cuEventDestroy_v2) X(cuEventRecord) X(cuEventQuery) X(cuEventSynchronize) \
	X(cuPointerSetAttribute) X(cuFlushGPUDirectRDMAWrites) \
	X(cuModuleLoadDataEx) X(cuModuleUnload) X(cuModuleGetFunction) X(cuLaunchKernel)

#define CUFILE_CALLS(X) \
	X(cuFileDriverOpen) X(cuFileDriverClose_v2) X(cuFileDriverClose) X(cuFileGetVersion) X(cuFileDriverGetProperties) \
	X(cuFileHandleRegister) X(cuFileHandleDeregister) X(cuFileBufRegister) X(cuFileBufDeregister) X(cuFileRead) \
	X(cuFileGetParameterBool) X(cuFileSetParameterBool) X(cuFileSetParameterString) \
	X(cuFileSetStatsLevel) X(cuFileStatsStart) X(cuFileStatsStop) X(cuFileStatsReset) X(cuFileGetStatsL3)

#define NVML_CALLS(X) \
	X(nvmlInit_v2) X(nvmlShutdown) X(nvmlSystemGetDriverVersion) X(nvmlSystemGetCudaDriverVersion) \
	X(nvmlDeviceGetCount_v2) X(nvmlDeviceGetHandleByIndex_v2) X(nvmlDeviceGetUUID) X(nvmlDeviceGetName) \
	X(nvmlDeviceGetPciInfo_v3) X(nvmlDeviceGetVirtualizationMode) X(nvmlDeviceGetTopologyCommonAncestor) \
	X(nvmlDeviceGetP2PStatus) X(nvmlDeviceGetBAR1MemoryInfo) X(nvmlDeviceGetMigMode) X(nvmlDeviceGetNumaNodeId) \
	X(nvmlDeviceGetMemoryInfo) X(nvmlDeviceGetCudaComputeCapability)

enum {
#define NUMBER(name) CALL_##name,
	CUDA_CALLS(NUMBER) CUFILE_CALLS(NUMBER) NVML_CALLS(NUMBER)
#undef NUMBER
	CALLS
};
