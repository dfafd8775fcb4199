/* A module proves itself: the golden calls that it brings, made on this device and compared.
 *
 * SPEC.md says how inputs come from a seed and what is known of outputs. The text that says so is not
 * trusted more than the rest of a module, and is read in one pass. */
#include <math.h>

#include "session.h"

#if EDGERT_WITH_PROVE

#include "format.h"
#include "json.h"
#include "tensor.h"
#include "verdicts.h"

#define PROVE_ATTRIBUTE "edgec.golden"
#define PROVE_EXACT ((int64_t)1 << 53)

enum {
  PROVE_MOST_CALLS = 64,
  PROVE_MOST_COUNT = 1 << 20,
  PROVE_MOST_LANES = 1 << 28,
  PROVE_MOST_EXPONENT = 1000
};

/* One call being proved. */
typedef struct prove {
  edgert_session *session;
  const edgert_allocator *allocator;
  edgert_json json;
  size_t function;
  char name[128]; /* the function's */
} prove;

/* A tensor as the text describes it; its lanes are plain numbers, of a complex one two. */
typedef struct prove_spec {
  uint32_t type;
  uint32_t lane; /* their type */
  size_t rank;
  int64_t shape[EDGERT_MAX_RANK];
  uint64_t lanes;
} prove_spec;

/* --- numbers ---------------------------------------------------------------------------------- */

static uint32_t prove_hash(uint32_t seed, uint64_t position) {
  uint32_t x = (uint32_t)position * 0x9E3779B9u + seed;
  x = (x ^ x >> 16) * 0x7FEB352Du;
  x = (x ^ x >> 15) * 0x846CA68Bu;
  return x ^ x >> 16;
}

/* 2 to the exponent, which is at most PROVE_MOST_EXPONENT. */
static double prove_power(int64_t exponent) {
  uint64_t bits = (uint64_t)(1023 + exponent) << 52;
  double power;
  memcpy(&power, &bits, sizeof power);
  return power;
}

static double prove_from_half(uint32_t bits) {
  uint32_t exponent = bits >> 10 & 31, fraction = bits & 1023;
  double size = fraction * 0x1p-24;
  if (exponent) size = (1024 + (double)fraction) * prove_power((int64_t)exponent - 25);
  if (exponent == 31) size = fraction ? (double)NAN : (double)INFINITY; /* which is no answer */
  return bits & 0x8000 ? -size : size;
}

/* What fits without rounding, as all that a module asks for does. */
static uint32_t prove_to_half(double value) {
  uint64_t bits;
  memcpy(&bits, &value, sizeof bits);
  uint32_t sign = bits >> 63 ? 0x8000 : 0;
  double size = sign ? -value : value;
  if (!(size < 65536)) return sign | 0x7C00;
  if (size < 0x1p-14) return sign | (uint32_t)(size * 0x1p24);
  return sign | (uint32_t)(((bits >> 52 & 2047) - 1008) << 10 | (bits >> 42 & 1023));
}

static double prove_load(const uint8_t *data, uint32_t type, uint64_t lane) {
  uint32_t bits = type & 0xFFFF;
  data += lane * (bits / 8);
  uint32_t word = bits == 8 ? *data : bits == 16 ? edgert_load_u16(data) : edgert_load_u32(data);
  float single;
  double number;
  switch (type) {
    case EDGERT_F16:
      return prove_from_half(word);
    case EDGERT_BF16:
      word <<= 16;
      /* falls through */
    case EDGERT_F32:
      memcpy(&single, &word, sizeof single);
      return (double)single;
    case EDGERT_F64:
      memcpy(&number, data, sizeof number);
      return number;
    case EDGERT_I8:
      return (int8_t)word;
    case EDGERT_I16:
      return (int16_t)word;
    case EDGERT_BOOL:
    case EDGERT_U8:
    case EDGERT_U16:
      return word;
    default: /* of 64 bits the low 32, of either sign */
      return (int32_t)word;
  }
}

static void prove_store(uint8_t *data, uint32_t type, uint64_t lane, int64_t value,
                        double power) {
  uint32_t bits = type & 0xFFFF;
  double number = (double)value * power;
  float single = (float)number;
  uint32_t word;
  data += lane * (bits / 8);
  switch (type) {
    case EDGERT_F16:
      value = prove_to_half(number);
      break;
    case EDGERT_BF16:
    case EDGERT_F32:
      memcpy(&word, &single, sizeof word);
      value = type == EDGERT_F32 ? word : word >> 16;
      break;
    case EDGERT_F64:
      memcpy(&value, &number, sizeof value);
      break;
    default:
      break;
  }
  memcpy(data, &value, bits / 8); /* the low bytes */
}

