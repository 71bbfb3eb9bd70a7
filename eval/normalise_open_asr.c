/* The Open ASR Leaderboard's English normaliser of 2026. Its word lists are those of the leaderboard's repository
 * (normalizer/english_abbreviations.py, Apache License 2.0, The OpenAI team and The HuggingFace Team). */
#include "eval/normalise.h"

#define COUNT(table) (sizeof (table) / sizeof (table)[0])

static const char *const fillers[] = {"hmm", "mm", "mhm", "mmm", "uh", "um", "ah", "aha", "ahh", "ahm", "eh", "ehehe",
                                      "em", "hm", "huh", "hum", "mhum", "uhm", "umm", "uhuh", NULL};

static const struct replacement possessive[] = {
    {"it's", "it is", true},       {"he's", "he is", true},       {"she's", "she is", true},
    {"what's", "what is", true},   {"that's", "that is", true},   {"who's", "who is", true},
    {"here's", "here is", true},   {"there's", "there is", true}, {"how's", "how is", true},
    {"when's", "when is", true},   {"where's", "where is", true}, {"why's", "why is", true},
    {"this's", "this is", true}};

static const struct replacement compounds[] = {
    {"et~cetera", "etc", true},    {"al~right", "alright", true}, {"all~right", "alright", true},
    {"how~ever", "however", true}, {"wi~fi", "wifi", true},       {"hi~fi", "hifi", true},
    {"lo~fi", "lofi", true},       {"sci~fi", "scifi", true},     {"e~mail", "email", true},
    {"e~book", "ebook", true},     {"e~commerce", "ecommerce", true}, {"x~ray", "xray", true},
    {"t~shirt", "tshirt", true},   {"a~m", "am", true},           {"p~m", "pm", true},
    {"o~k", "okay", true}};

/* Where the leaderboard's spellings differ from Whisper's. */
static const struct word_pair spellings[] = {
    {"archaeological", "archeological"}, {"archaeology", "archeology"}, {"archeological", "archeological"},
    {"cancelation", "cancelation"}, {"cancelations", "cancelations"}, {"cancellation", "cancelation"},
    {"cancellations", "cancelations"}, {"etcetera", "etc"}, {"flyer", "flier"}, {"kay", "okay"}, {"mm", "hmm"},
    {"ok", "okay"}, {"pummelled", "pummeled"}, {"pummelling", "pummeling"}, {"snowploughs", "snowplows"},
    {"travelog", "travelog"}, {"travelogs", "travelogs"}, {"travelogue", "travelog"}, {"travelogues", "travelogs"}};

