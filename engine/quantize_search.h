/* quantize_search.h - searches for the scales of four groups of a row at once (inside engine/ only).
 *
 * Each group has its own lane of a vector and is treated as if it were alone: its sums run in float32 in ascending
 * order, so the result is that of a loop over one group. Codes are whole numbers in floats. */
#ifndef HANDOFF_QUANTIZE_SEARCH_H
#define HANDOFF_QUANTIZE_SEARCH_H

#include <stdbool.h>
#include <stdint.h>

enum { LANES = 4, MAX_GROUP = 32 };
typedef float lanes __attribute__((vector_size(16)));
typedef int32_t lane_mask __attribute__((vector_size(16)));

/* x ~ scale (code - top), code in [0, 2 top). */
lanes search_signed(const lanes *x, const lanes *w, int n, int top, lanes *code);
/* The same with weights x^2, from one candidate; then single codes move while that helps. */
lanes search_signed_refined(const lanes *x, int n, int top, lanes *code);

/* x ~ scale code - minus, code in [0, top], minus >= 0: the least-squares line for each of count + 1 candidates of the
 * step, (first + step k + top) / range. `absolute`: the error that is compared is |.|, not its square. */
struct line_search { float first, step; int count; bool absolute; };
lanes search_line(const lanes *x, const lanes *w, int n, int top, struct line_search s, lanes *code, lanes *minus);

/* x ~ scale level[k] of the sixteen uneven levels; groups of 32. */
lanes search_levels(const lanes *x, const lanes *w);
/* The levels nearest to x / d: their indices. */
void code_levels(const float *x, float d, uint8_t code[32]);

/* 32 values as scale * code, |code| <= 127; returns the scale. */
float code_bytes(const float *x, int8_t code[32]);

/* v[i] with the sign of each lane dropped. */
static inline lanes magnitude(lanes v)
{
    return (lanes)((lane_mask)v & 0x7fffffff);
}

static inline lanes select_lanes(lane_mask mask, lanes yes, lanes no)
{
    return (lanes)((mask & (lane_mask)yes) | (~mask & (lane_mask)no));
}

#endif
