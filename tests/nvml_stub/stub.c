/* A library that answers like NVML and does what a script says. See build.py for the script's lines.

   The script's path is in the environment variable NVML_STUB_SCRIPT; it is read again whenever NVML is started anew. */

#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

enum { OK = 0, UNINITIALIZED = 1, INVALID_ARGUMENT = 2, NOT_SUPPORTED = 3, NOT_FOUND = 6, INSUFFICIENT_SIZE = 7 };
enum { MOST = 256, LENGTH = 128, VALUES = 64 };

typedef unsigned long long u64;

typedef struct {
    char uuid[LENGTH], bus[LENGTH], name[LENGTH];
    int parent; /* index of the card of a slice, -1 for a card */
    unsigned gpu_instance, compute_instance;
} Device;

typedef struct { char uuid[LENGTH], key[LENGTH]; u64 value[VALUES][3]; int count, next; } Setting;
typedef struct { char function[LENGTH], uuid[LENGTH]; int code; long from, to; } Fault;
typedef struct { char function[LENGTH]; long milliseconds; } Delay;
typedef struct { char uuid[LENGTH], list[LENGTH]; unsigned pid; u64 bytes; } Process;
typedef struct { char function[LENGTH], uuid[LENGTH]; long calls; } Count;

static Device devices[MOST];
static Setting settings[MOST];
static Fault faults[MOST];
static Delay delays[MOST];
static Process process_list[MOST];
static Count counts[MOST * 4];
static int device_count, setting_count, fault_count, delay_count, process_count, count_count;
static char driver[LENGTH];
static int cuda_version, opened;
static pthread_mutex_t lock = PTHREAD_MUTEX_INITIALIZER;

static int same(const char *a, const char *b) { return strcmp(a, b) == 0; }

static int index_of(const char *uuid) {
    for (int i = 0; i < device_count; i++)
        if (same(devices[i].uuid, uuid)) return i;
    return -1;
}

static void read_setting(char *rest) {
    Setting *setting = &settings[setting_count++];
    int used = 0;
    if (sscanf(rest, "%127s %127s %n", setting->uuid, setting->key, &used) < 2) abort();
    for (char *word = strtok(rest + used, " \n"); word && setting->count < VALUES; word = strtok(NULL, " \n")) {
        u64 *value = setting->value[setting->count++];
        for (int i = 0; i < 3; i++) {
            value[i] = strtoull(word, &word, 10);
            if (*word == '/') word++;
        }
    }
}

static void read_line(char *line) {
    char word[LENGTH], parent[LENGTH];
    int used = 0;
    if (sscanf(line, "%127s %n", word, &used) < 1 || word[0] == '#') return;
    char *rest = line + used;
    if (same(word, "gpu")) {
        Device *device = &devices[device_count++];
        device->parent = -1;
        if (sscanf(rest, "%127s %127s %127[^\n]", device->uuid, device->bus, device->name) != 3) abort();
    } else if (same(word, "mig")) {
        Device *device = &devices[device_count++];
        if (sscanf(rest, "%127s %127s %u %u", parent, device->uuid, &device->gpu_instance, &device->compute_instance) != 4)
            abort();
        device->parent = index_of(parent);
        strcpy(device->name, devices[device->parent].name);
    } else if (same(word, "set")) {
        read_setting(rest);
    } else if (same(word, "error")) {
        Fault *fault = &faults[fault_count++];
        fault->from = 1;
        fault->to = -1;
        if (sscanf(rest, "%127s %127s %d %ld %ld", fault->function, fault->uuid, &fault->code, &fault->from, &fault->to) < 3)
            abort();
    } else if (same(word, "sleep")) {
        Delay *delay = &delays[delay_count++];
        if (sscanf(rest, "%127s %ld", delay->function, &delay->milliseconds) != 2) abort();
    } else if (same(word, "process")) {
        Process *process = &process_list[process_count++];
        if (sscanf(rest, "%127s %127s %u %llu", process->uuid, process->list, &process->pid, &process->bytes) != 4) abort();
    } else if (same(word, "driver")) {
        sscanf(rest, "%127s %d", driver, &cuda_version);
    } else {
        fprintf(stderr, "nvml stub: unknown line: %s", line);
        abort();
    }
}

static void read_script(void) {
    memset(devices, 0, sizeof devices);
    memset(settings, 0, sizeof settings);
    memset(counts, 0, sizeof counts);
    device_count = setting_count = fault_count = delay_count = process_count = count_count = 0;
    strcpy(driver, "580.0");
    cuda_version = 13000;
    const char *path = getenv("NVML_STUB_SCRIPT");
    FILE *file = path ? fopen(path, "r") : NULL;
    if (!file) return;
    char line[4096];
    while (fgets(line, sizeof line, file)) read_line(line);
    fclose(file);
}

/* Forget how often NVML was opened, so that one test leaves nothing to the next. */
void stub_reset(void) { opened = 0; }

