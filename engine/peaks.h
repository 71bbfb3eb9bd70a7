/* peaks.h - multiply-adds in narrow types, as fast as this CPU can (inside engine/ only). */
#ifndef HANDOFF_PEAKS_H
#define HANDOFF_PEAKS_H

#include <stdbool.h>
#include <stdint.h>

/* Runs that many rounds; the sum is only returned so that the compiler must make it. */
struct peak { float (*run)(int64_t rounds); int multiply_adds; /* of a round */ };
/* false: this CPU has no instructions for dot products of 8-bit integers, of bf16. */
bool peak_int8(struct peak *p);
bool peak_bf16(struct peak *p);

#endif