#if EDGERT_MESSAGES

/* Four digits: "-1.234e-5". */
static const char *prove_text(double value, char out[32]) {
  int exponent = 0;
  double size = value < 0 ? -value : value;
  if (!(size <= 1.7976931348623157e308) || size == 0) {
    edgert_format(out, 32, "%s", size == 0 ? "0" : value != value ? "NaN" : "infinite");
    return out;
  }
  for (; size >= 9.9995; ++exponent) size /= 10;
  for (; size < 0.99995; --exponent) size *= 10;
  unsigned digits = (unsigned)(size * 1000 + 0.5);
  edgert_format(out, 32, "%s%u.%u%u%ue%d", value < 0 ? "-" : "", digits / 1000, digits / 100 % 10,
                digits / 10 % 10, digits % 10, exponent);
  return out;
}

#endif

/* --- the text --------------------------------------------------------------------------------- */

/* Go to the member of that name, which comes behind those that were read. */
static int prove_member(edgert_json *json, edgert_json_scope *scope, const char *name) {
  edgert_text key;
  while (edgert_json_member(json, scope, &key)) {
    if (edgert_text_equal(key, name)) return 1;
    edgert_json_skip(json);
  }
  json->broken = 1;
  return 0;
}

static void prove_leave(edgert_json *json, edgert_json_scope *scope) {
  edgert_text key;
  while (edgert_json_member(json, scope, &key)) edgert_json_skip(json);
}

static int64_t prove_bounded(edgert_json *json, int64_t least, int64_t most) {
  int64_t value = edgert_json_integer(json);
  if (value < least || value > most) json->broken = 1;
  return json->broken ? least : value;
}

static int64_t prove_integer(edgert_json *json, edgert_json_scope *scope, const char *name,
                             int64_t least, int64_t most) {
  return prove_member(json, scope, name) ? prove_bounded(json, least, most) : least;
}

static int64_t prove_exponent(edgert_json *json, edgert_json_scope *scope, const char *name) {
  return prove_integer(json, scope, name, -PROVE_MOST_EXPONENT, PROVE_MOST_EXPONENT);
}

/* The next element of an array that must have one. */
static int64_t prove_next(edgert_json *json, edgert_json_scope *items, int64_t least,
                          int64_t most) {
  if (!edgert_json_element(json, items)) json->broken = 1;
  return prove_bounded(json, least, most);
}

static void prove_read_spec(edgert_json *json, edgert_json_scope *scope, prove_spec *out) {
  memset(out, 0, sizeof *out);
  edgert_json_scope sizes = {0, 0};
  char name[16] = "";
  if (prove_member(json, scope, "type"))
    edgert_json_decode(edgert_json_string(json), name, sizeof name);
  out->type = out->lane = edgert_type_parse(name);
  out->lanes = 1;
  if (out->type == EDGERT_C64 || out->type == EDGERT_C128) {
    out->lane = out->type == EDGERT_C64 ? EDGERT_F32 : EDGERT_F64;
    out->lanes = 2;
  }
  if (!prove_member(json, scope, "shape")) return;
  while (edgert_json_element(json, &sizes)) {
    int64_t size = prove_bounded(json, 0, PROVE_MOST_LANES);
    out->lanes *= (uint64_t)size;
    if (out->rank == EDGERT_MAX_RANK || out->lanes > PROVE_MOST_LANES) json->broken = 1;
    if (json->broken) return;
    out->shape[out->rank++] = size;
  }
  if (!out->type) json->broken = 1;
}

static edgert_status prove_damaged(edgert_error *error) {
  return EDGERT_FAIL(error, EDGERT_DAMAGED, "the module's golden calls are damaged");
}

/* --- inputs ----------------------------------------------------------------------------------- */