/* Count the call, wait as told, and return the error that the script wants from it. */
static int enter(const char *function, const Device *device) {
    const char *uuid = device ? device->uuid : "-";
    long wait = 0, calls = 0;
    int code = OK;
    pthread_mutex_lock(&lock);
    int i = 0;
    while (i < count_count && !(same(counts[i].function, function) && same(counts[i].uuid, uuid))) i++;
    if (i == count_count) {
        if (count_count == MOST * 4) abort();
        strcpy(counts[count_count].function, function);
        strcpy(counts[count_count++].uuid, uuid);
    }
    calls = ++counts[i].calls;
    for (i = 0; i < delay_count; i++)
        if (same(delays[i].function, function)) wait = delays[i].milliseconds;
    for (i = 0; i < fault_count; i++) {
        Fault *fault = &faults[i];
        int meant = (same(fault->function, function) || (same(fault->function, "*") && device)) &&
                    (same(fault->uuid, uuid) || same(fault->uuid, "*"));
        if (meant && calls >= fault->from && (fault->to < 0 || calls <= fault->to)) code = fault->code;
    }
    if (!opened && code == OK && !same(function, "Init")) code = UNINITIALIZED;
    pthread_mutex_unlock(&lock);
    if (wait) usleep(wait * 1000);
    return code;
}

/* The next value of a setting; the last one is repeated. What the script does not set is not supported. */
static int take(const Device *device, const char *key, u64 value[3]) {
    int code = NOT_SUPPORTED;
    pthread_mutex_lock(&lock);
    for (int i = 0; i < setting_count; i++) {
        Setting *setting = &settings[i];
        if (!same(setting->uuid, device->uuid) || !same(setting->key, key) || !setting->count) continue;
        memcpy(value, setting->value[setting->next], 3 * sizeof(u64));
        if (setting->next < setting->count - 1) setting->next++;
        code = OK;
    }
    pthread_mutex_unlock(&lock);
    return code;
}

#define ENTER(function, device)               \
    do {                                      \
        int code_ = enter(function, device);  \
        if (code_) return code_;              \
    } while (0)

#define NUMBER(symbol, type, key)                             \
    int nvml##symbol(Device *device, type *out) {             \
        u64 value[3];                                         \
        ENTER(#symbol, device);                               \
        int code = take(device, key, value);                  \
        if (!code) *out = (type)value[0];                     \
        return code;                                          \
    }

int nvmlInitWithFlags(unsigned flags) {
    (void)flags;
    if (!opened) read_script();
    ENTER("Init", NULL);
    opened++;
    return OK;
}

int nvmlShutdown(void) {
    ENTER("Shutdown", NULL);
    opened--;
    return OK;
}

const char *nvmlErrorString(int code) {
    static char text[64];
    snprintf(text, sizeof text, "stub error %d", code);
    return text;
}

int nvmlSystemGetDriverVersion(char *out, unsigned length) {
    ENTER("SystemGetDriverVersion", NULL);
    snprintf(out, length, "%s", driver);
    return OK;
}

int nvmlSystemGetCudaDriverVersion(int *out) {
    ENTER("SystemGetCudaDriverVersion", NULL);
    *out = cuda_version;
    return OK;
}

int nvmlDeviceGetCount_v2(unsigned *out) {
    ENTER("DeviceGetCount", NULL);
    *out = 0;
    for (int i = 0; i < device_count; i++) *out += devices[i].parent < 0;
    return OK;
}

int nvmlDeviceGetHandleByIndex_v2(unsigned wanted, Device **out) {
    unsigned index = 0;
    for (int i = 0; i < device_count; i++) {
        if (devices[i].parent >= 0 || index++ != wanted) continue;
        ENTER("DeviceGetHandleByIndex", &devices[i]);
        *out = &devices[i];
        return OK;
    }
    return INVALID_ARGUMENT;
}

int nvmlDeviceGetHandleByUUID(const char *uuid, Device **out) {
    int i = index_of(uuid);
    if (i < 0) return NOT_FOUND;
    ENTER("DeviceGetHandleByUUID", &devices[i]);
    *out = &devices[i];
    return OK;
}

int nvmlDeviceGetUUID(Device *device, char *out, unsigned length) {
    ENTER("DeviceGetUUID", device);
    snprintf(out, length, "%s", device->uuid);
    return OK;
}

int nvmlDeviceGetName(Device *device, char *out, unsigned length) {
    ENTER("DeviceGetName", device);
    snprintf(out, length, "%s", device->name);
    return OK;
}

struct Pci { char legacy[16]; unsigned domain, bus, device, id, subsystem; char bus_id[32]; };

int nvmlDeviceGetPciInfo_v3(Device *device, struct Pci *out) {
    ENTER("DeviceGetPciInfo", device);
    memset(out, 0, sizeof *out);
    snprintf(out->bus_id, sizeof out->bus_id, "%s", device->bus);
    return OK;
}

int nvmlDeviceGetMigMode(Device *device, unsigned *now, unsigned *later) {
    ENTER("DeviceGetMigMode", device);
    *now = 0;
    for (int i = 0; i < device_count; i++)
        if (devices[i].parent == device - devices) *now = 1;
    *later = *now;
    return OK;
}

