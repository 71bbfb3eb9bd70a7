/* export_parquet.c - records as a flat table for notebooks: nested keys are joined by '_', lists are JSON texts. */
#include "eval/export.h"
#include "eval/parquet_write.h"

#include <math.h>
#include <string.h>

/* A column and where its value lies in a record. */
static const struct { struct parquet_column column; const char *group, *key; } columns[] = {
    {{"id", PARQUET_STRING}, NULL, "id"},
    {{"task", PARQUET_STRING}, NULL, "task"},
    {{"modality", PARQUET_STRING}, NULL, "modality"},
    {{"group", PARQUET_STRING}, NULL, "group"},
    {{"subject", PARQUET_STRING}, NULL, "subject"},
    {{"question", PARQUET_STRING}, NULL, "question"},
    {{"options", PARQUET_STRING}, NULL, "options"},
    {{"output", PARQUET_STRING}, NULL, "output"},
    {{"answer", PARQUET_STRING}, NULL, "answer"},
    {{"gold", PARQUET_STRING}, NULL, "gold"},
    {{"status", PARQUET_STRING}, NULL, "status"},
    {{"error", PARQUET_STRING}, NULL, "error"},
    {{"correct", PARQUET_BOOL}, NULL, "correct"},
    {{"score", PARQUET_DOUBLE}, NULL, "score"},
    {{"wer_edits", PARQUET_INT64}, "wer", "edits"},
    {{"wer_words", PARQUET_INT64}, "wer", "words"},
    {{"confidence", PARQUET_DOUBLE}, NULL, "confidence"},
    {{"p_wrong", PARQUET_DOUBLE}, NULL, "p_wrong"},
    {{"probe_logit", PARQUET_DOUBLE}, NULL, "probe_logit"},
    {{"confidence_without_stop", PARQUET_DOUBLE}, NULL, "confidence_without_stop"},
    {{"entropy_mean", PARQUET_DOUBLE}, "entropy", "mean"},
    {{"entropy_max", PARQUET_DOUBLE}, "entropy", "max"},
    {{"entropy_first", PARQUET_DOUBLE}, "entropy", "first"},
    {{"entropy_sum", PARQUET_DOUBLE}, "entropy", "sum"},
    {{"logprob", PARQUET_DOUBLE}, NULL, "logprob"},
    {{"margin", PARQUET_DOUBLE}, NULL, "margin"},
    {{"tokens", PARQUET_INT64}, NULL, "tokens"},
    {{"prompt_tokens", PARQUET_INT64}, NULL, "prompt_tokens"},
    {{"stop", PARQUET_STRING}, NULL, "stop"},
    {{"prompt_sha", PARQUET_STRING}, NULL, "prompt_sha"},
    {{"ms_encode", PARQUET_DOUBLE}, "ms", "encode"},
    {{"ms_prefill", PARQUET_DOUBLE}, "ms", "prefill"},
    {{"ms_decode", PARQUET_DOUBLE}, "ms", "decode"},
};
enum { N_COLUMNS = sizeof columns / sizeof *columns };

static void put_text(struct parquet_writer *w, int column, const cJSON *v)
{
    if (cJSON_IsString(v)) {
        parquet_put_string(w, column, v->valuestring, strlen(v->valuestring));
        return;
    }
    struct text t = {0};
    json_print(&t, v);
    parquet_put_string(w, column, t.data, t.len);
    text_free(&t);
}

static int put_record(void *arg, const cJSON *record, const char *where, struct err *e)
{
    struct parquet_writer *w = arg;
    for (int i = 0; i < N_COLUMNS; i++) {
        const cJSON *from = columns[i].group ? json_get(record, columns[i].group) : record;
        const cJSON *v = json_get(from, columns[i].key);
        const enum parquet_type type = columns[i].column.type;
        if (!v || cJSON_IsNull(v))
            continue;
        if (type == PARQUET_BOOL ? !cJSON_IsBool(v) : type != PARQUET_STRING && !cJSON_IsNumber(v))
            return err_input(e, "%s: key \"%s\": %s was expected", where, columns[i].key,
                             type == PARQUET_BOOL ? "true or false" : "a number");
        if (type == PARQUET_INT64 && (v->valuedouble != floor(v->valuedouble) || fabs(v->valuedouble) > 0x1p53))
            return err_input(e, "%s: key \"%s\": a whole number was expected", where, columns[i].key);
        if (type == PARQUET_BOOL)
            parquet_put_bool(w, i, cJSON_IsTrue(v));
        else if (type == PARQUET_INT64)
            parquet_put_int64(w, i, (int64_t)v->valuedouble);
        else if (type == PARQUET_DOUBLE)
            parquet_put_double(w, i, v->valuedouble);
        else
            put_text(w, i, v);
    }
    parquet_end_row(w);
    return 0;
}

int export_parquet(const char *run, const char *out, struct err *e)
{
    struct parquet_column column[N_COLUMNS];
    for (int i = 0; i < N_COLUMNS; i++)
        column[i] = columns[i].column;
    struct parquet_writer *w = parquet_writer_new(column, N_COLUMNS);
    struct text file = {0}, stamp_text = {0};
    cJSON *stamp;
    int failed = export_stamp(&stamp, run, e) || export_each(run, put_record, w, e) ? -1 : 0;
    if (stamp) {
        json_print(&stamp_text, stamp);
        parquet_note(w, "handoff.run", stamp_text.data);
    }
    parquet_finish(w, &file);
    if (!failed)
        failed = file_write_atomic(out, file.data, file.len, e);
    text_free(&file);
    text_free(&stamp_text);
    cJSON_Delete(stamp);
    return failed;
}
