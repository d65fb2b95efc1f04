/* The double of libnvidia-ml: what the inventory asks of it. */
#include "core.h"

extern struct core *sibling(void);

enum { OK, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, INSUFFICIENT_SIZE = 7 };

/* nvmlPciInfo_t of version 3. */
typedef struct {
	char bus_id_legacy[16];
	unsigned domain, bus, device, pci_device_id, pci_subsystem_id;
	char bus_id[32];
} pci_info;
typedef struct { unsigned long long total, free, used; } memory_info;

static int users;
static char devices[MAX_DEVICES]; /* a handle is the address of one */

#define BEGIN(name) \
	struct core *core = sibling(); \
	pthread_mutex_lock(&core->lock); \
	struct hit h = core->fault(CALL_##name, -1); \
	if (h.kind == K_CODE && h.arg) DONE((int)h.arg)
#define DONE(...) \
	do { \
		int result_ = (__VA_ARGS__); \
		pthread_mutex_unlock(&core->lock); \
		return result_; \
	} while (0)
#define READY() if (!users) DONE(UNINITIALIZED)
#define DEVICE(handle) \
	READY(); \
	int d = (int)((char *)(handle) - devices); \
	if (d < 0 || d >= core->set.devices) DONE(INVALID_ARGUMENT)

int nvmlInit_v2(void) {
	BEGIN(nvmlInit_v2);
	users++;
	DONE(OK);
}

int nvmlShutdown(void) {
	BEGIN(nvmlShutdown);
	READY();
	users--;
	DONE(OK);
}

const char *nvmlErrorString(int code) {
	switch (code) {
	case OK: return "Success";
	case UNINITIALIZED: return "Uninitialized";
	case INVALID_ARGUMENT: return "Invalid Argument";
	case NOT_SUPPORTED: return "Not Supported";
	case 15: return "GPU is lost";
	}
	return "Unknown Error";
}

int nvmlSystemGetDriverVersion(char *out, unsigned room) {
	BEGIN(nvmlSystemGetDriverVersion);
	READY();
	DONE(snprintf(out, room, "580.0.double") >= (int)room ? INSUFFICIENT_SIZE : OK);
}

int nvmlSystemGetCudaDriverVersion(int *v) {
	BEGIN(nvmlSystemGetCudaDriverVersion);
	READY();
	*v = core->set.cuda_version;
	DONE(OK);
}

int nvmlDeviceGetCount_v2(unsigned *n) {
	BEGIN(nvmlDeviceGetCount_v2);
	READY();
	*n = (unsigned)core->set.devices;
	DONE(OK);
}

int nvmlDeviceGetHandleByIndex_v2(unsigned i, void **out) {
	BEGIN(nvmlDeviceGetHandleByIndex_v2);
	READY();
	if (i >= (unsigned)core->set.devices) DONE(INVALID_ARGUMENT);
	*out = &devices[i];
	DONE(OK);
}

int nvmlDeviceGetUUID(void *device, char *out, unsigned room) {
	BEGIN(nvmlDeviceGetUUID);
	DEVICE(device);
	unsigned char u[16];
	core->uuid(d, u);
	int n = snprintf(out, room, "GPU-%02x%02x%02x%02x-%02x%02x-%02x%02x-%02x%02x-%02x%02x%02x%02x%02x%02x", u[0], u[1], u[2], u[3],
		u[4], u[5], u[6], u[7], u[8], u[9], u[10], u[11], u[12], u[13], u[14], u[15]);
	DONE(n >= (int)room ? INSUFFICIENT_SIZE : OK);
}

int nvmlDeviceGetName(void *device, char *out, unsigned room) {
	BEGIN(nvmlDeviceGetName);
	DEVICE(device);
	DONE(snprintf(out, room, "Double GPU %d", d) >= (int)room ? INSUFFICIENT_SIZE : OK);
}

int nvmlDeviceGetPciInfo_v3(void *device, pci_info *p) {
	BEGIN(nvmlDeviceGetPciInfo_v3);
	DEVICE(device);
	memset(p, 0, sizeof *p);
	core->bus(d, &p->bus);
	snprintf(p->bus_id_legacy, sizeof p->bus_id_legacy, "0000:%02X:00.0", p->bus);
	snprintf(p->bus_id, sizeof p->bus_id, "00000000:%02X:00.0", p->bus);
	DONE(OK);
}

/* 0 none, 1 passthrough, 2 vGPU. */
int nvmlDeviceGetVirtualizationMode(void *device, int *mode) {
	BEGIN(nvmlDeviceGetVirtualizationMode);
	DEVICE(device);
	*mode = core->set.virt_device < 0 || core->set.virt_device == d ? core->set.virt : 0;
	DONE(OK);
}

/* Pairs of neighbours share a switch (10), the others a host bridge (30). */
int nvmlDeviceGetTopologyCommonAncestor(void *device, void *other, int *level) {
	BEGIN(nvmlDeviceGetTopologyCommonAncestor);
	DEVICE(device);
	int o = (int)((char *)other - devices);
	if (o < 0 || o >= core->set.devices) DONE(INVALID_ARGUMENT);
	*level = o == d ? 0 : o / 2 == d / 2 ? 10 : 30;
	DONE(OK);
}

int nvmlDeviceGetP2PStatus(void *device, void *other, int index, int *status) {
	BEGIN(nvmlDeviceGetP2PStatus);
	DEVICE(device);
	(void)other;
	if (index < 0 || index > 4) DONE(INVALID_ARGUMENT);
	*status = index == 2 ? 5 : 0; /* no NVLink */
	DONE(OK);
}

int nvmlDeviceGetBAR1MemoryInfo(void *device, memory_info *b) {
	BEGIN(nvmlDeviceGetBAR1MemoryInfo);
	DEVICE(device);
	b->total = (unsigned long long)core->set.bar1_mib << 20;
	b->used = 0;
	for (struct allocation *a = core->allocations; a; a = a->next)
		if (a->ctx->device == d) b->used += a->registered;
	b->free = b->total - b->used;
	DONE(OK);
}

int nvmlDeviceGetMigMode(void *device, unsigned *now, unsigned *pending) {
	BEGIN(nvmlDeviceGetMigMode);
	DEVICE(device);
	*now = *pending = 0;
	DONE(OK);
}

int nvmlDeviceGetNumaNodeId(void *device, unsigned *node) {
	BEGIN(nvmlDeviceGetNumaNodeId);
	DEVICE(device);
	*node = (unsigned)(d >= core->set.devices / 2 && core->set.devices > 1);
	DONE(OK);
}

int nvmlDeviceGetMemoryInfo(void *device, memory_info *m) {
	BEGIN(nvmlDeviceGetMemoryInfo);
	DEVICE(device);
	m->total = core->set.memory;
	m->used = 0;
	for (struct allocation *a = core->allocations; a; a = a->next)
		if (a->ctx->device == d) m->used += a->n;
	m->free = m->total - m->used;
	DONE(OK);
}

int nvmlDeviceGetCudaComputeCapability(void *device, int *major, int *minor) {
	BEGIN(nvmlDeviceGetCudaComputeCapability);
	DEVICE(device);
	*major = 9;
	*minor = 0;
	DONE(OK);
}
