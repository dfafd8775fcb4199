/* Small files that edgert keeps for the next time: written whole or not at all. */
#ifndef EDGERT_FILE_KEPT_H
#define EDGERT_FILE_KEPT_H

#include "memory.h"

/* Write beside it and put that in its place, so that others find a whole file or none: `head`, then
 * `data`. 0 where that fails. */
int edgert_file_replace(const char *path, const edgert_allocator *allocator, const void *head,
                        size_t head_size, const void *data, size_t size);

#endif
