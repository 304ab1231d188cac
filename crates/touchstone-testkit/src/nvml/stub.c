/* A stand-in for NVIDIA's management library, with two devices whose figures are known. The first uses more memory and energy with
   each reading and is throttled by its power cap; the second reports nothing but its name. Signatures follow nvml.h. */
#include <string.h>

enum { SUCCESS = 0, INVALID = 2, NOT_SUPPORTED = 3 };
static char devices[2];
static unsigned long long readings;

int nvmlInit_v2(void) { return SUCCESS; }
int nvmlShutdown(void) { return SUCCESS; }
const char *nvmlErrorString(int code) { (void)code; return "stub"; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return SUCCESS; }

int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) {
    if (index > 1) return INVALID;
    *device = &devices[index];
    return SUCCESS;
}

int nvmlDeviceGetName(void *device, char *name, unsigned length) {
    strncpy(name, device == &devices[0] ? "Stub GPU" : "Silent GPU", length);
    return SUCCESS;
}

#define KNOWN(device) if ((device) != &devices[0]) return NOT_SUPPORTED

int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) {
    KNOWN(device);
    rates[0] = 75; rates[1] = 40;
    return SUCCESS;
}

struct memory { unsigned version; unsigned long long total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo_v2(void *device, struct memory *memory) {
    KNOWN(device);
    readings += 1;
    memory->total = 80ULL << 30;
    memory->reserved = 0;
    memory->used = (10ULL << 30) + (readings << 20);
    memory->free = memory->total - memory->used;
    return SUCCESS;
}

int nvmlDeviceGetClockInfo(void *device, int clock, unsigned *mhz) {
    KNOWN(device);
    *mhz = clock == 1 ? 1410 : 1;
    return SUCCESS;
}

int nvmlDeviceGetPowerUsage(void *device, unsigned *milliwatts) {
    KNOWN(device);
    *milliwatts = 250000;
    return SUCCESS;
}

int nvmlDeviceGetTotalEnergyConsumption(void *device, unsigned long long *millijoules) {
    KNOWN(device);
    *millijoules = 1000000 + readings * 50000;
    return SUCCESS;
}

int nvmlDeviceGetCurrentClocksThrottleReasons(void *device, unsigned long long *reasons) {
    KNOWN(device);
    *reasons = 0x4; /* software power cap */
    return SUCCESS;
}
