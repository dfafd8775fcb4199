/* edgert: runs the modules (`.vmfb`) that `edgec compile` writes, on phones, boards and browsers.
 *
 * This header is the manual. A first program:
 *
 *     edgert_error error;
 *     edgert_device *device;
 *     edgert_module *module;
 *     edgert_session *session;
 *     if (edgert_device_create("cpu", NULL, &device, &error) ||
 *         edgert_module_open("digits.vmfb", NULL, &module, &error) ||
 *         edgert_session_create(module, device, NULL, &session, &error))
 *       puts(error.message);
 *
 * then `edgert_session_call`. Six kinds of objects:
 *
 *     device    something that computes (the CPU), with its threads and memory
 *     module    a file, read and verified; immutable
 *     session   a module on a device, with the state that its functions keep between calls
 *     tensor    numbers with a shape on a device
 *     weights   a file of parameters beside a module
 *     call      of a function, running while its caller does something else
 *
 * Ownership. `..._create`, `..._open` and `..._wrap` give one reference to the caller, `..._retain`
 * adds one, `..._release` gives one back; an object lives as long as anything refers to it, so
 * they may be released in any order. `..._release(NULL)` does nothing. Strings and arrays that a
 * function returns belong to the object that was asked and live as long as it does.
 *
 * Failure. A function that can fail returns `edgert_status`, zero for success, and writes what
 * happened into `*error`, which may be NULL. It first sets its results to NULL or zero. Nothing
 * is printed, nothing aborts, and what fails leaves no trace.
 *
 * Trust. Everything in a module and in a weights file is verified before it is followed: whatever
 * bytes they hold, the program can reach nothing but its own memory, and `edgert_session_options`
 * bounds what it takes. Kernels are the exception: they are machine code, which runs with all rights
 * of this process, and nobody can verify it; a flipped bit in one runs, too. So open modules that you
 * or somebody you trust compiled, and compare their hash with the manifest's where they came by a way
 * that others can write to. For files from strangers use a process of its own, without rights.
 *
 * Stack. Kernels use up to 256 KiB of the stack of the thread that calls: give threads of your own
 * 512 KiB (musl gives 128, macOS 512 beside the main one). edgert's own threads have 1 MiB.
 *
 * Threads. There is no global state. Every object may be used by several threads at once; calls
 * of one session take turns, so open one session a thread for calls that run side by side. A child
 * of `fork` has none of edgert's threads: make new objects there, and release no old ones. edgert
 * handles no signals, and its threads leave those of the process to the app's.
 *
 * Callbacks. What an app gives to be called, but for `edgert_call_done`, may be called in the middle of
 * a call, whose session is taken: it must call no function of that session, nor wait for one that does.
 *
 * Versions. The ABI is stable within `EDGERT_ABI`. Structures that callers fill in begin with
 * `size`, their own size in bytes; fields are only ever added at the end, and zero means default.
 * Without `size`, or with a field set that this library is too old to know, they are refused.
 */
#ifndef EDGERT_EDGERT_H
#define EDGERT_EDGERT_H

#include <stddef.h>
#include <stdint.h>

