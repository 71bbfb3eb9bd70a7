/* quantize_folder.h - the documents of an output that is a folder (inside engine/ only). */
#ifndef HANDOFF_QUANTIZE_FOLDER_H
#define HANDOFF_QUANTIZE_FOLDER_H

#include "engine/quantize_job.h"
#include "engine/staging.h"

/* Fails with 2 if the request asks for what only GGUF files have. */
int folder_check_request(const struct quantize_job *job, struct err *e);
/* Appends a number as the key's type wants it: "30.0" where Transformers reads a float. */
void folder_put_number(struct text *t, const char *key, double v);
/* JSON over several lines, as people read it. */
int folder_json(const struct staging *s, const char *name, const cJSON *json, struct err *e);
/* A file of the input's folder as it is; *copied says whether there was one. */
int folder_copy(const struct quantize_job *job, const struct staging *s, const char *name, bool *copied,
                struct err *e);
/* The input's file, or where it has none `json` (NULL: nothing). */
int folder_document(const struct quantize_job *job, const struct staging *s, const char *name, const cJSON *json,
                    struct err *e);
/* tokenizer.json; one that was made from another kind of file gets all that Hugging Face's tokenizers ask for. */
int folder_tokenizer(const struct quantize_job *job, const struct staging *s, struct err *e);
/* config.json without what other tools wrote into it about their codes; the caller deletes it. */
cJSON *folder_config(const struct quantize_job *job);

#endif