static edgert_status prove_input(prove *self, edgert_value *out, edgert_error *error) {
  edgert_json *json = &self->json;
  edgert_json_scope fields = {0, 0};
  prove_spec spec;
  prove_read_spec(json, &fields, &spec);
  int64_t base = prove_integer(json, &fields, "base", -PROVE_EXACT, PROVE_EXACT);
  int64_t step = prove_integer(json, &fields, "step", -PROVE_EXACT, PROVE_EXACT);
  int64_t count = prove_integer(json, &fields, "count", 1, PROVE_MOST_COUNT);
  double power = prove_power(prove_exponent(json, &fields, "exponent"));
  int64_t seed = prove_integer(json, &fields, "seed", -1, UINT32_MAX);
  prove_leave(json, &fields);
  if (step > PROVE_EXACT / count || step < -PROVE_EXACT / count) json->broken = 1;
  if (json->broken) return prove_damaged(error);
  edgert_tensor *tensor;
  edgert_status status =
      edgert_tensor_create(self->session->device, spec.type, spec.rank, spec.shape, &tensor, error);
  if (status != EDGERT_OK) return status;
  *out = (edgert_value){.kind = EDGERT_TENSOR, .as.tensor = tensor};
  size_t size = (size_t)edgert_tensor_size(tensor);
  void *data;
  status = edgert_allocate(self->allocator, size + 1, EDGERT_ALIGNMENT, &data, error);
  if (status != EDGERT_OK) return status;
  for (uint64_t i = 0; i < spec.lanes; ++i) {
    uint64_t hash = seed < 0 ? 0 : prove_hash((uint32_t)seed, i);
    int64_t k = seed < 0 ? (int64_t)(i % (uint64_t)count) : (int64_t)(hash * (uint64_t)count >> 32);
    prove_store(data, spec.lane, i, base + step * k, power);
  }
  status = edgert_tensor_write(tensor, data, size, error);
  edgert_deallocate(self->allocator, data);
  return status;
}

/* --- outputs ---------------------------------------------------------------------------------- */

#define PROVE_WORST 1e300

/* How far off a number is, as a part of what it may be: more than 1 where it is wrong. */
static double prove_share(double found, double wanted, double allowed) {
  double distance = found < wanted ? wanted - found : found - wanted;
  if (found == wanted) return 0;
  return distance < PROVE_WORST * allowed ? distance / allowed : PROVE_WORST; /* NaN, too */
}

static edgert_status prove_wrong(const prove *self, size_t index, const char *what,
                                 uint64_t from, double found, double wanted, edgert_error *error) {
  edgert_argument output;
  char texts[2][32];
  if (edgert_module_output(self->session->module, self->function, index, &output, NULL) != EDGERT_OK)
    output.name[0] = 0;
  (void)what, (void)from, (void)found, (void)wanted, (void)texts;
  return EDGERT_FAIL(error, EDGERT_WRONG_ANSWER, "%s (output %u) of %s is wrong: %s %llu is %s and "
                     "should be %s", output.name, (unsigned)index, self->name, what,
                     (unsigned long long)from, prove_text(found, texts[0]),
                     prove_text(wanted, texts[1]));
}

static edgert_status prove_samples(prove *self, edgert_json_scope *fields, const prove_spec *spec,
                                   const uint8_t *data, size_t index, edgert_error *error) {
  edgert_json *json = &self->json;
  double power = prove_power(prove_exponent(json, fields, "exponent"));
  edgert_json_scope items = {0, 0};
  uint64_t worst = 0;
  double most = 1, was = 0, should = 0;
  if (!prove_member(json, fields, "samples")) return prove_damaged(error);
  while (edgert_json_element(json, &items)) {
    uint64_t at = (uint64_t)prove_bounded(json, 0, (int64_t)spec->lanes - 1);
    double wanted = (double)prove_next(json, &items, -PROVE_EXACT, PROVE_EXACT) * power;
    double allowed = (double)prove_next(json, &items, 0, PROVE_EXACT) * power;
    if (json->broken) return prove_damaged(error);
    double found = prove_load(data, spec->lane, at), share = prove_share(found, wanted, allowed);
    if (share <= most) continue;
    worst = at, most = share, was = found, should = wanted;
  }
  if (was == should) return json->broken ? prove_damaged(error) : EDGERT_OK;
  return prove_wrong(self, index, "number", worst, was, should, error);
}

