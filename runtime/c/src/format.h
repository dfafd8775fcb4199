/* Text from a pattern and values: as much of printf as messages need, at a fraction of its size. */
#ifndef EDGERT_FORMAT_H
#define EDGERT_FORMAT_H

#include <stdarg.h>
#include <stddef.h>

/* Write at most `size` bytes, the last of them 0, and return how many came before it. `size` is 1
 * at least. Known are %s, %.*s, %d, %u and %x, the numbers with `ll` and as `%08x`. */
size_t edgert_format(char *out, size_t size, const char *pattern, ...)
#if defined(__GNUC__)
    __attribute__((format(printf, 3, 4)))
#endif
    ;
size_t edgert_format_list(char *out, size_t size, const char *pattern, va_list values);

#endif
