#include "config.h"

#include "suggest.h"

#include <limits.h>
#include <string.h>

static unsigned least(unsigned a, unsigned b)
{
    return a < b ? a : b;
}

unsigned suggest_distance(const char *a, const char *b)
{
    unsigned rows[3]
                 [SUGGEST_MOST + 1]; /* of the letters of b so far: two ago, the last, this one */
    size_t a_len = strlen(a), b_len = strlen(b);
    if (a_len > SUGGEST_MOST || b_len > SUGGEST_MOST)
        return UINT_MAX;
    for (unsigned i = 0; i <= a_len; i++)
        rows[0][i] = i;
    for (unsigned j = 1; j <= b_len; j++) {
        unsigned *this = rows[j % 3];
        const unsigned *last = rows[(j - 1) % 3], *before = rows[(j + 1) % 3];
        this[0] = j;
        for (unsigned i = 1; i <= a_len; i++) {
            this[i] = least(least(this[i - 1], last[i]) + 1, last[i - 1] + (a[i - 1] != b[j - 1]));
            if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
                this[i] = least(this[i], before[i - 2] + 1);
        }
    }
    return rows[b_len % 3][a_len];
}

void suggestion_weigh(struct suggestion *suggestion, const char *written, const char *word)
{
    size_t len = strlen(written);
    unsigned distance = suggest_distance(written, word);
    if (len > 1 && strncmp(written, word, len) == 0)
        distance = least(distance, 1);
    unsigned allowed = len < 6 ? 1 : (unsigned)(len / 3);
    if (distance > allowed || distance >= strlen(word) ||
        (suggestion->word && distance >= suggestion->distance))
        return;
    *suggestion = (struct suggestion){.word = word, .distance = distance};
}