#ifdef __cplusplus
extern "C" {
#endif

#define EDGERT_ABI 1

#if defined(EDGERT_SHARED) && defined(_WIN32)
#if defined(EDGERT_BUILDING)
#define EDGERT_API __declspec(dllexport)
#else
#define EDGERT_API __declspec(dllimport)
#endif
#elif defined(__GNUC__)
#define EDGERT_API __attribute__((visibility("default")))
#else
#define EDGERT_API
#endif

#if defined(__GNUC__)
#define EDGERT_MUST_USE __attribute__((warn_unused_result))
#else
#define EDGERT_MUST_USE
#endif

/* The `EDGERT_ABI` that the library was built with; a caller built with another one must stop. */
EDGERT_API uint32_t edgert_abi(void);

/* --- Failure ---------------------------------------------------------------------------------- */

typedef enum edgert_status {
  EDGERT_OK = 0,
  EDGERT_OUT_OF_MEMORY = -1,    /* the allocator gave nothing */
  EDGERT_INVALID_ARGUMENT = -2, /* the caller's mistake: type, shape, count, alignment */
  EDGERT_NOT_FOUND = -3,        /* a file, function, weight or device by that name */
  EDGERT_DAMAGED = -4,          /* a module or weights file that breaks its own format */
  EDGERT_UNSUPPORTED = -5,      /* another version, architecture, CPU, or a feature left out */
  EDGERT_PROGRAM_FAILED = -6,   /* the program itself refused, as on a wrong input shape */
  EDGERT_OUT_OF_RANGE = -7,     /* the program reached outside a buffer or list */
  EDGERT_IO = -8,               /* a file could not be read */
  EDGERT_DEVICE_FAILED = -9,    /* the device or its code reported failure */
  EDGERT_LIMIT = -10,           /* calls nested too deep, `max_steps` or `max_milliseconds` reached */
  EDGERT_CANCELLED = -11,       /* `edgert_call_cancel` or `edgert_session_interrupt` came in time */
  EDGERT_TIMED_OUT = -12,       /* `edgert_call_wait_for`: not ended yet */
  EDGERT_WRONG_ANSWER = -13,    /* `edgert_session_prove`: an answer is off */
  EDGERT_PENDING = -14,         /* in a page, where nothing can wait: go on or ask again later */
  EDGERT_UNTRUSTED = -15        /* not signed by the key that was asked for, or changed since */
} edgert_status;

/* What failed, in one sentence; always terminated, cut where it is longer. */
typedef struct edgert_error {
  edgert_status status;
  char message[252];
} edgert_error;

/* "out of memory", "invalid argument", ... */
EDGERT_API const char *edgert_status_name(edgert_status status);

/* --- Memory and messages ---------------------------------------------------------------------- */

/* Where memory comes from. `allocate` returns at least `size` bytes (never 0) at a multiple of
 * `alignment` (a power of two, at most 64), or NULL. Both may be called by any thread. */
typedef struct edgert_allocator {
  void *user;
  void *(*allocate)(void *user, size_t size, size_t alignment);
  void (*release)(void *user, void *memory);
} edgert_allocator;

/* Remarks that are no failures (a slow path taken, a hint ignored). Called by any thread. */
typedef void (*edgert_log)(void *user, const char *message);

/* What ran on a device, and for how long: a kernel, or "copy", "fill" or "update" for what moves
 * bytes between them. Texts are the module's and live as long as it does. */
typedef struct edgert_timing {
  const char *kernel;  /* its name in the module, or "?" */
  const char *file;    /* where the model's source has it, `file_size` letters without an end, or NULL */
  uint32_t file_size;
  uint32_t line;
  uint64_t workgroups; /* 0: no kernel */
  uint64_t nanoseconds;
  uint64_t idle_nanoseconds; /* a GPU's before it, since what it ran last in these commands */
} edgert_timing;

/* Told of each that has run, by the thread that calls. */
typedef void (*edgert_timed)(void *user, const edgert_timing *timing);

/* Where the bytes of a file come from that the system does not know as one: assets of an app, an
 * archive, something encrypted. */
typedef struct edgert_reader {
  void *user;
  uint64_t size; /* of the file */
  /* Write `count` bytes of the file from `offset` on to `data`, all inside of the file; 0 where that
   * fails, else 1. Called by the thread that opens or makes a session, and by several at once. */
  int (*read)(void *user, uint64_t offset, void *data, size_t count);
  void (*release)(void *user); /* once, when it is not needed any more; or NULL */
} edgert_reader;

/* --- Devices ---------------------------------------------------------------------------------- */

typedef struct edgert_device edgert_device;

/* The query function of a statically linked library of kernels, as its header declares it. */
typedef const void *(*edgert_library_query)(uint32_t max_version, const void *environment);

typedef struct edgert_device_options {
  uint32_t size;
  uint32_t threads;           /* that compute, with the caller's; 0: as many as processors */
  edgert_allocator allocator; /* zero: the C library's; must outlive every object made with it */
  edgert_log log;             /* NULL: silence */
  void *log_user;
  const edgert_library_query *libraries; /* kernels linked into this program; the array is copied */
  size_t library_count;
  uint64_t cache_bytes; /* of memory kept for the next call; 1: as good as none; 0: 256 MiB, and of a
                         * GPU that has memory of its own 1 GiB at most */
  uint32_t index;       /* which of the driver's devices, as `edgert_driver_device` counts them */
  uint32_t unwritten;   /* the byte in memory that a program has not written yet: CPUs; usually 0 */
  /* Where a driver that compiles kernels keeps them for the next time, or NULL. A file that is
   * missing, damaged, or another device's or driver version's, is written anew; copied. */
  const char *cache_file;
  edgert_timed timed; /* profiles: what runs does so one after the other, and is told of; or NULL */
  void *timed_user;
} edgert_device_options;

/* Open a device by its driver's name: "cpu"; "vulkan", in builds that have it; or "null", which
 * accepts everything and computes nothing. `options` may be NULL. `threads`, `libraries` and `unwritten`
 * are the CPU's, `index` and `cache_file` those of GPUs; devices without a clock refuse to be `timed`. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_device_create(const char *driver,
                                                              const edgert_device_options *options,
                                                              edgert_device **out_device,
                                                              edgert_error *error);
EDGERT_API edgert_device *edgert_device_retain(edgert_device *device);
EDGERT_API void edgert_device_release(edgert_device *device);

/* What the device calls itself ("llvmpipe (LLVM 15.0.6, 256 bits)"), or its driver's name. */
EDGERT_API const char *edgert_device_name(const edgert_device *device);

/* A number for what answers may depend on: the device, its driver's version, its features. */
EDGERT_API uint64_t edgert_device_identity(const edgert_device *device);

/* What a device answers to programs: "hal.cpu" and a feature of the processor as LLVM names it (1:
 * it has it), "hal.executable.format" and a format ("embedded-elf-arm_64", 1: it runs),
 * "hal.dispatch" and "concurrency" (the threads that compute), or "hal.cuda" and "compute_capability"
 * (90 for 9.0). Gives 1 and the value in `*out_value`, or 0 for what it does not know. */
EDGERT_API int edgert_device_query(edgert_device *device, const char *category, const char *key,
                                   int64_t *out_value);

/* The names of the drivers that were built in, by index; NULL behind the last. */
EDGERT_API const char *edgert_driver_name(size_t index);

/* The names of a driver's devices by their index, cut where longer than `name_size`, 0 included;
 * EDGERT_NOT_FOUND behind the last, and EDGERT_UNSUPPORTED for one that is there and cannot be used,
 * or where the system has nothing for the driver to work with. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_driver_device(const char *driver, uint32_t index,
                                                              char *out_name, size_t name_size,
                                                              edgert_error *error);

/* --- Modules ---------------------------------------------------------------------------------- */

typedef struct edgert_module edgert_module;

typedef struct edgert_module_options {
  uint32_t size;
  /* 1: compare the file with the checksums in it, which finds what went wrong on the way (not what
   * somebody did on purpose). All of it is read, at some 300 MB a second. */
  uint32_t check;
  edgert_allocator allocator;
  uint64_t max_bytes; /* of the file; what is larger fails with EDGERT_LIMIT; 0: no limit */
  /* Told all bytes of the file before any is believed, to compare them with a hash of the app's own;
   * where it gives 0 the module is refused with EDGERT_DAMAGED. NULL: not asked. */
  int (*accept)(void *user, const void *data, size_t size);
  void *accept_user;
  /* An Ed25519 public key, 32 bytes: the module must have been signed by its owner (`edgec sign`), and
   * so must the weights that sessions of it are given. All of the module is hashed here, before
   * anything of it is read; weights by pages, when the first call that uses them is made. What is not
   * as it was signed is EDGERT_UNTRUSTED, here or there. NULL: not asked. */
  const uint8_t *key;
} edgert_module_options;

/* Whether `data` ends with a seal for things of this `kind` ("module"; "package": the list of a
 * package's files, `edgec.seal`) by the owner of `key`, and what lies before it, whose size is given,
 * is as it was signed; else EDGERT_UNTRUSTED. Builds without EDGERT_WITH_SIGNATURES answer this and
 * every `key` with EDGERT_UNSUPPORTED. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_seal_check(const void *data, size_t data_size,
                                                           const char *kind, const uint8_t *key,
                                                           size_t *out_content_size,
                                                           edgert_error *error);

/* Map a file and verify all of it. Tables and byte code are copied; constants and kernels stay in the
 * file, which must not be cut short while the module lives (replace it by another one instead). */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_open(const char *path,
                                                            const edgert_module_options *options,
                                                            edgert_module **out_module,
                                                            edgert_error *error);

/* The same for a file's bytes in memory, used in place (copied where they do not begin at a
 * multiple of 64). `release` is called once with `user` when the module needs `data` no more, and
 * also where this fails; it may be NULL. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_wrap(const void *data, size_t data_size,
                                                            void (*release)(void *user), void *user,
                                                            const edgert_module_options *options,
                                                            edgert_module **out_module,
                                                            edgert_error *error);

/* The same for bytes that a reader gives; all are read, and the reader is released before this
 * returns, also where it fails. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_read(const edgert_reader *reader,
                                                            const edgert_module_options *options,
                                                            edgert_module **out_module,
                                                            edgert_error *error);
EDGERT_API edgert_module *edgert_module_retain(edgert_module *module);
EDGERT_API void edgert_module_release(edgert_module *module);

EDGERT_API const char *edgert_module_name(const edgert_module *module);

/* The functions that can be called, in the file's order. */
EDGERT_API size_t edgert_module_function_count(const edgert_module *module);
EDGERT_API const char *edgert_module_function_name(const edgert_module *module, size_t function);
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_find(const edgert_module *module,
                                                            const char *name, size_t *out_function,
                                                            edgert_error *error);

/* A function's attribute, such as "iree.abi.declaration" or "edgec.signature"; NULL: it has none.
 * Function `SIZE_MAX` asks all of them in order. */
EDGERT_API const char *edgert_module_attribute(const edgert_module *module, size_t function,
                                               const char *key);

/* Attributes by index, for listing; 0 behind the last, else 1. */
EDGERT_API int edgert_module_attribute_at(const edgert_module *module, size_t function,
                                          size_t index, const char **out_key,
                                          const char **out_value);

/* One argument or result as the module declares it. */
#define EDGERT_MAX_RANK 16
#define EDGERT_DYNAMIC (-1)

typedef enum edgert_value_kind {
  EDGERT_NONE = 0,
  EDGERT_TENSOR = 1,
  EDGERT_I32_VALUE = 2,
  EDGERT_I64_VALUE = 3,
  EDGERT_F32_VALUE = 4,
  EDGERT_F64_VALUE = 5,
  EDGERT_GIVEN_TENSOR = 6 /* an argument whose caller will only release it afterwards */
} edgert_value_kind;

typedef struct edgert_argument {
  edgert_value_kind kind;
  uint32_t type; /* of a tensor's elements, 0: not declared; see `edgert_type_parse` */
  uint32_t rank;
  uint32_t reserved;
  int64_t shape[EDGERT_MAX_RANK]; /* EDGERT_DYNAMIC: any size */
  char name[64];                  /* as edgec wrote it, empty where it did not; cut where longer */
} edgert_argument;

EDGERT_API size_t edgert_module_input_count(const edgert_module *module, size_t function);
EDGERT_API size_t edgert_module_output_count(const edgert_module *module, size_t function);
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_input(const edgert_module *module,
                                                             size_t function, size_t index,
                                                             edgert_argument *out_argument,
                                                             edgert_error *error);
EDGERT_API EDGERT_MUST_USE edgert_status edgert_module_output(const edgert_module *module,
                                                              size_t function, size_t index,
                                                              edgert_argument *out_argument,
                                                              edgert_error *error);

/* --- Weights ---------------------------------------------------------------------------------- */

typedef struct edgert_weights edgert_weights;

/* Map a `.safetensors` or `.irpa` file; told apart by their first bytes. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_weights_open(const char *path,
                                                             const edgert_allocator *allocator,
                                                             edgert_weights **out_weights,
                                                             edgert_error *error);

/* The same for a file's bytes in memory, used in place; a weight that does not lie at a multiple of
 * 64 is copied by each session that uses it. `release` is called once with `user` when the weights
 * need `data` no more, and also where this fails; it may be NULL. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_weights_wrap(const void *data, size_t data_size,
                                                             void (*release)(void *user),
                                                             void *user,
                                                             const edgert_allocator *allocator,
                                                             edgert_weights **out_weights,
                                                             edgert_error *error);

/* The same for bytes that a reader gives. Only what says which weights there are is read at once, and
 * of the weights, by each session that is made, those that the module asks for, in pieces, straight
 * into the device's memory. The reader is released with the weights, and also where this fails. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_weights_read(const edgert_reader *reader,
                                                             const edgert_allocator *allocator,
                                                             edgert_weights **out_weights,
                                                             edgert_error *error);
EDGERT_API edgert_weights *edgert_weights_retain(edgert_weights *weights);
EDGERT_API void edgert_weights_release(edgert_weights *weights);

/* --- Tensors ---------------------------------------------------------------------------------- */

typedef struct edgert_tensor edgert_tensor;

/* Types of elements: a kind in the top byte and the bits of one element in the lowest. */
#define EDGERT_BOOL 0x13000008u
#define EDGERT_I8 0x11000008u
#define EDGERT_I16 0x11000010u
#define EDGERT_I32 0x11000020u
#define EDGERT_I64 0x11000040u
#define EDGERT_U8 0x12000008u
#define EDGERT_U16 0x12000010u
#define EDGERT_U32 0x12000020u
#define EDGERT_U64 0x12000040u
#define EDGERT_F16 0x21000010u
#define EDGERT_F32 0x21000020u
#define EDGERT_F64 0x21000040u
#define EDGERT_BF16 0x22000010u
#define EDGERT_C64 0x23000040u
#define EDGERT_C128 0x23000080u

/* Memory shared with a device begins at a multiple of this many bytes: kernels use aligned loads. */
#define EDGERT_ALIGNMENT 64

/* "f32" to EDGERT_F32; 0: no type. And back; "?" for what has no name. */
EDGERT_API uint32_t edgert_type_parse(const char *name);
EDGERT_API const char *edgert_type_name(uint32_t type);

/* A new tensor in the device's memory, its contents undefined. `shape` has `rank` sizes >= 0. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_create(edgert_device *device, uint32_t type,
                                                              size_t rank, const int64_t *shape,
                                                              edgert_tensor **out_tensor,
                                                              edgert_error *error);

/* A tensor over the caller's memory, without a copy: row major, `data_size` bytes, at a multiple
 * of EDGERT_ALIGNMENT. `release` (or NULL) is called once with `user` when nothing uses the memory
 * any more, and also where this fails. Until then it must stay; functions only read it. Devices that
 * do not compute in the host's memory get a copy, and `release` is called at once. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_wrap(
    edgert_device *device, uint32_t type, size_t rank, const int64_t *shape, void *data,
    size_t data_size, void (*release)(void *user), void *user, edgert_tensor **out_tensor,
    edgert_error *error);
EDGERT_API edgert_tensor *edgert_tensor_retain(edgert_tensor *tensor);
EDGERT_API void edgert_tensor_release(edgert_tensor *tensor);

EDGERT_API uint32_t edgert_tensor_type(const edgert_tensor *tensor);
EDGERT_API size_t edgert_tensor_rank(const edgert_tensor *tensor);
EDGERT_API const int64_t *edgert_tensor_shape(const edgert_tensor *tensor);
EDGERT_API uint64_t edgert_tensor_size(const edgert_tensor *tensor); /* bytes */

/* All four at once, for bindings to whose languages a call costs more than what it asks. The shape
 * is the tensor's own. */
typedef struct edgert_tensor_facts {
  uint32_t type;
  uint32_t rank;
  uint64_t size;
  const int64_t *shape;
} edgert_tensor_facts;
EDGERT_API void edgert_tensor_describe(const edgert_tensor *tensor, edgert_tensor_facts *out_facts);

/* Its elements where the host sees the device's memory (the CPU's always), else NULL; ask again
 * after each call. Results may share memory with each other, with arguments and with the module: do
 * not write to them. */
EDGERT_API const void *edgert_tensor_data(const edgert_tensor *tensor);

/* Copy all elements out or in, on any device; `data_size` must be `edgert_tensor_size`. Write only
 * to tensors that were just created. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_read(const edgert_tensor *tensor, void *data,
                                                            size_t data_size, edgert_error *error);
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_write(edgert_tensor *tensor,
                                                             const void *data, size_t data_size,
                                                             edgert_error *error);

/* --- Sessions --------------------------------------------------------------------------------- */

typedef struct edgert_session edgert_session;

typedef struct edgert_scope {
  const char *name; /* as the module calls it, usually "model"; copied; NULL: any */
  edgert_weights *weights;
} edgert_scope;

typedef struct edgert_session_options {
  uint32_t size;
  uint32_t reserved;
  edgert_allocator allocator;
  const edgert_scope *scopes; /* weights for modules that keep theirs outside */
  size_t scope_count;
  uint64_t max_steps; /* jumps and calls of the interpreter in one call; 0: no limit */
  /* Bytes that the session and what it gave may hold: state, buffers, the interpreter's own. What goes
   * beyond fails with EDGERT_OUT_OF_MEMORY. Weights and constants that lie in mapped files, and
   * kernels' code, are not counted. 0: no limit. */
  uint64_t max_memory;
  /* That a call may take, and so may `edgert_session_create`; then it fails with EDGERT_LIMIT. Looked
   * at between runs of workgroups: a single workgroup is not cut short. 0: no limit. */
  uint64_t max_milliseconds;
} edgert_session_options;

/* Put a module on a device: checks that the two fit, loads its code, sets the state to its first
 * values. State is the session's own; make another one to begin anew. Where that is EDGERT_PENDING
 * there is a session, too, to be resumed until it is made or given back. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_create(
    edgert_module *module, edgert_device *device, const edgert_session_options *options,
    edgert_session **out_session, edgert_error *error);
EDGERT_API edgert_session *edgert_session_retain(edgert_session *session);
EDGERT_API void edgert_session_release(edgert_session *session);

/* Make the call that is running end with EDGERT_CANCELLED, as soon as the workgroups that have begun
 * are done; from any thread. Where none is running, nothing happens. */
EDGERT_API void edgert_session_interrupt(edgert_session *session);

/* Bytes that are counted against `max_memory`: now, and the most so far. Either may be NULL. */
EDGERT_API void edgert_session_memory(edgert_session *session, uint64_t *out_current,
                                      uint64_t *out_peak);

/* An argument or result; `kind` says which member counts. */
typedef struct edgert_value {
  edgert_value_kind kind;
  union {
    edgert_tensor *tensor;
    int32_t i32;
    int64_t i64;
    float f32;
    double f64;
  } as;
} edgert_value;

/* Call a function and wait for it. `arguments` are borrowed; tensors among `results` belong to the
 * caller. The counts must be the function's own. After a failure the session can be called again;
 * state that the function had changed by then stays changed.
 *
 * A function that writes results where arguments lie (`edgec.overwritten`) does so to those of the
 * kind EDGERT_GIVEN_TENSOR of which nobody has another reference, nor their memory, and whose memory
 * is the device's own; what they hold is lost, also where the call fails. Of any other it gets a
 * copy. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_call(
    edgert_session *session, size_t function, const edgert_value *arguments, size_t argument_count,
    edgert_value *results, size_t result_count, edgert_error *error);

/* A tensor that goes into a call or comes out of one: `tensor`, or where that is NULL the caller's own
 * memory at `data`, of any alignment, with the shape and type it is of. */
typedef struct edgert_place {
  edgert_tensor *tensor;
  void *data;
  size_t size; /* bytes */
  uint32_t type;
  uint32_t rank;
  const int64_t *shape;
} edgert_place;

/* `edgert_session_call` for functions of tensors alone, with what is done before and after it, for
 * bindings to whose languages a call costs as much as a small function. Memory of `arguments` is
 * copied to the device first. A result of the shape and type that its place says is copied into the
 * place's memory, and `tensor` is NULL. Any other, and one whose place has no memory, is left as
 * `tensor`, which belongs to the caller, and the place's other fields are the tensor's own (`data` as
 * by `edgert_tensor_data`, but NULL where seeing it takes asking the device); all are NULL or zero
 * for a result that is a number. Only builds with EDGERT_WITH_PLACES=1 have it. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_call_places(
    edgert_session *session, size_t function, const edgert_place *arguments, size_t argument_count,
    edgert_place *results, size_t result_count, edgert_error *error);

/* Go on with a call that ended with EDGERT_PENDING, as it does in the middle of a program that reads
 * what a page's GPU has not computed yet; `results` are as many as it was begun with. May be pending
 * again. A call that waits is given up by the session's next one. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_resume(edgert_session *session,
                                                               edgert_value *results,
                                                               size_t result_count,
                                                               edgert_error *error);

/* Make the golden calls that the module brings (`edgec package`, `edgec compile --embed-golden`) on
 * this session's device, and compare their answers with those of another device: EDGERT_OK, or
 * EDGERT_WRONG_ANSWER with which output is off and by how much; then take another variant of the
 * module, or another device. EDGERT_NOT_FOUND: it brings none. State stays as it is, since a module
 * that has some is proved in a session of its own.
 *
 * `verdicts`, or NULL, is a file that keeps what came of it by `edgert_session_identity`, so that this
 * calls nothing until the module, the device or its driver's version is another one. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_prove(edgert_session *session,
                                                              const char *verdicts,
                                                              edgert_error *error);

/* A number for the module (without weights outside of it), the device and its driver's version: what
 * was found out of one says nothing of another. For apps that keep verdicts themselves. */
EDGERT_API uint64_t edgert_session_identity(const edgert_session *session);

/* --- Beside other libraries ------------------------------------------------------------------- */

/* For libraries that give the same device work of their own, such as NCCL. Only builds with
 * EDGERT_WITH_NATIVE=1 have what follows up to the next heading. */

/* As `edgert_session_call`, but it returns when the device has been given all that there is to do.
 * Results are for what the same device is asked later, calls and reads alike, which comes behind it;
 * what fails on the device is told there, and by `edgert_tensor_wait`. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_session_submit(
    edgert_session *session, size_t function, const edgert_value *arguments, size_t argument_count,
    edgert_value *results, size_t result_count, edgert_error *error);

/* Wait until all is done that the device has been given to do with a tensor's memory, for so many
 * milliseconds at most, then EDGERT_TIMED_OUT. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_wait(const edgert_tensor *tensor,
                                                            uint64_t milliseconds,
                                                            edgert_error *error);

/* A device as its own API knows it. */
typedef struct edgert_native {
  void *stream;   /* cuda: the CUstream to which it gives all its work, in order */
  uint32_t index; /* cuda: the device's ordinal */
} edgert_native;

/* EDGERT_UNSUPPORTED where a driver has no such thing; so are all below that can fail. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_device_native(edgert_device *device,
                                                              edgert_native *out_native,
                                                              edgert_error *error);

/* Where a tensor's elements lie in the device's memory, one behind the other. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_tensor_address(const edgert_tensor *tensor,
                                                               uint64_t *out_address,
                                                               edgert_error *error);

/* Between these two no other thread takes memory of the device or gives it back, for which CUDA may
 * wait until its devices are idle: while work is given to several that wait for each other. Nothing
 * of edgert's may be called for this device in between. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_device_hold(edgert_device *device,
                                                            edgert_error *error);
EDGERT_API void edgert_device_let_go(edgert_device *device);

/* Say that the stream was given work which uses these tensors of the device, and which has to be done
 * before the host sees them. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_device_enqueued(edgert_device *device,
                                                                edgert_tensor *const *tensors,
                                                                size_t count,
                                                                edgert_error *error);

/* --- Calls in the background ------------------------------------------------------------------ */

typedef struct edgert_call edgert_call;

/* Told once of every call, also of one that failed or was cancelled, by the thread that ran it.
 * `edgert_call_wait` gives its status here at once. It may begin and make other calls, of the same
 * session too, and release anything, `call` included; it must not wait for calls begun after its
 * own. The next call of the session waits until it returns. */
typedef void (*edgert_call_done)(void *user, edgert_call *call);

/* Begin a call and return. Calls of one session run one after the other in the order in which they
 * were begun, on a thread of the session's own, which is started for the first; `edgert_session_call`
 * takes its turn among them in no particular order. Calls of several sessions run side by side.
 *
 * `arguments` are copied and their tensors retained. `results` belongs to the call until it is
 * done, and is filled in as by `edgert_session_call`; it must stay until then. `done` may be NULL.
 * `out_call` may be NULL, for a call that is only told of: it is released behind `done`. What fails
 * here is lack of memory or of threads; whatever is wrong with the call itself is its own status.
 *
 * In builds without threads the call runs, and `done` is told, before this returns. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_call_begin(
    edgert_session *session, size_t function, const edgert_value *arguments, size_t argument_count,
    edgert_value *results, size_t result_count, edgert_call_done done, void *user,
    edgert_call **out_call, edgert_error *error);

/* Whether `edgert_call_wait` would return at once. */
EDGERT_API int edgert_call_is_done(edgert_call *call);

/* Wait until the call has ended and `done` has returned; gives the call's status, always the
 * same one. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_call_wait(edgert_call *call, edgert_error *error);

/* The same for so many milliseconds at most, then EDGERT_TIMED_OUT: the call goes on, and can be waited
 * for again. */
EDGERT_API EDGERT_MUST_USE edgert_status edgert_call_wait_for(edgert_call *call,
                                                              uint64_t milliseconds,
                                                              edgert_error *error);

/* Keep a call from running, if it has not begun to: 1. It then ends in its turn with
 * EDGERT_CANCELLED, without results, and state stays as it was. 0: it is too late, and the call
 * runs to its end, or until `edgert_session_interrupt`. */
EDGERT_API int edgert_call_cancel(edgert_call *call);

/* Give a call back, waiting for its end; to be done once. From a callback of the same session it
 * does not wait: what has not ended ends without a handle, and still tells `done`. */
EDGERT_API void edgert_call_release(edgert_call *call);

#ifdef __cplusplus
}
#endif

#endif
