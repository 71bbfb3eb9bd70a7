/* report.h - results as text for people and machines: tables, Markdown, CSV, JSON.
 *
 * Everything here is a pure function of the structs in eval/results.h: the same results give the same bytes. Nothing
 * reads a clock, an environment variable or a file.
 */
#ifndef HANDOFF_REPORT_H
#define HANDOFF_REPORT_H

#include "engine/base.h"
#include "eval/results.h"

enum report_format { FORMAT_TERMINAL, FORMAT_MARKDOWN, FORMAT_CSV, FORMAT_JSON, FORMAT_HTML };

/* The result of a verb in one of the formats; appended to `out`. `detail` shows the many columns. */
void report_auroc(const struct auroc_result *r, enum report_format format, bool detail, struct text *out);
/* The tables of --detail for one run; not JSON. */
void report_auroc_detail(const struct auroc_run *run, enum report_format format, struct text *out);
void report_curve(const struct curve_result *r, enum report_format format, bool detail, struct text *out);
void report_calibrate(const struct calibrate_result *r, enum report_format format, bool detail, struct text *out);
/* The thresholds file that a router loads; ends with the SHA-256 of what stands before it. */
void report_thresholds_file(const struct calibrate_result *r, struct text *out);
void report_compare(const struct compare_result *r, enum report_format format, bool detail, struct text *out);
/* Tables by hold-out, one for each model; JSON is one value without a line feed. */
void report_replay(const struct replay_result *r, enum report_format format, struct text *out);
/* Where two engines part ways, by hold-out. */
void report_engines(const struct engines_result *r, enum report_format format, struct text *out);
void report_plan(const struct plan_result *r, enum report_format format, struct text *out);
void report_compare_junit(const struct compare_result *r, struct text *out);

/* The whole report as one HTML page that fetches nothing, and as Markdown. */
void report_html(const struct report_input *in, struct text *out);
void report_markdown(const struct report_input *in, struct text *out);
/* The publisher's tables by quant: handoff to match, drift. */
void report_match_by_quant(const struct report_input *in, enum report_format format, struct text *out);
void report_drift_by_quant(const struct report_input *in, enum report_format format, struct text *out);
/* What the figures rest on, for readers. */
const char *const *report_decisions(int *n);
/* Every plot as a file of its own: name without folder, content. A callback that returns non-zero stops. */
int report_pictures(const struct report_input *in, int (*emit)(const char *name, const struct text *svg, void *to),
                    void *to);

#endif
