/* `handoff generate` against the goldens of ../shared/model, end to end: text, chat, pictures, sounds. */
#define _GNU_SOURCE
#include "engine/base.h"
#include "tests/test.h"

#include <stdlib.h>
#include <unistd.h>

#define MODEL "../shared/model/"

#define TINY "../shared/gguf/gguf-tiny-a/"

/* The goldens' checkpoint, or the same weights as GGUF: a file for the text, one for the towers, which know neither the
 * probe's layer nor the size of pictures. */
static const char *model = MODEL "tiny-a";
static const char gguf[] = TINY "tiny-a-hybrid-bf16.gguf --mmproj " TINY "mmproj-tiny-a-bf16.gguf --probe-layer 7 "
                           "--image-tokens 70";

static char scratch[] = "/tmp/handoff-generate-XXXXXX";

/* What the command prints, as JSON; NULL (and a failed check) if it does not succeed. */
static cJSON *run(const char *command)
{
    struct text out = {0};
    FILE *f = popen(command, "r");
    char part[4096];
    size_t n;
    while (f && (n = fread(part, 1, sizeof part, f)) > 0)
        text_put(&out, part, n);
    int status = f ? pclose(f) : -1;
    cJSON *json = NULL;
    if (CHECK_MSG(status == 0, "status %d: %s", status, command))
        json = cJSON_ParseWithLength(out.data ? out.data : "", out.len);
    text_free(&out);
    return json;
}

static bool same_ids(const cJSON *a, const cJSON *b)
{
    int n = cJSON_GetArraySize(a);
    if (n != cJSON_GetArraySize(b))
        return false;
    const cJSON *x = a ? a->child : NULL, *y = b ? b->child : NULL;
    for (; x; x = x->next, y = y->next)
        if (x->valueint != y->valueint)
            return false;
    return n > 0;
}

/* The prompt of a case as arguments: its messages in a file among links to the media, or its ids. */
static void prompt_arguments(const char *name, const cJSON *golden, struct text *command)
{
    if (!json_get(golden, "messages")) {
        const cJSON *id;
        text_puts(command, " --tokens ");
        cJSON_ArrayForEach(id, json_get(golden, "prompt_ids"))
            text_printf(command, "%d%s", id->valueint, id->next ? "," : "");
        return;
    }
    struct text file = {0};
    struct err e = {0};
    cJSON *request = cJSON_CreateObject();
    cJSON_AddItemReferenceToObject(request, "messages", cJSON_GetObjectItemCaseSensitive(golden, "messages"));
    cJSON_AddBoolToObject(request, "enable_thinking", cJSON_IsTrue(json_get(golden, "enable_thinking")));
    json_print(&file, request);
    text_printf(command, " --messages %s/%s.json", scratch, name);
    CHECK_MSG(!file_write_atomic(strrchr(command->data, ' ') + 1, file.data, file.len, &e), "%s", e.msg);
    cJSON_Delete(request);
    text_free(&file);
}

static void check_case(const char *name)
{
    struct text path = {0}, command = {0}, content = {0};
    struct err e = {0};
    text_printf(&path, MODEL "goldens/%s.json", name);
    CHECK_MSG(!file_read(path.data, 1 << 24, &content, &e), "%s", e.msg);
    /* Not json_parse: the text of one golden holds a NUL. */
    cJSON *golden = cJSON_ParseWithLength(content.data, content.len);
    const char *program = getenv("HANDOFF");
    text_printf(&command, "%s generate --json --max-tokens 64 --model %s",
                program ? program : "build/handoff", model);
    prompt_arguments(name, golden, &command);
    cJSON *got = run(command.data);
    if (got) {
        CHECK_MSG(same_ids(json_get(got, "tokens"), json_get(golden, "gen_ids")), "%s: other tokens", name);
        CHECK_MSG(json_get(got, "prompt_tokens")->valueint == json_get(golden, "prompt_tokens")->valueint,
                  "%s: %d prompt tokens", name, json_get(got, "prompt_tokens")->valueint);
        CHECK_MSG(strcmp(json_string(got, "stop"), json_string(golden, "stop")) == 0, "%s: stop", name);
        double confidence = json_get(got, "confidence")->valuedouble;
        CHECK_MSG(fabs(confidence - json_get(golden, "confidence")->valuedouble) < 2e-4, "%s: confidence %.6f", name,
                  confidence);
    }
    cJSON_Delete(got);
    cJSON_Delete(golden);
    text_free(&path);
    text_free(&command);
    text_free(&content);
}

static void check_kind(const char *kind, int count)
{
    struct err e = {0};
    if (!file_exists(MODEL "goldens/index.json"))
        SKIP("no " MODEL);
    cJSON *index = json_read_file(MODEL "goldens/index.json", 1 << 24, &e);
    const cJSON *entry;
    int n = 0;
    cJSON_ArrayForEach(entry, index) {
        if (strcmp(json_string(entry, "kind"), kind) != 0)
            continue;
        check_case(json_string(entry, "name"));
        n++;
    }
    CHECK_MSG(n == count, "%d cases of kind %s", n, kind);
    cJSON_Delete(index);
}

