/* split.h - the parts of a confidence drift, in a report of `compare` (inside reports/ only). */
#ifndef HANDOFF_SPLIT_H
#define HANDOFF_SPLIT_H

#include "reports/json_out.h"
#include "reports/table.h"

void json_split(struct json_out *j, const struct drift_split *s);               /* under the key "replay" */
/* c->split is there. */
void split_table(struct table *t, const struct compare_result *c, bool all_columns);

#endif
