/* tune.h - how many samples to decode at a time on this machine (inside eval/ only). */
#ifndef HANDOFF_TUNE_H
#define HANDOFF_TUNE_H

#include "engine/engine.h"

/* Measures decode steps of 1, 2, 4, ... sequences, at most `limit`, until twice as many make too little difference. The
 * batch never changes a result. A second or two with a model of some billions of weights. */
int tune_batch(struct engine *m, int limit, int *batch, struct err *e);

#endif
