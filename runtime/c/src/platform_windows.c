/* Windows. */
#include "platform.h"

#if defined(_WIN32)

#define WIN32_LEAN_AND_MEAN
#define NOMINMAX
#include <windows.h>

/* The system's own failure as a number: its sentences are in the user's language. */
static unsigned windows_error(void) { return (unsigned)GetLastError(); }

/* A path in UTF-8, opened to be read. */
static edgert_status windows_open(const char *path, const edgert_allocator *allocator,
                                  HANDLE *out, edgert_error *error) {
  *out = INVALID_HANDLE_VALUE;
  int count = MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, NULL, 0);
  if (count <= 0)
    return EDGERT_FAIL(error, EDGERT_INVALID_ARGUMENT, "a path is not written in UTF-8");
  void *wide;
  edgert_status status =
      edgert_allocate_array(allocator, (size_t)count, sizeof(WCHAR), &wide, error);
  if (status != EDGERT_OK) return status;
  MultiByteToWideChar(CP_UTF8, MB_ERR_INVALID_CHARS, path, -1, wide, count);
  *out = CreateFileW(wide, GENERIC_READ, FILE_SHARE_READ, NULL, OPEN_EXISTING,
                     FILE_ATTRIBUTE_NORMAL, NULL);
  DWORD code = GetLastError();
  edgert_deallocate(allocator, wide);
  if (*out != INVALID_HANDLE_VALUE) return EDGERT_OK;
  int is_missing = code == ERROR_FILE_NOT_FOUND || code == ERROR_PATH_NOT_FOUND;
  return EDGERT_FAIL(error, is_missing ? EDGERT_NOT_FOUND : EDGERT_IO, "cannot open %s: error %u",
                     path, (unsigned)code);
}

edgert_status edgert_mapping_open(const char *path, const edgert_allocator *allocator,
                                  edgert_mapping *out, edgert_error *error) {
  memset(out, 0, sizeof *out);
  HANDLE file, section = NULL;
  edgert_status status = windows_open(path, allocator, &file, error);
  if (status != EDGERT_OK) return status;
  LARGE_INTEGER size;
  void *data = NULL;
  if (!GetFileSizeEx(file, &size))
    status = EDGERT_FAIL(error, EDGERT_IO, "cannot read %s: error %u", path, windows_error());
  else if (size.QuadPart <= 0)
    status = EDGERT_FAIL(error, EDGERT_DAMAGED, "%s is empty", path);
  else if ((uint64_t)size.QuadPart > SIZE_MAX / 2)
    status = EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "%s is too large for this machine", path);
  if (status == EDGERT_OK) {
    section = CreateFileMappingW(file, NULL, PAGE_READONLY, 0, 0, NULL);
    if (section) data = MapViewOfFile(section, FILE_MAP_READ, 0, 0, 0);
    if (!data)
      status = EDGERT_FAIL(error, EDGERT_IO, "cannot map %s: error %u", path, windows_error());
  }
  if (section) CloseHandle(section); /* the view keeps it */
  CloseHandle(file);
  if (status != EDGERT_OK) return status;
  out->data = data;
  out->size = (size_t)size.QuadPart;
  out->mapped = 1;
  return EDGERT_OK;
}

void edgert_mapping_close(edgert_mapping *mapping, const edgert_allocator *allocator) {
  (void)allocator;
  if (mapping->data) UnmapViewOfFile(mapping->data);
  memset(mapping, 0, sizeof *mapping);
}

size_t edgert_code_page_size(void) {
  SYSTEM_INFO facts;
  GetSystemInfo(&facts);
  return facts.dwPageSize;
}

edgert_status edgert_zeros_reserve(size_t size, uint8_t **out, edgert_error *error) {
  *out = VirtualAlloc(NULL, size, MEM_RESERVE | MEM_COMMIT, PAGE_READWRITE);
  if (*out) return EDGERT_OK;
  return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "no memory for %llu bytes of code",
                     (unsigned long long)size);
}

edgert_status edgert_code_protect(uint8_t *base, size_t size, int access, edgert_error *error) {
  DWORD old, protection = access == EDGERT_CODE_EXECUTE ? PAGE_EXECUTE_READ
                          : access == EDGERT_CODE_WRITE ? PAGE_READWRITE
                                                        : PAGE_READONLY;
  if (!VirtualProtect(base, size, protection, &old))
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "this system lets no loaded code run (error %u)",
                       windows_error());
  if (access == EDGERT_CODE_EXECUTE) FlushInstructionCache(GetCurrentProcess(), base, size);
  return EDGERT_OK;
}