static edgert_status prove_sums(prove *self, edgert_json_scope *fields, const prove_spec *spec,
                                const uint8_t *data, size_t index, edgert_error *error) {
  edgert_json *json = &self->json;
  uint32_t seed = (uint32_t)prove_integer(json, fields, "seed", 0, UINT32_MAX);
  double power = prove_power(prove_exponent(json, fields, "sum_exponent"));
  if (!prove_member(json, fields, "sums")) return prove_damaged(error);
  edgert_json ahead = *json;
  edgert_json_scope counted = {0, 0}, items = {0, 0};
  uint64_t count = 0, at = 0;
  for (; edgert_json_element(&ahead, &counted); ++count) edgert_json_skip(&ahead);
  if ((count /= 2) > spec->lanes) return prove_damaged(error);
  for (uint64_t part = 1; edgert_json_element(json, &items); ++part) {
    double wanted = (double)prove_bounded(json, -PROVE_EXACT, PROVE_EXACT) * power;
    double allowed = (double)prove_next(json, &items, 0, PROVE_EXACT) * power;
    if (json->broken) return prove_damaged(error);
    uint64_t first = at, end = part * spec->lanes / count;
    double sum = 0;
    for (; at < end; ++at) {
      double number = prove_load(data, spec->lane, at);
      sum += prove_hash(seed, at) >> 31 ? -number : number;
    }
    if (!(prove_share(sum, wanted, allowed) <= 1))
      return prove_wrong(self, index, "the signed sum from number", first, sum, wanted, error);
  }
  return json->broken ? prove_damaged(error) : EDGERT_OK;
}

/* Whether the tensor has that type and shape. */
static int prove_fits(const edgert_tensor *tensor, const prove_spec *spec) {
  if (!edgert_type_fits(edgert_tensor_type(tensor), spec->type)) return 0;
  return edgert_tensor_rank(tensor) == spec->rank &&
         memcmp(edgert_tensor_shape(tensor), spec->shape, spec->rank * sizeof(int64_t)) == 0;
}

static edgert_status prove_output(prove *self, size_t index, const edgert_value *result,
                                  edgert_error *error) {
  edgert_json *json = &self->json;
  edgert_json_scope fields = {0, 0};
  prove_spec spec;
  prove_read_spec(json, &fields, &spec);
  if (json->broken || result->kind != EDGERT_TENSOR) return prove_damaged(error);
  if (!prove_fits(result->as.tensor, &spec))
    return EDGERT_FAIL(error, EDGERT_WRONG_ANSWER, "output %u of %s has another type or shape",
                       (unsigned)index, self->name);
  size_t size = (size_t)edgert_tensor_size(result->as.tensor);
  void *data;
  edgert_status status = edgert_allocate(self->allocator, size + 1, EDGERT_ALIGNMENT, &data, error);
  if (status != EDGERT_OK) return status;
  status = edgert_tensor_read(result->as.tensor, data, size, error);
  if (status == EDGERT_OK) status = prove_samples(self, &fields, &spec, data, index, error);
  if (status == EDGERT_OK) status = prove_sums(self, &fields, &spec, data, index, error);
  edgert_deallocate(self->allocator, data);
  prove_leave(json, &fields);
  return status;
}

/* --- calls ------------------------------------------------------------------------------------ */

static edgert_status prove_run(prove *self, edgert_json_scope *fields, edgert_value *inputs,
                               size_t takes, edgert_value *outputs, size_t gives,
                               edgert_error *error) {
  edgert_json *json = &self->json;
  edgert_json_scope given = {0, 0}, known = {0, 0};
  edgert_status status = EDGERT_OK;
  size_t count = 0;
  if (!prove_member(json, fields, "inputs")) return prove_damaged(error);
  for (; status == EDGERT_OK && edgert_json_element(json, &given); ++count)
    status = count < takes ? prove_input(self, &inputs[count], error) : prove_damaged(error);
  if (status == EDGERT_OK && count != takes) status = prove_damaged(error);
  if (status == EDGERT_OK)
    status = edgert_session_call(self->session, self->function, inputs, takes, outputs, gives,
                                 error);
  if (status != EDGERT_OK) return status;
  if (!prove_member(json, fields, "outputs")) return prove_damaged(error);
  for (count = 0; status == EDGERT_OK && edgert_json_element(json, &known); ++count)
    status = count < gives ? prove_output(self, count, &outputs[count], error) : prove_damaged(error);
  return status == EDGERT_OK && count != gives ? prove_damaged(error) : status;
}

