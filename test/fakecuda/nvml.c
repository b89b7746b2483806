// What PyTorch asks NVML for before it maps an expandable segment: whether memory can be shared over NVLink's fabric. It can't.
enum { notSupported = 3 };

int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetHandleByPciBusId_v2(const char *bus, void **device) { *device = (void *)8; return 0; }
int nvmlDeviceGetGpuFabricInfoV(void *device, void *info) { return notSupported; }
int nvmlDeviceGetComputeRunningProcesses(void *device, unsigned *n, void *list) { *n = 0; return notSupported; }
int nvmlDeviceGetNvLinkRemoteDeviceType(void *device, unsigned link, int *type) { return notSupported; }
int nvmlDeviceGetNvLinkRemotePciInfo_v2(void *device, unsigned link, void *info) { return notSupported; }
int nvmlSystemGetCudaDriverVersion_v2(int *v) { *v = 13020; return 0; }
