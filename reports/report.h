/* report.h - results as text for people and machines: tables, Markdown, CSV, JSON.
 *
 * Everything here is a pure function of the structs in eval/results.h: the same results give the same bytes. Nothing
 * reads a clock, an environment variable or a file.
 */
#ifndef HANDOFF_REPORT_H
#define HANDOFF_REPORT_H

#include "engine/base.h"
#include "eval/results.h"

enum report_format { FORMAT_TERMINAL, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON };

/* The result of a verb in one of the formats; appended to `out`. `detail` shows the many columns. */
void report_auroc(const struct auroc_result *r, enum report_format format, bool detail, struct text *out);
void report_curve(const struct curve_result *r, enum report_format format, bool detail, struct text *out);

#endif