void edgert_zeros_release(uint8_t *base, size_t size) {
  (void)size;
  if (base) VirtualFree(base, 0, MEM_RELEASE);
}

__attribute__((noinline)) void edgert_stack_commit(void) {
  volatile uint8_t room[(size_t)256 << 10]; /* the compiler touches its pages in order */
  room[0] = 0;
  (void)room[0];
}

uint64_t edgert_nanoseconds(void) {
  LARGE_INTEGER ticks, frequency;
  QueryPerformanceFrequency(&frequency);
  QueryPerformanceCounter(&ticks);
  uint64_t count = (uint64_t)ticks.QuadPart, second = (uint64_t)frequency.QuadPart;
  return count / second * 1000000000u + count % second * 1000000000u / second;
}

#if EDGERT_THREADS

_Static_assert(sizeof(SRWLOCK) == sizeof(edgert_mutex), "platform.h declares it");
_Static_assert(sizeof(CONDITION_VARIABLE) == sizeof(edgert_condition), "platform.h declares it");

static SRWLOCK *windows_lock(edgert_mutex *self) { return (SRWLOCK *)(void *)&self->word; }

static CONDITION_VARIABLE *windows_condition(edgert_condition *self) {
  return (CONDITION_VARIABLE *)(void *)&self->word;
}

void edgert_mutex_create(edgert_mutex *self) { InitializeSRWLock(windows_lock(self)); }
void edgert_mutex_destroy(edgert_mutex *self) { (void)self; }
void edgert_mutex_lock(edgert_mutex *self) { AcquireSRWLockExclusive(windows_lock(self)); }
void edgert_mutex_unlock(edgert_mutex *self) { ReleaseSRWLockExclusive(windows_lock(self)); }
void edgert_condition_create(edgert_condition *self) {
  InitializeConditionVariable(windows_condition(self));
}
void edgert_condition_destroy(edgert_condition *self) { (void)self; }
void edgert_condition_wait(edgert_condition *self, edgert_mutex *mutex) {
  SleepConditionVariableSRW(windows_condition(self), windows_lock(mutex), INFINITE, 0);
}
void edgert_condition_wait_for(edgert_condition *self, edgert_mutex *mutex, uint64_t milliseconds) {
  DWORD most = milliseconds < 86400000u ? (DWORD)milliseconds : 86400000u;
  SleepConditionVariableSRW(windows_condition(self), windows_lock(mutex), most, 0);
}
void edgert_condition_wake_all(edgert_condition *self) {
  WakeAllConditionVariable(windows_condition(self));
}

static DWORD WINAPI windows_thread_main(void *given) {
  const edgert_thread *self = given;
  self->run(self->argument);
  return 0;
}

// All of it is committed at once: kernels keep up to 256 KiB on the stack and touch it anywhere.
#define EDGERT_THREAD_STACK ((size_t)1 << 20)

/* It begins when its number is known, which it may be asked for. */
edgert_status edgert_thread_start(edgert_thread *self, void *(*run)(void *), void *argument,
                                  edgert_error *error) {
  DWORD id = 0;
  *self = (edgert_thread){.run = run, .argument = argument};
  self->handle = CreateThread(NULL, EDGERT_THREAD_STACK, windows_thread_main, self,
                              CREATE_SUSPENDED, &id);
  if (!self->handle)
    return EDGERT_FAIL(error, EDGERT_OUT_OF_MEMORY, "cannot start a thread: error %u",
                       windows_error());
  self->id = id;
  ResumeThread(self->handle);
  return EDGERT_OK;
}

void edgert_thread_join(edgert_thread *self) {
  WaitForSingleObject(self->handle, INFINITE);
  CloseHandle(self->handle);
}

void edgert_thread_detach(edgert_thread *self) { CloseHandle(self->handle); }

int edgert_thread_is_current(const edgert_thread *self) {
  return self->id == GetCurrentThreadId();
}

void edgert_thread_yield(void) { SwitchToThread(); }

unsigned edgert_processor_count(void) {
  DWORD_PTR own, all;
  unsigned count = 0;
  if (!GetProcessAffinityMask(GetCurrentProcess(), &own, &all)) return 1;
  for (; own; own &= own - 1) ++count;
  return count ? count : 1;
}

#endif

#endif