static edgert_status prove_call(prove *self, edgert_error *error) {
  const edgert_module *module = self->session->module;
  edgert_json_scope fields = {0, 0};
  if (!prove_member(&self->json, &fields, "function")) return prove_damaged(error);
  edgert_json_decode(edgert_json_string(&self->json), self->name, sizeof self->name);
  if (edgert_module_find(module, self->name, &self->function, NULL) != EDGERT_OK)
    return prove_damaged(error);
  size_t takes = edgert_module_input_count(module, self->function);
  size_t gives = edgert_module_output_count(module, self->function);
  void *memory;
  edgert_status status = edgert_allocate_array(self->allocator, takes + gives + 1,
                                               sizeof(edgert_value), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_value *values = memory;
  status = prove_run(self, &fields, values, takes, values + takes, gives, error);
  for (size_t i = 0; i < takes + gives; ++i)
    if (values[i].kind == EDGERT_TENSOR) edgert_tensor_release(values[i].as.tensor);
  edgert_deallocate(self->allocator, memory);
  prove_leave(&self->json, &fields);
  return status;
}

/* A session like this one, its state at its first values. */
static edgert_status prove_fresh(edgert_session *like, edgert_session **out, edgert_error *error) {
  edgert_session_options options;
  memset(&options, 0, sizeof options);
  options.size = sizeof options;
  options.allocator = like->object.allocator;
  options.max_steps = like->max_steps;
  options.max_milliseconds = like->max_milliseconds;
  options.scope_count = like->scope_count;
  void *memory;
  edgert_status status = edgert_allocate_array(&options.allocator, like->scope_count + 1,
                                               sizeof(edgert_scope), &memory, error);
  if (status != EDGERT_OK) return status;
  edgert_scope *scopes = memory;
  for (size_t i = 0; i < like->scope_count; ++i)
    scopes[i] = (edgert_scope){like->scopes[i].name, like->scopes[i].weights};
  options.scopes = scopes;
  status = edgert_session_create(like->module, like->device, &options, out, error);
  edgert_deallocate(&options.allocator, memory);
  return status;
}

static edgert_status prove_all(edgert_session *session, const char *text, edgert_error *error) {
  prove self = {.json = edgert_json_begin(text, strlen(text))};
  edgert_json *json = &self.json;
  edgert_json_scope fields = {0, 0}, calls = {0, 0};
  edgert_session *fresh = NULL;
  edgert_status status = EDGERT_OK;
  size_t count = 0;
  (void)prove_integer(json, &fields, "schema", 1, 1);
  if (json->broken)
    return EDGERT_FAIL(error, EDGERT_UNSUPPORTED, "the module's golden calls are of another edgec");
  int64_t has_state = prove_integer(json, &fields, "state", 0, 1);
  if (!prove_member(json, &fields, "calls")) return prove_damaged(error);
  if (has_state) status = prove_fresh(session, &fresh, error);
  self.session = fresh ? fresh : session;
  self.allocator = &session->object.allocator;
  for (; status == EDGERT_OK && edgert_json_element(json, &calls); ++count)
    status = count < PROVE_MOST_CALLS ? prove_call(&self, error) : prove_damaged(error);
  edgert_session_release(fresh);
  if (status != EDGERT_OK) return status;
  prove_leave(json, &fields);
  return json->broken || !count ? prove_damaged(error) : EDGERT_OK;
}

/* --- verdicts --------------------------------------------------------------------------------- */

uint64_t edgert_session_identity(const edgert_session *session) {
  const edgert_module *module = session->module;
  const edgert_flatbuffer *tables = &module->flatbuffer;
  uint64_t words[4] = {session->device->identity,
                       edgert_bytes_hash((const uint8_t *)session->device->name,
                                         strlen(session->device->name)),
                       edgert_bytes_hash(tables->data, tables->size), module->checksums};
  for (uint32_t i = 0; !module->checksums && i < module->rodata_count; ++i)
    words[3] += edgert_bytes_hash(module->rodata[i].data, module->rodata[i].size) * (2 * i + 1);
  return edgert_bytes_hash((const uint8_t *)words, sizeof words);
}

edgert_status edgert_session_prove(edgert_session *session, const char *verdicts,
                                   edgert_error *error) {
  edgert_error own;
  if (!error) error = &own;
  edgert_error_clear(error);
  const char *text = edgert_module_attribute(session->module, SIZE_MAX, PROVE_ATTRIBUTE);
  if (!text)
    return EDGERT_FAIL(error, EDGERT_NOT_FOUND,
                       "the module brings no golden calls: compile it with --embed-golden");
  const edgert_allocator *allocator = &session->object.allocator;
  uint64_t identity = verdicts ? edgert_session_identity(session) : 0;
  edgert_status status;
  if (verdicts && edgert_verdicts_find(verdicts, allocator, identity, &status, error)) return status;
  status = prove_all(session, text, error);
  if (verdicts && (status == EDGERT_OK || status == EDGERT_WRONG_ANSWER) &&
      !edgert_verdicts_add(verdicts, allocator, identity, status, error->message))
    edgert_device_remark(session->device, "the file of verdicts cannot be written");
  return status;
}

#endif
