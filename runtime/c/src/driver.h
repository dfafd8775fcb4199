/* What a device is: one table of functions that a driver fills, and the objects it works on.
 *
 * Everything above this interface is the same for every device. A driver is one folder or file
 * that defines an `edgert_driver` and has a line in `drivers.c`; `drivers/null.c` is the smallest
 * one and the model for others.
 *
 * A device does what it is asked in order, and may do it later than it is asked. Each thing that it
 * does later ends at a point: a number that grows, and that one can wait for. 0 is the past. Only
 * `wait` and what the host sees of memory (`map`, `read`, `write`) wait for the device. */
#ifndef EDGERT_DRIVER_H
#define EDGERT_DRIVER_H

#include "limits.h"
#include "object.h"

typedef struct edgert_driver edgert_driver;
typedef struct edgert_buffer edgert_buffer;
typedef struct edgert_executable edgert_executable;
typedef struct edgert_commands edgert_commands;

/* The common part of every device; a driver's own begins with it. */
struct edgert_device {
  edgert_object object;
  const edgert_driver *driver;
  const char *name; /* the driver's, unless it says better */
  uint64_t identity; /* of what answers may depend on: kind, driver version, features; or 0 */
  edgert_log log;
  void *log_user;
  edgert_timed timed;
  void *timed_user;
  atomic_uint_least64_t sessions; /* so far: the number of the last */
};

/* What a program says of memory that it asks for, in the bits of IREE's HAL; the app says nothing,
 * which is 0. A driver may heed it. */
typedef struct edgert_memory {
  uint32_t types;
  uint32_t usage;
} edgert_memory;

enum {
  EDGERT_TYPE_HOST_VISIBLE = 1 << 1,
  EDGERT_USAGE_IMMUTABLE = 1 << 19, /* nobody will write */
  EDGERT_USAGE_MAPPING = 0xF << 24  /* the host will look into it */
};

/* Memory on a device, `hal.buffer`. A part of a buffer refers to the whole. */
struct edgert_buffer {
  edgert_object object;
  edgert_device *device;
  edgert_buffer *whole; /* NULL: this is one */
  uint64_t offset;      /* within the whole */
  uint64_t size;
  uint8_t *host;  /* where the host sees its first byte, between `map` and `unmap`; or NULL */
  int read_only;  /* constants in a file */
  int is_fresh;   /* of a whole with a `host`: nothing was written yet, and it holds zeros */
  edgert_memory kind;
  void *memory;   /* of a whole: the driver's */
  uint64_t point; /* of a whole, the driver's: when what was asked of it is done */
  uint64_t owner; /* the session it was made for, by its number; 0: the app */
  edgert_budget *budget; /* by which it is counted, or NULL */
  atomic_int owners; /* as programs count them */
  /* Of memory that is somebody else's: whom to tell when it is needed no more. */
  edgert_object *lender;
  void (*release)(void *user);
  void *user;
#if EDGERT_WITH_SIGNATURES
  struct edgert_pages *pages; /* of a file whose bytes are compared before they are used, or NULL; */
  uint64_t place;             /* where in that file this begins. The lender keeps it. */
#endif
};

/* Compiled kernels on a device; a driver's own begins with it. Create one as an object of
 * `EDGERT_KIND_EXECUTABLE` and retain `device`. */
struct edgert_executable {
  edgert_object object;
  edgert_device *device;
};

/* A stretch of memory: of a buffer, or (`buffer` NULL) of what a slot is bound to. */
#define EDGERT_WHOLE UINT64_MAX
typedef struct edgert_range {
  edgert_buffer *buffer;
  uint32_t slot;
  uint64_t offset;
  uint64_t length; /* EDGERT_WHOLE: to the end */
} edgert_range;

/* What a driver lets other libraries do beside it: `edgert_device_native` and what follows there. */
typedef struct edgert_neighbour {
  void (*native)(edgert_device *self, edgert_native *out);
  uint64_t (*address)(const edgert_buffer *buffer); /* of a whole buffer's first byte */
  void (*hold)(edgert_device *self);
  void (*let_go)(edgert_device *self);
  edgert_status (*enqueued)(edgert_device *self, edgert_tensor *const *tensors, size_t count,
                            edgert_error *error);
} edgert_neighbour;

