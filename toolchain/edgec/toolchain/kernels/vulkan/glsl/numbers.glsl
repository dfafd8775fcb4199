// The kernel's integers (`kernels/vulkan/shaders.py` lists them): given at each call, or compiled in.
#ifdef NUMBERS
layout(push_constant) uniform Numbers { int NUMBERS; };
#endif
#ifdef CONSTANTS
CONSTANTS
#endif
