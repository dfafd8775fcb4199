// Elements in fours, as they lie in memory: ROOM is what a buffer holds, ELEMENT one of the four,
// WIDE makes f32 of it.
#ifdef HALF
#extension GL_EXT_shader_16bit_storage : require
#define ROOM f16vec4
#define ELEMENT float16_t
#else
#define ROOM vec4
#define ELEMENT float
#endif
#define WIDE(x) vec4(x)