struct edgert_driver {
  const char *name;
  const char *id; /* what programs call such a device; patterns may stand for it */
  int is_timed;   /* it tells `timed` what has run */

  /* A device; `options` is never NULL and has its defaults filled in. */
  edgert_status (*create)(const edgert_device_options *options, edgert_device **out,
                          edgert_error *error);
  void (*destroy)(edgert_device *self);

  /* The name of the device of that number into `out`, which ends with 0; EDGERT_NOT_FOUND behind
   * the last. NULL: there is one, of the driver's own name. */
  edgert_status (*list)(uint32_t index, char *out, size_t size, edgert_error *error);

  /* The executable formats that it runs, by index; NULL behind the last. */
  const char *(*format)(const edgert_device *self, uint32_t index);

  /* What programs ask beyond what follows from `id` and `format`, or what is otherwise than these
   * say: 1 and a value, or 0. May be NULL. */
  int (*query)(edgert_device *self, edgert_text category, edgert_text key, int64_t *out);

  /* Give a whole buffer memory of its `size`, for what its `kind` says: set `memory`, and `host`
   * where the host sees it. What is for a session holds zeros, or what that session itself left. */
  edgert_status (*allocate)(edgert_device *self, edgert_buffer *buffer, edgert_error *error);
  void (*deallocate)(edgert_device *self, edgert_buffer *buffer);

  /* Use host memory in place: set `memory`; or refuse with EDGERT_UNSUPPORTED. May be NULL. */
  edgert_status (*lend)(edgert_device *self, edgert_buffer *buffer, uint8_t *data,
                        edgert_error *error);

  /* The host is about to look at, or (`for_write`) to write, these bytes of a whole buffer that has
   * a `host`; and it has written them. NULL where device and host always see the same. */
  edgert_status (*map)(edgert_device *self, edgert_buffer *buffer, uint64_t offset, uint64_t size,
                       int for_write, edgert_error *error);
  edgert_status (*unmap)(edgert_device *self, edgert_buffer *buffer, uint64_t offset, uint64_t size,
                         edgert_error *error);

  /* Copy between the host and a whole buffer that has no `host`. May be NULL where all have one. */
  edgert_status (*read)(edgert_device *self, edgert_buffer *buffer, uint64_t offset, void *data,
                        uint64_t size, edgert_error *error);
  edgert_status (*write)(edgert_device *self, edgert_buffer *buffer, uint64_t offset,
                         const void *data, uint64_t size, edgert_error *error);

  /* Load kernels of a format that it runs. `constants` are what they are specialised with. */
  edgert_status (*load)(edgert_device *self, edgert_text format, const uint8_t *data, size_t size,
                        const uint32_t *constants, size_t constant_count,
                        edgert_executable **out, edgert_error *error);

  /* Give back what a driver's executable holds beyond the common part. May be NULL. */
  void (*unload)(edgert_executable *executable);

  /* A kernel's number by its name. */
  edgert_status (*find)(edgert_executable *executable, edgert_text name, uint32_t *out,
                        edgert_error *error);

  /* Refuse a dispatch of a kernel that cannot be right, when it is recorded. */
  edgert_status (*check)(edgert_executable *executable, uint32_t kernel, size_t constant_count,
                         size_t binding_count, edgert_error *error);

  /* Run recorded commands with slots bound to ranges of buffers; give up when `watch` is over.
   * `*out_point` is 0 before, and may stay so where all is done. */
  edgert_status (*execute)(edgert_device *self, edgert_commands *commands,
                           const edgert_range *slots, size_t slot_count, const edgert_watch *watch,
                           uint64_t *out_point, edgert_error *error);

  /* Commands are about to go: give back their `translation`. NULL where there never is one. */
  void (*forget)(edgert_device *self, edgert_commands *commands);

  /* Wait for a point, for so many milliseconds at most (EDGERT_TIMED_OUT; UINT64_MAX is endless) and
   * until `watch` is over. NULL where all is done when `execute` returns. */
  edgert_status (*wait)(edgert_device *self, uint64_t point, uint64_t milliseconds,
                        const edgert_watch *watch, edgert_error *error);

#if EDGERT_WITH_NATIVE
  const edgert_neighbour *neighbour; /* or NULL */
#endif
};

