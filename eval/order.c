#include "eval/order.h"
#include "engine/base.h"

#include <stdlib.h>
#include <string.h>

enum { DIGIT_BITS = 11, N_DIGITS = 6, RADIX = 1 << DIGIT_BITS, SMALL = 64 };

uint64_t order_key(double v, int descending)
{
    uint64_t u;
    v += 0.0;                                   /* -0.0 becomes 0.0 */
    memcpy(&u, &v, sizeof u);
    u = u >> 63 ? ~u : u | UINT64_C(1) << 63;
    return descending ? ~u : u;
}

static double key_value(uint64_t u)
{
    double v;
    u = u >> 63 ? u & ~(UINT64_C(1) << 63) : ~u;
    memcpy(&v, &u, sizeof v);
    return v;
}

static void insertion_sort(struct keyed *a, size_t n)
{
    for (size_t i = 1; i < n; i++) {
        struct keyed x = a[i];
        size_t j = i;
        for (; j > 0 && a[j - 1].key > x.key; j--)
            a[j] = a[j - 1];
        a[j] = x;
    }
}

void order_sort(struct keyed *a, size_t n)
{
    if (n <= SMALL) {
        insertion_sort(a, n);
        return;
    }
    struct keyed *buffer = NEW(struct keyed, n), *from = a, *to = buffer;
    size_t *count = NEW(size_t, N_DIGITS * RADIX);
    for (size_t i = 0; i < n; i++)
        for (int d = 0; d < N_DIGITS; d++)
            count[d * RADIX + (a[i].key >> d * DIGIT_BITS & (RADIX - 1))]++;
    for (int d = 0; d < N_DIGITS; d++) {
        size_t *c = count + d * RADIX, sum = 0;
        int shift = d * DIGIT_BITS;
        if (c[from[0].key >> shift & (RADIX - 1)] == n)
            continue;                           /* all rows share this digit */
        for (int b = 0; b < RADIX; b++) {
            size_t here = c[b];
            c[b] = sum;
            sum += here;
        }
        for (size_t i = 0; i < n; i++)
            to[c[from[i].key >> shift & (RADIX - 1)]++] = from[i];
        struct keyed *t = from;
        from = to;
        to = t;
    }
    if (from != a)
        memcpy(a, from, n * sizeof *a);
    free(count);
    free(buffer);
}

struct keyed *order_of(const double *v, size_t n)
{
    if (n == 0)
        return NULL;
    struct keyed *a = NEW(struct keyed, n);
    for (size_t i = 0; i < n; i++)
        a[i] = (struct keyed){order_key(v[i], 0), i};
    order_sort(a, n);
    return a;
}

void order_doubles(double *v, size_t n)
{
    struct keyed *a = order_of(v, n);
    for (size_t i = 0; i < n; i++)
        v[i] = key_value(a[i].key);
    free(a);
}
