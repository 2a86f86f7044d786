/* From words to vectors and from scores to the best words: both ends of a decoding step. */

#include "block.h"

#include <math.h>
#include <stddef.h>

#define BLOCK 64 /* scores that are passed over at once if their largest is too small */

/* Rows of a table by their numbers; 1 where a number is none of its rows. */
int run_look_up(const Weight *table, const int64_t *ids, int64_t n, float *out) {
    for (int64_t i = 0; i < n; i++) {
        if (ids[i] < 0 || ids[i] >= table->n) return 1;
        look_up(table, ids[i], out + i * table->k);
    }
    return 0;
}

static void insert(float score, int64_t word, int64_t k, float *best, int64_t *words) {
    int64_t i = k - 1;
    for (; i > 0 && score > best[i - 1]; i--) best[i] = best[i - 1], words[i] = words[i - 1];
    best[i] = score, words[i] = word;
}

static int is_in(int64_t word, const int64_t *words, int64_t k) {
    for (int64_t i = 0; i < k; i++)
        if (words[i] == word) return 1;
    return 0;
}

static void top_row(const float *scores, int64_t v, int64_t k, float *best, int64_t *words) {
    int32_t broken = 0;
    int64_t found = 0;
    for (int64_t i = 0; i < k; i++) best[i] = -INFINITY, words[i] = -1;
    for (int64_t start = 0; start < v; start += BLOCK) {
        int64_t n = v - start < BLOCK ? v - start : BLOCK;
        float largest = -INFINITY;
#pragma omp simd reduction(max : largest) reduction(+ : broken)
        for (int64_t i = 0; i < n; i++) {
            float score = scores[start + i];
            largest = score > largest ? score : largest;
            broken += score != score;
        }
        if (!(largest > best[k - 1])) continue;
        for (int64_t i = 0; i < n; i++)
            if (scores[start + i] > best[k - 1]) insert(scores[start + i], start + i, k, best, words), found++;
    }
    for (int64_t word = 0; found < k && word < v; word++) /* fewer than k are possible: the first others */
        if (!is_in(word, words, k)) words[found++] = word;
    if (broken) best[0] = NAN; /* so that a broken model shows */
}

/* Of each row (m, v) the k best scores and their words, best first, the first among equals; and, where `total` is given,
   the log of the sum of all exponentials, which takes scores to log-probabilities. */
void run_top(const float *scores, int64_t m, int64_t v, int64_t k, float *best, int64_t *words, float *total,
             int64_t threads) {
#pragma omp parallel for num_threads(threads) if (m > 1)
    for (int64_t i = 0; i < m; i++) {
        top_row(scores + i * v, v, k, best + i * k, words + i * k);
        if (total) total[i] = log_sum_exp(scores + i * v, v, best[i * k]);
    }
}
