/* viewer.h - the sample viewer's part of the page (inside reports/ only). */
#ifndef HANDOFF_VIEWER_H
#define HANDOFF_VIEWER_H

#include "reports/report.h"

/* Controls, list and the data that page.js reads. */
void put_viewer(const struct report_input *in, struct text *out);
/* A JSON string that may stand inside <script>: '<' is written as an escape. */
void put_script_string(struct text *out, const char *s);

#endif
