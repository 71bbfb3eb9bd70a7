/* quantize_cq.h - the documents of a Cactus bundle that is being written (inside engine/ only). */
#ifndef HANDOFF_QUANTIZE_CQ_H
#define HANDOFF_QUANTIZE_CQ_H

#include "engine/quantize_folder.h"

/* config.json and config.txt, the tokenizer in both its forms, the chat template, what the input has besides. */
int cq_write_documents(const struct quantize_job *job, const struct staging *s, struct err *e);

#endif
