/* order.h - rows in the order of a score: the one sort that every statistic here stands on.
 *
 * Doubles are mapped to integers that compare the same way (-0.0 equals 0.0, infinities at the ends) and sorted by
 * radix, stable in the row number, in linear time. A NaN has no place in an order: the caller leaves such rows out.
 */
#ifndef HANDOFF_ORDER_H
#define HANDOFF_ORDER_H

#include <stddef.h>
#include <stdint.h>

struct keyed { uint64_t key; uint64_t row; };

/* Key of a double; `descending` turns the order round. */
uint64_t order_key(double v, int descending);

/* Sorts a[n] by (key, row), given that equal keys stand in the order of their rows. Needs 16 more bytes a row while it
 * runs. */
void order_sort(struct keyed *a, size_t n);

/* All n rows of v in ascending order; NaN must not occur. The caller frees the result (NULL for n = 0). */
struct keyed *order_of(const double *v, size_t n);

/* Sorts v[n] in place, ascending; NaN must not occur. */
void order_doubles(double *v, size_t n);

#endif
