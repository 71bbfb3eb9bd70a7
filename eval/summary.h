/* summary.h - what a run holds so far, task by task: how many samples, and the task's own metric (inside eval/ only). */
#ifndef HANDOFF_SUMMARY_H
#define HANDOFF_SUMMARY_H

#include "engine/base.h"

/* Appends a table: samples, unparsed answers, errors, the share right, the mean score of graded answers (ANLS), the
 * corpus WER of transcriptions, and where samples come in groups (MMBench's rotations) the share of groups in which
 * every answer is right. A torn last line is left out. */
int run_summary(const char *dir, struct text *out, struct err *e);

#endif
