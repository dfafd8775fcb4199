#pragma once
#include "edgec_cuda.h"
#define CUDART_INF_F __int_as_float(0x7F800000)
#define CUDART_NAN_F __int_as_float(0x7FFFFFFF)
#define CUDART_MIN_DENORM_F __int_as_float(1)
#define CUDART_MAX_NORMAL_F __int_as_float(0x7F7FFFFF)
#define CUDART_NEG_ZERO_F __int_as_float((int)0x80000000)
#define CUDART_ZERO_F 0.0f
#define CUDART_ONE_F 1.0f
#define CUDART_PI_F 3.141592654f
#define CUDART_PIO2_F 1.570796327f
#define CUDART_PIO4_F 0.785398163f
#define CUDART_2_OVER_PI_F 0.636619772f
#define CUDART_SQRT_TWO_F 1.414213562f
#define CUDART_SQRT_HALF_F 0.707106781f
#define CUDART_L2E_F 1.442695041f
#define CUDART_LN2_F 0.693147181f
#define CUDART_LNT_F 2.302585093f
#define CUDART_L2T_F 3.321928095f
#define CUDART_LG2_F 0.301029996f
#define CUDART_LGE_F 0.434294482f
#define CUDART_INF __longlong_as_double(0x7FF0000000000000ll)
#define CUDART_NAN __longlong_as_double(0x7FF8000000000000ll)
#define CUDART_PI 3.1415926535897931