static const struct word_pair names[] = {
    {"alan", "allen"}, {"allan", "allen"}, {"allison", "alison"}, {"alphonso", "alfonso"}, {"alyson", "alison"},
    {"ann", "anne"}, {"antony", "anthony"}, {"aron", "aaron"}, {"artur", "arthur"}, {"bret", "brett"},
    {"bridgette", "bridget"}, {"bryan", "brian"}, {"caren", "karen"}, {"carole", "carol"}, {"carrol", "carol"},
    {"carroll", "carol"}, {"caryn", "karen"}, {"catharine", "catherine"}, {"charley", "charlie"},
    {"charly", "charlie"}, {"cheri", "sherry"}, {"collin", "colin"}, {"cristopher", "christopher"},
    {"denis", "dennis"}, {"devorah", "deborah"}, {"dillon", "dylan"}, {"dominick", "dominic"},
    {"douglass", "douglas"}, {"erick", "eric"}, {"erik", "eric"}, {"fatimah", "fatima"}, {"frederik", "frederick"},
    {"fredrick", "frederick"}, {"garry", "gary"}, {"gayle", "gail"}, {"geoff", "jeff"}, {"geoffrey", "jeffrey"},
    {"gregg", "greg"}, {"henri", "henry"}, {"jacky", "jackie"}, {"jaime", "jamie"}, {"jayson", "jason"},
    {"jeffery", "jeffrey"}, {"joane", "joanne"}, {"joann", "joanne"}, {"johnathan", "jonathan"}, {"jon", "john"},
    {"jonathon", "jonathan"}, {"josef", "joseph"}, {"kaitlin", "caitlin"}, {"kaitlyn", "caitlin"}, {"karin", "karen"},
    {"karl", "carl"}, {"katelyn", "caitlin"}, {"katherine", "catherine"}, {"kathryn", "catherine"},
    {"kathy", "cathy"}, {"kelley", "kelly"}, {"kelli", "kelly"}, {"kellye", "kelly"}, {"kevan", "kevin"},
    {"kris", "chris"}, {"kristen", "kristin"}, {"kristina", "christina"}, {"kristopher", "christopher"},
    {"laurence", "lawrence"}, {"leigh", "lee"}, {"lesley", "leslie"}, {"lewis", "louis"}, {"lilly", "lily"},
    {"lindsey", "lindsay"}, {"linsey", "lindsay"}, {"lori", "laurie"}, {"lukas", "lucas"}, {"lynda", "linda"},
    {"lynne", "lynn"}, {"macarthur", "mcarthur"}, {"macarthy", "mccarthy"}, {"macartney", "mccartney"},
    {"maccarthy", "mccarthy"}, {"macdonald", "mcdonald"}, {"macgowan", "mcgowan"}, {"macintosh", "mcintosh"},
    {"macintyre", "mcintyre"}, {"mackay", "mckay"}, {"mackenzie", "mckenzie"}, {"maclean", "mclean"},
    {"macleod", "mcleod"}, {"macmillan", "mcmillan"}, {"macnamara", "mcnamara"}, {"mahomet", "mohammed"},
    {"marc", "mark"}, {"martyn", "martin"}, {"mathew", "matthew"}, {"meghan", "megan"}, {"micheal", "michael"},
    {"michele", "michelle"}, {"mohamad", "mohammed"}, {"mohamed", "mohammed"}, {"mohammad", "mohammed"},
    {"mollie", "molly"}, {"mouhamad", "mohammed"}, {"mouhamed", "mohammed"}, {"muhamad", "mohammed"},
    {"muhammad", "mohammed"}, {"muhammed", "mohammed"}, {"myriam", "miriam"}, {"nathalie", "natalie"},
    {"neal", "neil"}, {"nicolas", "nicholas"}, {"nikole", "nicole"}, {"patrik", "patrick"}, {"phillip", "philip"},
    {"pieter", "peter"}, {"rachael", "rachel"}, {"rajeev", "rajiv"}, {"rebekah", "rebecca"}, {"rhonda", "ronda"},
    {"robb", "rob"}, {"robyn", "robin"}, {"rodger", "roger"}, {"russel", "russell"}, {"sallie", "sally"},
    {"sara", "sarah"}, {"shaun", "sean"}, {"shawn", "sean"}, {"shayne", "shane"}, {"sheri", "sherry"},
    {"sherrie", "sherry"}, {"stacey", "stacy"}, {"stacie", "stacy"}, {"stephen", "steven"}, {"stewart", "stuart"},
    {"suzanne", "susanne"}, {"symon", "simon"}, {"terri", "terry"}, {"theresa", "teresa"}, {"tobey", "toby"},
    {"tomas", "thomas"}, {"toni", "tony"}, {"tracey", "tracy"}, {"tracie", "tracy"}, {"veronika", "veronica"},
    {"viktor", "victor"}, {"viktoria", "victoria"}, {"walther", "walter"}, {"yusef", "yousef"}, {"yusuf", "yousef"},
    {"yvonne", "ivonne"}, {"zachery", "zachary"}, {"zackary", "zachary"}, {"zak", "zach"}};

static bool single(struct runes word) { return word.n == 1 && uni_word(word.at[0]) && word.at[0] != '_'; }

/* Runs of single characters become one word: two suffice, three if an "a" or "i" is among them. */
static struct runes join_acronyms(struct arena *a, struct runes s)
{
    struct runes out = {0}, word;
    for (size_t at = 0, next; next = at, runes_word(s, &next, &word); at = next) {
        size_t n = 0, end = at;
        bool common = false;
        for (struct runes w; runes_word(s, &end, &w) && single(w); n++) {
            common |= w.at[0] == 'a' || w.at[0] == 'i';
            next = end;
        }
        bool joined = n >= (common ? 3u : 2u);
        size_t from = at;
        for (size_t k = 0; k < (n ? n : 1) && runes_word(s, &from, &word); k++) {
            if (out.n && !(joined && k > 0))
                runes_put(a, &out, ' ');
            runes_add(a, &out, word);
        }
    }
    return out;
}

struct runes normalise_open_asr(struct arena *a, struct runes s)
{
    const struct word_table spelling_tables[] = {{spellings, COUNT(spellings)}, spelling_table};
    const struct word_table name_table = {names, COUNT(names)};
    s = english_symbols(a, english_expand(a, english_strip(a, s, fillers), possessive, COUNT(possessive)));
    s = english_numbers(a, replace_all(a, s, compounds, COUNT(compounds)));
    s = replace_words(a, s, spelling_tables, 2);
    s = replace_words(a, s, &name_table, 1);
    return english_finish(a, join_acronyms(a, s));
}