int nvmlDeviceGetMaxMigDeviceCount(Device *device, unsigned *out) {
    ENTER("DeviceGetMaxMigDeviceCount", device);
    *out = 7;
    return OK;
}

int nvmlDeviceGetMigDeviceHandleByIndex(Device *device, unsigned wanted, Device **out) {
    unsigned index = 0;
    for (int i = 0; i < device_count; i++) {
        if (devices[i].parent != device - devices || index++ != wanted) continue;
        ENTER("DeviceGetMigDeviceHandleByIndex", &devices[i]);
        *out = &devices[i];
        return OK;
    }
    return NOT_FOUND;
}

int nvmlDeviceGetGpuInstanceId(Device *device, unsigned *out) {
    ENTER("DeviceGetGpuInstanceId", device);
    *out = device->gpu_instance;
    return OK;
}

int nvmlDeviceGetComputeInstanceId(Device *device, unsigned *out) {
    ENTER("DeviceGetComputeInstanceId", device);
    *out = device->compute_instance;
    return OK;
}

int nvmlDeviceGetUtilizationRates(Device *device, unsigned out[2]) {
    u64 value[3];
    ENTER("DeviceGetUtilizationRates", device);
    int code = take(device, "utilization", value);
    if (code) return code;
    out[0] = (unsigned)value[0];
    out[1] = (unsigned)value[1];
    return OK;
}

struct MemoryV1 { u64 total, free, used; };
struct MemoryV2 { unsigned version; u64 total, reserved, free, used; };

int nvmlDeviceGetMemoryInfo(Device *device, struct MemoryV1 *out) {
    u64 value[3];
    ENTER("DeviceGetMemoryInfo", device);
    int code = take(device, "memory_v1", value);
    if (code) return code;
    out->used = value[0];
    out->total = value[1];
    out->free = value[1] - value[0];
    return OK;
}

int nvmlDeviceGetMemoryInfo_v2(Device *device, struct MemoryV2 *out) {
    u64 value[3];
    ENTER("DeviceGetMemoryInfo_v2", device);
    if (out->version != 0x02000028) return 25; /* argument version mismatch */
    int code = take(device, "memory_v2", value);
    if (code) return code;
    out->used = value[0];
    out->reserved = value[1];
    out->total = value[2];
    out->free = value[2] - value[1] - value[0];
    return OK;
}

NUMBER(DeviceGetPowerUsage, unsigned, "power")
NUMBER(DeviceGetEnforcedPowerLimit, unsigned, "power_limit")
NUMBER(DeviceGetTotalEnergyConsumption, u64, "energy")
NUMBER(DeviceGetCurrentClocksEventReasons, u64, "throttle")
NUMBER(DeviceGetCurrentClocksThrottleReasons, u64, "throttle")

int nvmlDeviceGetTemperature(Device *device, unsigned sensor, unsigned *out) {
    u64 value[3];
    ENTER("DeviceGetTemperature", device);
    int code = sensor ? INVALID_ARGUMENT : take(device, "temperature", value);
    if (!code) *out = (unsigned)value[0];
    return code;
}

int nvmlDeviceGetClockInfo(Device *device, unsigned type, unsigned *out) {
    u64 value[3];
    const char *function = type == 1 ? "DeviceGetClockInfo.sm" : "DeviceGetClockInfo.memory";
    ENTER(function, device);
    int code = take(device, type == 1 ? "sm_clock" : "memory_clock", value);
    if (!code) *out = (unsigned)value[0];
    return code;
}

int nvmlDeviceGetPcieThroughput(Device *device, unsigned counter, unsigned *out) {
    u64 value[3];
    ENTER("DeviceGetPcieThroughput", device);
    int code = take(device, "pcie", value);
    if (!code) *out = (unsigned)value[counter];
    return code;
}

struct ProcessInfo { unsigned pid; u64 used; unsigned gpu_instance, compute_instance; };

static int list(const char *function, const char *which, Device *device, unsigned *count, struct ProcessInfo *out) {
    ENTER(function, device);
    unsigned found = 0, room = *count;
    for (int i = 0; i < process_count; i++) {
        Process *process = &process_list[i];
        if (!same(process->uuid, device->uuid) || !same(process->list, which)) continue;
        if (out && found < room) out[found] = (struct ProcessInfo){process->pid, process->bytes, -1u, -1u};
        found++;
    }
    *count = found;
    return found > room ? INSUFFICIENT_SIZE : OK;
}

int nvmlDeviceGetComputeRunningProcesses_v3(Device *device, unsigned *count, struct ProcessInfo *out) {
    return list("DeviceGetComputeRunningProcesses", "compute", device, count, out);
}

int nvmlDeviceGetGraphicsRunningProcesses_v3(Device *device, unsigned *count, struct ProcessInfo *out) {
    return list("DeviceGetGraphicsRunningProcesses", "graphics", device, count, out);
}