/* The same conversations as a user's own data through `run`. */
static void through_run(void)
{
    struct err e = {0};
    struct text file = {0}, command = {0}, content = {0};
    if (!file_exists(MODEL "goldens/index.json"))
        SKIP("no " MODEL);
    cJSON *index = json_read_file(MODEL "goldens/index.json", 1 << 24, &e), *goldens = cJSON_CreateArray();
    const cJSON *entry;
    cJSON_ArrayForEach(entry, index) {
        text_clear(&command);
        text_printf(&command, MODEL "goldens/%s.json", json_string(entry, "name"));
        CHECK(file_read(command.data, 1 << 24, &content, &e) == 0);
        cJSON *golden = cJSON_ParseWithLength(content.data, content.len);
        if (!json_get(golden, "messages") || cJSON_IsTrue(json_get(golden, "enable_thinking"))) {
            cJSON_Delete(golden);
            continue;
        }
        text_printf(&file, "{\"id\":\"%s\",\"type\":\"text\",\"messages\":", json_string(golden, "name"));
        json_print(&file, json_get(golden, "messages"));
        text_puts(&file, "}\n");
        cJSON_AddItemToArray(goldens, golden);
    }
    text_clear(&command);
    text_printf(&command, "%s/own.jsonl", scratch);
    CHECK(file_write_atomic(command.data, file.data, file.len, &e) == 0);
    const char *program = getenv("HANDOFF");
    text_clear(&command);
    text_printf(&command, "%s run --trace --max-tokens 64 --model " MODEL "tiny-a --data jsonl=%s/own.jsonl "
                "--out %s/run >%s/log 2>&1", program ? program : "build/handoff", scratch, scratch, scratch);
    CHECK_MSG(system(command.data) == 0, "%s", command.data);
    text_clear(&command);
    text_printf(&command, "%s/run/records.jsonl", scratch);
    CHECK_MSG(file_read(command.data, 1 << 24, &content, &e) == 0, "%s", e.msg);
    const char *at = content.len ? content.data : "";
    int n = 0;
    for (const cJSON *golden = goldens->child; golden; golden = golden->next, n++) {
        const char *end = strchr(at, '\n'), *name = json_string(golden, "name");
        cJSON *record = end ? cJSON_ParseWithLength(at, (size_t)(end - at)) : NULL;
        CHECK_MSG(record && strcmp(json_string(record, "id"), name) == 0, "%s: no record", name);
        CHECK_MSG(same_ids(json_get(json_get(record, "trace"), "tokens"), json_get(golden, "gen_ids")),
                  "%s: other tokens", name);
        const cJSON *confidence = json_get(record, "confidence");
        CHECK_MSG(confidence && fabs(confidence->valuedouble - json_get(golden, "confidence")->valuedouble) < 2e-4,
                  "%s: confidence", name);
        cJSON_Delete(record);
        at = end ? end + 1 : at;
    }
    CHECK_MSG(n == 16, "%d conversations", n);
    cJSON_Delete(goldens);
    cJSON_Delete(index);
    text_free(&file);
    text_free(&command);
    text_free(&content);
}

static void text_cases(void) { check_kind("text", 13); }
static void image_cases(void) { check_kind("image", 7); }
static void audio_cases(void) { check_kind("audio", 4); }
static void mixed_cases(void) { check_kind("mixed", 2); }

static void gguf_cases(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    model = gguf;
    check_kind("text", 13);
    check_kind("image", 7);
    check_kind("audio", 4);
    check_kind("mixed", 2);
}

/* The towers in half precision, the decoder in another file without a probe, and the probe in a third: near enough to
 * the goldens for the same greedy tokens and confidence. */
static void three_files(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    model = TINY "tiny-a-plain-f16.gguf --mmproj " TINY "mmproj-tiny-a-f16.gguf --probe-layer 7 --image-tokens 70 "
            "--probe " MODEL "tiny-a-hybrid";
    check_kind("mixed", 2);
    model = TINY "tiny-a-plain-f16.gguf --probe " TINY "tiny-a-hybrid-q4_0.gguf --probe-layer 7";
    check_case("text_short");
}

/* A folder with the decoder and the probe alone takes its towers from a projector file. */
static void folder_and_towers(void)
{
    if (!file_exists(TINY "README.md"))
        SKIP("no " TINY);
    model = MODEL "tiny-a-hybrid --mmproj " TINY "mmproj-tiny-a-bf16.gguf --image-tokens 70";
    check_kind("image", 7);
    check_kind("mixed", 2);
}

int main(void)
{
    char command[256];
    if (mkdtemp(scratch)) {
        snprintf(command, sizeof command, "cp " MODEL "media/* %s/ 2>/dev/null", scratch);
        CHECK(system(command) == 0 || !file_exists(MODEL));
    }
    RUN(text_cases);
    RUN(image_cases);
    RUN(audio_cases);
    RUN(mixed_cases);
    RUN(gguf_cases);
    RUN(three_files);
    RUN(folder_and_towers);
    RUN(through_run);
    snprintf(command, sizeof command, "rm -rf %s", scratch);
    return system(command) ? 1 : test_report();
}
