// Elements in fours, as they lie in memory: ROOM is what a buffer holds, WIDE makes f32 of it.
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define ROOM f16vec4
#else
#define ROOM vec4
#endif
#define WIDE(x) vec4(x)
