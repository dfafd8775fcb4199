// What kernels for matrix units share: tiles of BM rows and BN columns, of which a subgroup of 32
// threads sums WM x WN, 16 x 16 x 16 at a time in f32. SPLIT subgroups share the inside of the same
// WM x WN: where tiles are few, one subgroup's waiting for its numbers is all that takes time.
// Sizes along k and n are multiples of 8. What waits in shared memory lies as in the operands.
#extension GL_EXT_control_flow_attributes : require
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#extension GL_KHR_cooperative_matrix : require
#extension GL_KHR_memory_scope_semantics : require
#extension GL_KHR_shader_subgroup_basic : require
#pragma use_vulkan_memory_model
#include "storage.glsl"

#if SPLIT > 1
#define TOGETHER barrier()
#else
#define TOGETHER subgroupBarrier()
#endif

layout(local_size_x = THREADS) in;
layout(binding = 0) readonly buffer A { uvec4 a[]; };
layout(binding = 1) readonly buffer B { uvec4 b[]; };
layout(binding = 2) readonly buffer Bias { ROOM bias[]; };
layout(binding = 3) readonly buffer Scale { ROOM scale[]; };
layout(binding = 4) readonly buffer Other { ROOM other[]; };
layout(binding = 5) writeonly buffer C { ROOM c[]; };
layout(binding = 5) writeonly buffer CWide { vec4 c_wide[]; };

#include "numbers.glsl"
#include "finish.glsl"

// Eight elements are one piece; a row has one piece more, so that rows lie in other banks.
const int QK = BK / 8;
const int A_ROW = QK + 1;
const int A_SIZE = BM * A_ROW;
const int A_LOADS = BM * QK / THREADS;
const int QB = BN / 8;
const int B_ROW = QB + 1;
const int B_SIZE = BK * B_ROW;
const int B_LOADS = BN * QK / THREADS;
const int ACROSS = BN / WN;
const int GROUPS = BM / WM * ACROSS;
const int FM = WM / 16;
const int FN = WN / 16;

const int B_TILES = 2 * A_SIZE;  // Where those of the right side begin.

// In the end a subgroup has a patch of them for its sums, of P_ROW fours of f32 a row.
const int FOURS = WN / 4;
const int P_ROW = FOURS + 1;
const int PATCH = 16 * P_ROW;
const int DOWN = 32 / FOURS;   // Rows that its threads finish at a time,
const int EACH = 16 / DOWN / SPLIT;  // and how often each of those that share an inside does.

shared uvec4 tiles[2 * (A_SIZE + B_SIZE)];