/* The drivers of this build by index; NULL behind the last. */
const edgert_driver *edgert_driver_at(size_t index);

/* Fill in the common part of a device that a driver has just created. */
void edgert_device_begin(edgert_device *self, const edgert_driver *driver,
                         const edgert_device_options *options);
void edgert_device_remark(const edgert_device *self, const char *message);
edgert_status edgert_device_wait(edgert_device *self, uint64_t point, uint64_t milliseconds,
                                 const edgert_watch *watch, edgert_error *error);

/* What programs ask of a device, by its driver: 1 and a value, or 0 for what it does not know. */
int edgert_device_ask(edgert_device *self, edgert_text category, edgert_text key, int64_t *out);

/* Whether `text` fits a pattern with `*` (any letters) and `?` (any one). */
int edgert_pattern_fits(edgert_text pattern, const char *text);

/* A new whole buffer in the device's memory; for a session by its number, and counted by its budget,
 * or for the app (0 and NULL). */
edgert_status edgert_buffer_create(edgert_device *device, uint64_t owner, edgert_budget *budget,
                                   edgert_memory kind, uint64_t size, edgert_buffer **out,
                                   edgert_error *error);

/* A whole buffer over host memory, EDGERT_UNSUPPORTED where the device cannot have it in place
 * (alignment, for one). `lender` is retained; `release` is called once with `user` at the end,
 * and also where this fails. Both may be NULL. */
edgert_status edgert_buffer_lend(edgert_device *device, const void *data, uint64_t size,
                                 int read_only, edgert_object *lender, void (*release)(void *user),
                                 void *user, edgert_buffer **out, edgert_error *error);

/* A part of a buffer; of a part of a buffer, too. */
edgert_status edgert_buffer_part(edgert_buffer *buffer, uint64_t offset, uint64_t length,
                                 edgert_buffer **out, edgert_error *error);

/* Let the host see a buffer's bytes at `host`, until the device is asked for anything again. */
edgert_status edgert_buffer_map(edgert_buffer *buffer, uint64_t offset, uint64_t size, int for_write,
                                edgert_error *error);

/* Somebody may write into a buffer from now on. */
static inline void edgert_buffer_touch(edgert_buffer *buffer) {
  edgert_buffer *whole = buffer->whole ? buffer->whole : buffer;
  if (EDGERT_HAS_ZEROS && whole->is_fresh) whole->is_fresh = 0;
}

/* Copy between the host and a buffer. */
edgert_status edgert_buffer_read(edgert_buffer *buffer, uint64_t offset, void *data,
                                 uint64_t size, edgert_error *error);
edgert_status edgert_buffer_write(edgert_buffer *buffer, uint64_t offset, const void *data,
                                  uint64_t size, edgert_error *error);

/* See to it that these bytes, all inside of it, may be used: those of a file that was signed. */
#if EDGERT_WITH_SIGNATURES
edgert_status edgert_buffer_trust(const edgert_buffer *buffer, uint64_t offset, uint64_t size,
                                  edgert_error *error);
#else
static inline edgert_status edgert_buffer_trust(const edgert_buffer *buffer, uint64_t offset,
                                                uint64_t size, edgert_error *error) {
  (void)buffer, (void)offset, (void)size, (void)error;
  return EDGERT_OK;
}
#endif

/* That `size` bytes at `offset` lie inside of `whole` bytes; says so where they do not. */
edgert_status edgert_range_check(uint64_t whole, uint64_t offset, uint64_t size,
                                 edgert_error *error);

/* A range with its slot replaced by the buffer bound there, its length known, all of it inside, and
 * what it holds to be used. */
edgert_status edgert_range_resolve(edgert_range range, const edgert_range *slots,
                                   size_t slot_count, edgert_range *out, edgert_error *error);

/* Its first byte on the host; only for devices whose buffers always have one. */
static inline uint8_t *edgert_range_host(const edgert_range *range) {
  return range->buffer->host + range->offset;
}

#endif
