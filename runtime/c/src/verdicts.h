/* What came of proving, kept in a file: a line a verdict, of what was proved and how it ended. */
#ifndef EDGERT_VERDICTS_H
#define EDGERT_VERDICTS_H

#include "memory.h"

/* Whether the file has a verdict: its status and, of EDGERT_WRONG_ANSWER, what was wrong. What is
 * damaged or cannot be read was never found out. */
int edgert_verdicts_find(const char *path, const edgert_allocator *allocator, uint64_t identity,
                         edgert_status *out, edgert_error *error);

/* Add one behind the latest of those that are there; 0 where that fails. */
int edgert_verdicts_add(const char *path, const edgert_allocator *allocator, uint64_t identity,
                        edgert_status status, const char *message);

#endif
