/* towers.h - the vision and audio towers (inside engine/ only): from encoded bytes to soft tokens. */
#ifndef HANDOFF_TOWERS_H
#define HANDOFF_TOWERS_H

#include "engine/kernels.h"

/* A checkpoint has a tower if its config describes it ("vision_config") and its weights are there ("model.vision_tower.":
 * text-only copies keep the former). */
bool tower_in(const cJSON *config, const struct weights *w, const char *key, const char *prefix);

/* Both take their sizes from config.json and the tensors' shapes, and refuse what does not fit together. `processor`
 * is processor_config.json (or preprocessor_config.json), NULL if the checkpoint has none. */
struct vision;
int vision_open(struct vision **out, const struct weights *w, const cJSON *config, const cJSON *processor,
                int image_tokens, struct err *e);
void vision_close(struct vision *v);
/* Fills out[i] (soft, part_tokens, n_tokens, input_sha) for each picture; errs[i].code != 0 where one failed.
 * Returns how many failed. Same bits however many are encoded at once. */
int vision_encode(const struct vision *v, const struct compute *c, const struct media *media, int n,
                  struct media_tokens *out, struct err *errs);

struct audio;
int audio_open(struct audio **out, const struct weights *w, const cJSON *config, const cJSON *processor,
               struct err *e);
void audio_close(struct audio *a);
int audio_encode(const struct audio *a, const struct compute *c, const struct media *media, int n,
                 struct media_tokens *out, struct err *errs);

#endif
