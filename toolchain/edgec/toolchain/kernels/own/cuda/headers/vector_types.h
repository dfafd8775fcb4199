#include "edgec_cuda.h"
